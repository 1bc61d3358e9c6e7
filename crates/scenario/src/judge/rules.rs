//! The rules: what a right client does, and where that is written.

/// A rule that a client under test is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name in reports and files.
    pub name: &'static str,
    /// The deeds of a right client.
    pub about: &'static str,
    /// Where that is written. "Guide" is the RDM usage guide of the Transport API, by its sections.
    pub source: &'static str,
}

/// A number that a rule goes by; a scenario may have another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Its name in `[limits]`; the unit is in it.
    pub name: &'static str,
    /// Value where a scenario says nothing.
    pub value: f64,
}

const fn limit(name: &'static str, value: f64) -> Limit {
    Limit { name, value }
}

/// The limits with what they are by default.
pub const LIMITS: [Limit; 15] = [
    limit("reconnect-s", 15.0),
    limit("connections-in-10-s", 25.0),
    limit("logins-in-10-s", 12.0),
    limit("dead-server-s", 3.0),
    limit("reopen-s", 12.0),
    limit("reopens-in-10-s", 25.0),
    limit("final-s", 60.0),
    limit("dictionaries-in-10-s", 4.0),
    limit("posts-after-nak", 1.0),
    limit("post-retries-in-10-s", 5.0),
    limit("report-s", 1.0),
    limit("memory-mb", 256.0),
    limit("answer-s", 10.0),
    limit("standby-s", 5.0),
    limit("time-fields-s", 3.0),
];

macro_rules! rules {
    ($($constant:ident $name:literal $about:literal $source:literal;)*) => {
        $(
            pub(super) const $constant: Rule = Rule { name: $name, about: $about, source: $source };
        )*
        /// All rules.
        pub const RULES: &[Rule] = &[$($constant),*];
    };
}

rules! {
    STEPS "steps"
        "The client does what the steps of the scenario wait for (S has, S gets), in the time that they give it, and nothing that they exclude."
        "the scenario's own steps";
    WELL_FORMED "well-formed"
        "Whatever the client sends can be decoded as a message of its class, with the model of its domain."
        "Guide 2; Transport API developers guide, message package";
    STAYS_ALIVE "stays-alive"
        "The client's process is there until the scenario ends: no message or loss ends it."
        "no guide asks for less";
    MEMORY "memory"
        "The client does not keep more and more for what is sent to it: its resident memory grows by no more than memory-mb megabytes."
        "no guide has a figure; memory-mb says what is too much";
    PINGS "pings"
        "A client that has nothing to say sends a ping, so that the server hears from it within each ping timeout of the handshake."
        "Transport API developers guide, ping management";
    DEAD_SERVER "dead-server"
        "A client (or provider) that hears nothing for the ping timeout ends the connection by itself; dead-server-s seconds later at the latest it has, or one ping timeout and a second where that is more."
        "Transport API developers guide, ping management";
    RECONNECTS "reconnects"
        "A client whose connection is lost connects again within reconnect-s seconds of the server being there."
        "Guide 2.2.2 (recovery); EMA configuration guide, ReconnectAttemptLimit, ReconnectMinDelay, ReconnectMaxDelay";
    RECONNECT_PACING "reconnect-pacing"
        "A client does not connect as fast as it can where each connection ends: no more than connections-in-10-s in ten seconds."
        "EMA configuration guide, ReconnectMinDelay, ReconnectMaxDelay";
    LOGIN_FIRST "login-first"
        "The login is the first request of a connection, and nothing else is asked for before it has been accepted."
        "Guide 3 (login domain): a consumer logs in before any other request";
    LOGIN_PACING "login-pacing"
        "A client whose login is refused or lost does not ask again at once and for ever: no more than logins-in-10-s in ten seconds."
        "Guide 3 (login status); EMA configuration guide, ReconnectMinDelay";
    CLOSED_LOGIN "closed-login"
        "A login that is closed closes all streams of the connection: nothing is asked for or posted on it until another login is accepted."
        "Guide 3: a closed login closes every stream that was opened by it";
    TOKEN_RENEWAL "token-renewal"
        "A client whose login was accepted with AuthenticationTTReissue reissues the login before that time."
        "Guide 3, table of the login refresh, AuthenticationTTReissue";
    SERVICE_KNOWN "service-known"
        "Items are asked for at services that the directory of this connection has, by the ids that they have on it."
        "Guide 4 (source directory): service ids are those of the connection";
    SERVICE_USABLE "service-usable"
        "Nothing new is asked for at a service that is down or does not accept requests."
        "Guide 4.3 (State filter: ServiceState, AcceptingRequests)";
    OPEN_WINDOW "open-window"
        "No more requests wait for their image than the OpenWindow of the service says."
        "Guide 4.3 (Load filter: OpenWindow)";
    DICTIONARY_REQUESTS "dictionary-requests"
        "A dictionary is asked for once a connection, and not again and again where it is refused or does not come: no more than dictionaries-in-10-s in ten seconds."
        "Guide 5 (dictionary domain)";
    REOPENS "reopens"
        "An item that was lost (ClosedRecover, its connection or its service gone) is asked for again within reopen-s seconds of being there to be asked for."
        "Guide 2.2.2 and table 18: ClosedRecover may be opened again; SingleOpen 0 leaves that to the consumer";
    REOPEN_PACING "reopen-pacing"
        "An item that is closed again each time is asked for with pauses: no more than reopens-in-10-s requests for it in ten seconds."
        "Guide 2.2.2 (recovery of streams)";
    FINAL_STATES "final-states"
        "An item that was closed for good (Closed) is not asked for again by itself within final-s seconds."
        "Guide 2.2.2: Closed is final, ClosedRecover is not";
    REDIRECTS "redirects"
        "An item that was redirected is asked for under the name that the message says, within reopen-s seconds, and not under the old one."
        "Guide 2.2.2 (Redirected); Transport API developers guide, stream states";
    CLOSED_STREAMS "closed-streams"
        "Nothing is sent on a stream that the server has closed, or that was never opened, except another request with its id."
        "Transport API developers guide, stream identification";
    STREAM_IDS "stream-ids"
        "An open stream keeps its item: a request with its id has the same name, service and domain."
        "Guide 2.6 (reissues); Transport API developers guide, stream identification";
    POST_NAK "post-nak"
        "A post that was refused is not sent again as it is: no more than posts-after-nak times."
        "Guide 3.2.13 (posting): the NAK code says why, and what to do about it comes before another post";
    POST_RETRIES "post-retries"
        "A post that is not answered is repeated with pauses: no more than post-retries-in-10-s times in ten seconds."
        "Guide 3.2.13 (posting): an unanswered post may be repeated after a timeout";
    SUSPECT_DATA "suspect-data"
        "Data is not used as good while its state is Suspect (reports: within report-s seconds nothing is used, or it is marked suspect)."
        "Guide 2.2.2, 6: data state Suspect means that the data is stale or wrong";
    CLEAR_CACHE "clear-cache"
        "A refresh with ClearCache replaces all that was known of the item: fields that it does not have are gone."
        "Guide 2 (refresh flags); Transport API developers guide, CLEAR_CACHE";
    IMAGE_PARTS "image-parts"
        "An image in several parts is used with what all of them have, and as whole only after the part that completes it."
        "Guide 2 (RefreshComplete), 2.6 (multi-part refreshes)";
    TIME_FIELDS "time-fields"
        "Time fields are data: where they go back or leap, the item is neither closed nor asked for again on account of that (within time-fields-s seconds)."
        "Guide 6 (market price): fields of an update replace those of before, whatever their values are";
    STANDBY_PARTS "standby-parts"
        "A client that holds a warm-standby pair says to each server what it is: one is active and the other standby, never both active for longer than standby-s seconds."
        "Guide 3 (ConsumerConnectionStatus, WarmStandbyMode), 4 (ConsumerStatus)";
    STANDBY_TAKES_OVER "standby-takes-over"
        "Where the active server of a warm-standby pair is lost, the client says to the other one within standby-s seconds that it is active."
        "Guide 3 (ConsumerConnectionStatus, WarmStandbyMode); EMA configuration guide, WarmStandbyChannelSet";
    LOGIN_ANSWERED "login-answered"
        "A provider answers each login, and each reissue of one that asks for a refresh, within answer-s seconds."
        "Guide 3 (login domain): a login request is answered by a refresh, or a status that closes it";
    DIRECTORY_ANSWERED "directory-answered"
        "A provider answers a request for the directory with a complete refresh within answer-s seconds."
        "Guide 4 (source directory)";
    DICTIONARY_ANSWERED "dictionary-answered"
        "A provider answers a request for a dictionary, up to the last part of it or with a close, within answer-s seconds."
        "Guide 5 (dictionary domain)";
    REQUESTS_ANSWERED "requests-answered"
        "A provider answers each request for an item, and each reissue that asks for a refresh, with an image to its last part or with a close, within answer-s seconds."
        "Guide 2 (request, refresh and status messages)";
    BATCHES "batches"
        "A provider whose login refresh says that it takes batches closes the stream of a batch, and answers each of its items on the streams that follow."
        "Guide 3 (SupportBatchRequests); Transport API developers guide, batch requests";
    VIEWS "views"
        "A provider whose login refresh says that it takes views sends no other fields than those of the view."
        "Guide 3 (SupportViewRequests); Transport API developers guide, dynamic views";
    RIGHT_ITEM "right-item"
        "An image has the name that its stream was asked for, or none."
        "Guide 2 (refresh messages, message key)";
    SOLICITED "solicited"
        "The image that answers a request says that it is solicited, and no other one does."
        "Guide 2 (refresh flags)";
    SNAPSHOTS "snapshots"
        "The image of a request without streaming has the stream state NonStreaming."
        "Guide 2 (non-streaming requests)";
    IMAGES_FIRST "images-first"
        "No update of an item comes before its image."
        "Guide 2 (refresh and update messages)";
    CLOSED_ITEMS "closed-items"
        "Nothing comes on a stream that was closed from here, but what was on its way."
        "Guide 2 (close messages)";
    ENDED_STREAMS "ended-streams"
        "Nothing comes on a stream that the provider has ended itself, by a final state or with the last part of a snapshot."
        "Guide 2.2.2 (stream states)";
    KNOWN_STREAMS "known-streams"
        "An interactive provider sends on streams that its consumer has opened, and on no others."
        "Transport API developers guide, stream identification";
    POST_ANSWERS "post-answers"
        "A provider that takes posts answers each that asks for it with one ack, with the id and the sequence number of the post, within answer-s seconds."
        "Guide 3 (SupportOMMPost); Transport API developers guide, post and ack messages";
    KEEPS_CONNECTIONS "keeps-connections"
        "A provider does not end the connection of a consumer that does nothing wrong, however much it asks for."
        "no guide asks for less";
    PUBLISHER_ROLE "publisher-role"
        "A non-interactive provider logs in as one: Role 1."
        "Guide 3, table of the login request, Role";
    DIRECTORY_FIRST "directory-first"
        "A non-interactive provider sends its directory, within answer-s seconds of its login being accepted, before any item of it."
        "Guide 3, 4: a non-interactive provider logs in, sends its directory, and then its items";
    REPUBLISHES "republishes"
        "A non-interactive provider sends the images of all that it had published within reopen-s seconds of its directory on another connection."
        "Guide 2.2.2 (recovery); Transport API developers guide, non-interactive providers";
}

/// The rule of a name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}
