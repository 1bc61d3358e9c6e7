//! Counters of a P2PS.

hub_items::counters! {
/// Totals since the start. Gauges are marked as such.
#[non_exhaustive]
pub struct Counters {
    /// Clients connected.
    pub clients: u64 as Gauge,
    /// Clients whose updates are conflated because they take less than there is.
    pub clients_conflated: u64 as Gauge,
    /// Clients logged in.
    pub mounts: u64 as Gauge,
    /// Servers that clients are told of which ask for them at login.
    pub servers: u64 as Gauge,
    /// Items that someone watches, views and snapshots counted apart, and those that stay open though nobody does.
    pub items: u64 as Gauge,
    /// Items that nobody watches, and that stay open for who comes back (consumerAgeUnwatchedItemTime); they count as items, too.
    pub items_unwatched: u64 as Gauge,
    /// Watchers of items.
    pub watchers: u64 as Gauge,
    /// Items that wait to be opened at a Source Distributor.
    pub items_waiting: u64 as Gauge,
    /// Items of all clients against totalItemLimit: 0 normal, 1 burdened, 2 overloaded.
    pub load_state: u64 as Gauge,
    /// Services that are burdened by what is open of them.
    pub services_burdened: u64 as Gauge,
    /// Services at their limit, and not below its upper mark since.
    pub services_overloaded: u64 as Gauge,
    /// Opens that wait, as openQueueBurdenedThreshold and its like say: 0 normal, 1 burdened, 2 overloaded.
    pub open_queue_state: u64 as Gauge,
    /// Clients near their limit of items (itemLimitPerMount).
    pub mounts_burdened: u64 as Gauge,
    /// Clients at their limit of items, or not below its upper mark since.
    pub mounts_overloaded: u64 as Gauge,
    /// Users near their limit of items (aggregateItemLimit).
    pub users_burdened: u64 as Gauge,
    /// Users at their limit of items, or not below its upper mark since.
    pub users_overloaded: u64 as Gauge,
    /// Items whose images are cached.
    pub items_cached: u64 as Gauge,
    /// Images given out of the cache, each client counted.
    pub images_from_cache: u64,
    /// Images given out of the cache, as stale, of items that were lost.
    pub images_stale: u64,
    /// Items that are cached no more because others needed their room (maxCacheSize).
    pub items_uncached: u64,
    /// Images and updates that could not be applied to a cached image.
    pub cache_failures: u64,
    /// Updates that got the lock that a field of theirs says (headline_permission_field of the P2PS).
    pub headlines: u64,
    /// States of items that operators were not told of, since there were more in a second than they are told of (log_item_error, log_non_recoverable_opens).
    pub item_states_not_told: u64,
    /// Streams that were opened for clients because a symbol list or a chain named the item.
    pub streams_listed: u64,
    /// Messages of symbol lists and chains whose names could not be read.
    pub symbol_lists_bad: u64,
    /// Messages of symbol lists and chains whose items were not opened, since too many waited to be, and records of chains that a client has too many of.
    pub symbol_lists_over: u64,
    /// Messages received from clients.
    pub messages_in: u64,
    /// Batches that asked for so much that they took more than a turn.
    pub batches_in_turns: u64,
    /// Messages of clients that had to wait behind a batch of theirs.
    pub messages_behind: u64,
    /// Messages of clients that were to be closed already, or were never told of.
    pub messages_unwanted: u64,
    /// Messages delivered to clients.
    pub messages_out: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused.
    pub logins_refused: u64,
    /// Logins that the permissions have ended.
    pub logins_ended: u64,
    /// Streams of items that were closed, or not opened, for want of a right, clients counted each.
    pub items_denied: u64,
    /// Updates and generic messages with permission data of their own that were kept from a client.
    pub messages_denied: u64,
    /// Posts refused for want of a right.
    pub posts_denied: u64,
    /// Messages of clients that had to wait for the audit.
    pub messages_held_up: u64,
    /// Logins that ended because their token ran out.
    pub tokens_expired: u64,
    /// Requests for items received, those in batches counted each.
    pub requests: u64,
    /// Requests refused.
    pub requests_refused: u64,
    /// Updates read from the hub.
    pub updates_in: u64,
    /// Updates for items that nobody watches here.
    pub updates_unwatched: u64,
    /// Updates delivered, each client counted.
    pub updates_out: u64,
    /// Updates that went out merged into others, each client counted: what they had got more without conflation.
    pub updates_conflated: u64,
    /// Images or parts of images read from the hub.
    pub images_in: u64,
    /// Images or parts delivered, each client counted.
    pub images_out: u64,
    /// Images that reached nobody.
    pub images_unwanted: u64,
    /// Images that arrived behind updates that they do not hold, and were asked for again.
    pub images_late: u64,
    /// Item statuses delivered, each client counted.
    pub statuses_out: u64,
    /// Items that stayed open though nobody watched them, and that were watched again.
    pub items_found_open: u64,
    /// Items given back because nobody watched them again in their time, or others needed their place.
    pub items_aged: u64,
    /// Items that became suspect because their Source Distributor was lost.
    pub items_lost: u64,
    /// Opens of items, and requests for their images, at the Source Distributor that stands by.
    pub mirror_requests: u64,
    /// Updates of items whose Source Distributor stands by.
    pub mirror_updates: u64,
    /// Items that went on at the Source Distributor that stood by.
    pub hot_takeovers: u64,
    /// Items among them that went on with their next update, and needed no image.
    pub hot_takeovers_in_sequence: u64,
    /// Items among them that were taken over because of a state that their Source Distributor told of them.
    pub suspect_takeovers: u64,
    /// Updates dropped after such a takeover, because the Source Distributor before had sent them.
    pub updates_repeated: u64,
    /// Images or parts dropped after such a takeover, because they were older than what the Source Distributor before had sent.
    pub images_held_back: u64,
    /// Items and watchers that were looked at for losses, and for states of services and groups: what those cost.
    pub items_touched: u64,
    /// Items asked for again after a loss.
    pub items_recovered: u64,
    /// Posts received.
    pub posts_in: u64,
    /// Acks delivered.
    pub acks_out: u64,
    /// Negative acks that the P2PS gave itself.
    pub naks_out: u64,
    /// Posts that nobody answered in time.
    pub posts_timed_out: u64,
    /// Acks for posts that no one waits for any more.
    pub acks_unclaimed: u64,
    /// Generic messages, both ways.
    pub generics: u64,
    /// Generic messages that had nowhere to go.
    pub generics_dropped: u64,
    /// Round trips measured over login streams.
    pub round_trips: u64,
    /// Round trips that a client did not answer before the next was due.
    pub round_trips_unanswered: u64,
    /// Times that a client which had asked was told that the servers have changed.
    pub servers_told: u64,
    /// Times that a client has made this server its active or its standby one.
    pub standby_changes: u64,
    /// Updates and images filtered for a view, or by the filter of their service, once per view.
    pub views_filtered: u64,
    /// Updates that the filter of a service has withheld for their type, once per view.
    pub updates_filtered: u64,
    /// Updates that a login does not want for their type, once per view.
    pub updates_left_out: u64,
    /// Bodies that could not be filtered and went out whole.
    pub views_unfiltered: u64,
    /// Messages from the hub that could not be read or changed, and were dropped.
    pub hub_messages_bad: u64,
    /// Messages of the P2PS's own that could not be written, for a client or for a Source Distributor.
    pub messages_unwritable: u64,
    /// Messages from the hub about an item, service or source that is not here any more.
    pub hub_messages_unclaimed: u64,
    /// Services that there was no id left for.
    pub services_refused: u64,
    /// Gaps in a hub stream.
    pub hub_gaps: u64,
    /// Messages that were missing in gaps of a hub stream.
    pub hub_messages_lost: u64,
    /// Items that lost messages were about: suspect, and their images asked for again.
    pub items_missed: u64,
    /// Blocks of a hub stream dropped: of another life of the Source Distributor than the one that was joined.
    pub hub_blocks_foreign: u64,
    /// Images or parts that came to this P2PS alone.
    pub point_to_point_images: u64,
    /// Updates that went out behind an image for which they had been held.
    pub updates_replayed: u64,
    /// Times that what was held for an item had no room: its image is asked for again.
    pub holds_dropped: u64,
    /// Times that this process was found to have stood still.
    pub freezes: u64,
    /// Clients cut off because they were slow; they count as closed too.
    pub clients_cut_off: u64,
    /// Clients closed for what they sent, or for what they did not take.
    pub clients_closed: u64,
    /// Field ids that two dictionaries define differently.
    pub dictionary_conflicts: u64,
    /// Dictionary messages from the hub that could not be read.
    pub dictionary_errors: u64,
}
}
