//! Counters of the Source Distributor: everything it dropped or refused, and the traffic.

hub_items::counters! {
/// Totals since the start. Nothing is dropped without one of these going up.
pub struct Counters {
    /// Updates relayed to the hub.
    pub updates: u64,
    /// Images (parts) relayed to the hub.
    pub images: u64,
    /// Item statuses relayed to the hub.
    pub statuses: u64,
    /// Item requests sent to providers, recoveries and retries included.
    pub requests: u64,
    /// Requests for a further image of an open item sent to providers.
    pub reissues: u64,
    /// Closes sent to providers.
    pub closes: u64,
    /// Opens received from P2PSs.
    pub opens: u64,
    /// Opens refused: service unknown.
    pub refused_unknown_service: u64,
    /// Opens refused: item not found at a non-interactive provider.
    pub refused_not_found: u64,
    /// Opens refused: the bound on items is reached.
    pub refused_no_resources: u64,
    /// Opens of items that nobody had published, and that wait to be.
    pub awaited_publications: u64,
    /// Opens refused: the request makes no sense here (login or directory domain).
    pub refused_usage: u64,
    /// States of services and groups that gave way to the next ones of the same turn, or waited for the turn behind.
    pub states_merged: u64,
    /// Opens refused: providers went each time that they were asked for the item.
    pub refused_given_up: u64,
    /// Items that were looked at for states and mergers of services and groups: what those cost.
    pub items_touched: u64,
    /// Items that were given up: they were asked for in vain too often (retryLimit), or their provider went each time that it was asked.
    pub given_up: u64,
    /// Items whose requests were unanswered when their provider went: they are asked for last and singly.
    pub doubted: u64,
    /// Images asked for because their items were Suspect for too long (staleRecoveryRetryTime).
    pub stale_asked: u64,
    /// Items asked for in vain: no answer within the request timeout.
    pub request_timeouts: u64,
    /// Items lost with their provider, or closed by it to be recovered, and queued to be asked for again.
    pub recoveries: u64,
    /// Times that a service was silent at a provider for too long.
    pub data_interruptions: u64,
    /// Times that data came again after that.
    pub data_resumptions: u64,
    /// Items that were told Suspect because their provider was silent and no other had them.
    pub items_silent: u64,
    /// Items asked for at the provider that stands by for the one that has them (hot standby).
    pub mirror_requests: u64,
    /// Updates of providers that stand by, which nobody gets unless they take over.
    pub mirror_updates: u64,
    /// Items that a hot standby has taken over.
    pub hot_takeovers: u64,
    /// Items of these that went on with the next update, without a new image.
    pub hot_takeovers_in_sequence: u64,
    /// Updates dropped after a takeover: the provider before had sent them.
    pub dropped_repeats: u64,
    /// Parts of images dropped after a takeover: they are older than what those who watch have had.
    pub images_held_back: u64,
    /// Messages dropped: session not known.
    pub dropped_unknown_session: u64,
    /// Messages dropped: no item on their stream (crossed with a close, usually).
    pub dropped_unknown_stream: u64,
    /// Updates dropped: nobody watches, or the item has no image yet.
    pub dropped_not_live: u64,
    /// Headlines that were given the lock of the permission code in their field.
    pub headlines: u64,
    /// Updates of filtered services that did not go on: nothing passed, or their type is withheld.
    pub updates_filtered: u64,
    /// Updates of conflated services that were merged into others before they went to the hub.
    pub updates_conflated: u64,
    /// Images and updates of filtered services that could not be read, and went on whole.
    pub unfiltered: u64,
    /// Messages dropped: class or domain has no place there.
    pub dropped_unexpected: u64,
    /// Messages dropped: they name a service that the provider has not announced.
    pub dropped_unknown_service: u64,
    /// Messages of a non-interactive provider dropped: another one has taken the item over.
    pub dropped_not_owner: u64,
    /// Requests of a P2PS dropped: no such handle, or not told to it (crossed with an end, usually).
    pub dropped_unknown_handle: u64,
    /// Generic messages to an item that is not open at a provider dropped.
    pub dropped_generic: u64,
    /// Updates that could not be applied to a cached image; the image is Suspect until the next refresh.
    pub cache_failures: u64,
    /// Images that no provider published any more and nobody watched, forgotten: their time was over, or room was needed.
    pub images_aged: u64,
    /// Items that their hot standby took over because the provider in use said Suspect of them: part of all that took over.
    pub suspect_takeovers: u64,
    /// Items that have left a provider at its limit for others of a higher priority class.
    pub preempted: u64,
    /// Items of non-interactive providers that went back to another publisher when theirs left.
    pub taken_back: u64,
    /// Images of second publishers that were not kept: as many stand by as there may be items.
    pub standby_dropped: u64,
    /// Records that were too old, or one too many for their service.
    pub records_expired: u64,
    /// Records taken back after a start.
    pub records_restored: u64,
    /// Ends of records that the persistent cache was not told of, since too many of them waited.
    pub record_ends_lost: u64,
    /// Services that nobody offered any more and that had no item, forgotten.
    pub services_aged: u64,
    /// Services deleted since no provider has offered them for as long as they are kept.
    pub services_given_up: u64,
    /// Images of interactive items given out of the cache; those of several parts count once.
    pub images_from_cache: u64,
    /// Images given out of the cache, as Suspect, of items that were lost.
    pub images_stale: u64,
    /// Items that are cached no more because others needed their room (maxCacheSize).
    pub items_uncached: u64,
    /// Items of interactive providers whose images are cached.
    pub items_cached: u64 as Gauge,
    /// Services refused: the name is taken by a provider of the other kind, or the table is full.
    pub refused_services: u64,
    /// Posts received from P2PSs.
    pub posts: u64,
    /// Posts refused by the Source Distributor, whatever the reason.
    pub refused_posts: u64,
    /// Posts that waited for others (insertFlushInterval) when the session ended that they were for: of those the posters are told that want an ack.
    pub posts_not_sent: u64,
    /// Posts not acknowledged in time.
    pub post_timeouts: u64,
    /// Acks dropped: they answer no pending post.
    pub dropped_acks: u64,
    /// Dictionary parts dropped: no such download, or over the bound.
    pub dropped_dictionaries: u64,
    /// Sessions closed for what the provider sent or did not send.
    pub closed_sessions: u64,
    /// P2PSs cut off for what they sent.
    pub closed_p2ps: u64,
    /// P2PSs declared lost: silent for too long.
    pub silent_p2ps: u64,
    /// P2PSs declared lost: past a bound, by what they asked or by what they had not read.
    pub overrun_p2ps: u64,
    /// P2PSs whose lease has ended.
    pub expired_leases: u64,
    /// Gaps in the stream that P2PSs have told of.
    pub gaps: u64,
    /// Gaps of these that lie before what is kept of the stream.
    pub gaps_too_old: u64,
    /// Times that a P2PS was told of the others that are servers for consumers.
    pub servers_told: u64,
    /// Images sent to one P2PS alone.
    pub point_to_point_images: u64,
    /// Times that this process was found to have stood still.
    pub freezes: u64,
    /// Times that providers had to wait since too much was on its way to a P2PS.
    pub waits: u64,
    /// Times that a P2PS was not waited for any more since it did not move.
    pub left_behind: u64,
    /// Messages that could not be written, and so were not sent or published.
    pub encode_failures: u64,
    /// P2PSs refused: there are 4,096 already.
    pub refused_p2ps: u64,
}
}
