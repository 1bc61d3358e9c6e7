//! Timers of a P2PS: everything that it does without a message, since a time has come or since a turn has left work over.
//!
//! Deadlines stay in the tables of what has them, in order, so that none outlives what it is for; here is which there are. The order is that in
//! which they are acted upon within a turn.

use super::P2ps;
use super::sources::end_unwatched;

/// Something that a turn does, by itself or when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// The items of a service go back to their first source ([`super::Config::source_failback`]).
    FailBack,
    /// Items are told of losses and move, so many a turn.
    Outages,
    /// Mirrors are looked for again, and images asked for that were held back too long.
    HotStandby,
    /// The interval of a view that is conflated by time has ended.
    Conflation,
    /// New rights are carried out, and messages acted upon that waited for the audit.
    Permissions,
    /// Posts were not answered in time ([`super::Config::post_timeout`]).
    Posts,
    /// The tokens of logins have run out.
    Tokens,
    /// Clients have not logged in ([`super::Config::login_timeout`]).
    AwaitedLogins,
    /// Round trips are measured ([`super::Config::round_trip_interval`]).
    RoundTrips,
    /// Items are asked for again ([`super::Config::recovery_delay`]).
    Retries,
    /// Images do not come, and those who want more than these hold are told so ([`super::Config::request_timeout`]).
    DeferredReissues,
    /// Heartbeats, silence of Source Distributors, and losses that these do not tell of.
    SourceSilence,
    /// Clients get a dictionary that has changed.
    Dictionaries,
    /// The queue of opens is looked at.
    OpenQueue,
    /// How full this server is, is worked out and told ([`super::Config::load_factor_interval`]).
    LoadFactor,
    /// Other P2PSs and clients hear of this server, and clients of others.
    Servers,
    /// Streams are opened that symbol lists name, so many a turn.
    SymbolLists,
    /// Streams end of clients that are gone or logged out, so many a turn.
    Departures,
    /// Items are given back that nobody has watched for long enough ([`super::Config::unwatched_time`]), so many a turn.
    Unwatched,
    /// Batches go on, so much a turn.
    Batches,
    /// Memory of idle clients is given back.
    Trim,
}

impl Timer {
    /// All of them, in the order in which a turn acts upon them: what comes to an end is told before what begins.
    const ALL: [Self; 21] = [
        Self::FailBack,
        Self::Outages,
        Self::HotStandby,
        Self::Conflation,
        Self::Permissions,
        Self::Posts,
        Self::Tokens,
        Self::AwaitedLogins,
        Self::RoundTrips,
        Self::Retries,
        Self::DeferredReissues,
        Self::SourceSilence,
        Self::Dictionaries,
        Self::OpenQueue,
        Self::LoadFactor,
        Self::Servers,
        Self::SymbolLists,
        Self::Departures,
        Self::Unwatched,
        Self::Batches,
        Self::Trim,
    ];
}

impl P2ps {
    /// When the first of all times comes, whatever work there is.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        Timer::ALL.iter().filter_map(|&timer| self.deadline(timer)).min()
    }

    /// Acts upon everything that is due, and goes on with what is left over from earlier turns.
    pub(super) fn act_on_timers(&mut self) {
        for timer in Timer::ALL {
            self.act(timer);
        }
    }

    /// When something is due; 0: as soon as possible. What a turn goes on with by itself has no time: [`P2ps::has_work`] tells of it.
    fn deadline(&self, timer: Timer) -> Option<u64> {
        match timer {
            Timer::FailBack => self.sources.failback_deadline(),
            Timer::HotStandby => self.hot_standby.timeout(),
            Timer::Conflation => self.output.conflation_deadline(),
            Timer::Posts => self.clients.post_deadline(),
            Timer::Tokens => self.clients.token_deadline(),
            Timer::AwaitedLogins => self.clients.login_deadline(),
            Timer::RoundTrips => self.clients.round_trip_deadline(),
            Timer::Retries => self.sources.retry_deadline(),
            Timer::DeferredReissues => self.sources.reissue_deadline(),
            Timer::SourceSilence => self.sources.silence_deadline(&self.config),
            Timer::Dictionaries => self.clients.dictionary_deadline(),
            Timer::OpenQueue => self.load.timeout(),
            Timer::LoadFactor => self.load.factor_timeout(self.config.load_factor_interval),
            Timer::Servers => self.servers.timeout(self.servers.is_server(self.config.connections.of_hub)),
            Timer::Unwatched => self.items.unwatched().deadline(self.config.most_unwatched()),
            Timer::Trim => (!self.clients.is_empty()).then(|| self.output.trim_deadline()),
            Timer::Outages | Timer::Permissions | Timer::SymbolLists | Timer::Departures | Timer::Batches => None,
        }
    }

    fn act(&mut self, timer: Timer) {
        match timer {
            Timer::FailBack => self.fail_back(),
            Timer::Outages => self.work_outages(),
            Timer::HotStandby => self.work_hot_standby(),
            Timer::Conflation => self.release_due(),
            Timer::Permissions if self.gate.is_on() => self.work_on_permissions(),
            Timer::Permissions => {}
            Timer::Posts => self.time_out_posts(),
            Timer::Tokens => self.expire_logins(),
            Timer::AwaitedLogins => self.close_without_login(),
            Timer::RoundTrips => self.measure_round_trips(),
            Timer::Retries => self.retry_items(),
            Timer::DeferredReissues => self.explain_deferred(),
            Timer::SourceSilence => {
                self.note_freeze();
                self.watch_sources();
            }
            Timer::Dictionaries => self.renew_dictionaries(),
            Timer::OpenQueue => self.look_at_queue(),
            Timer::LoadFactor => self.tell_load_factor(),
            Timer::Servers => self.work_on_servers(),
            Timer::SymbolLists => self.open_named(),
            Timer::Departures => self.work_departures(),
            Timer::Unwatched => end_unwatched(self),
            Timer::Batches => self.work_backlogs(),
            Timer::Trim => self.output.trim(self.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timer_is_in_the_list_once() {
        for (at, timer) in Timer::ALL.into_iter().enumerate() {
            assert_eq!(timer as usize, at, "{timer:?}");
        }
        assert_eq!(Timer::Trim as usize + 1, Timer::ALL.len(), "the last one");
    }
}
