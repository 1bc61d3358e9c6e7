//! When clients are to go to another server since their services are down here (RMDS `disconnectSrcDown`, `disconnectSingleSrcDown`,
//! `disconnectServiceList`; `dismountOnOutage` of a service).

use config::P2ps;

const SECOND: u64 = 1_000_000_000;
/// The services are looked at so often; while clients are sent away, a part of them each time.
const LOOK_EVERY: u64 = SECOND / 10;
/// Clients of a thread that are sent away at a look.
pub(super) const SENT_AT_ONCE: usize = 1_000;

/// The change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The services are down for long enough: clients go.
    Out,
    /// The services are up again.
    Back,
}

/// Looks at the services, if it is to.
#[derive(Debug, Default)]
pub(super) struct OutageWatch {
    /// The services that it is about, and whether one of them is enough: any of these outages counts. None if clients stay whatever happens.
    of: Vec<(Vec<String>, bool)>,
    /// How long they have to be down.
    after: u64,
    /// Since when they are.
    since: Option<u64>,
    /// The text for clients while they are.
    why: Option<String>,
    look_at: u64,
}

impl OutageWatch {
    /// As the configuration says; what is known of an outage that goes on stays.
    pub(super) fn configure(&mut self, c: &P2ps) {
        self.of.clear();
        if c.disconnect_src_down || c.disconnect_single_src_down {
            self.of.push((c.disconnect_service_list.clone(), c.disconnect_single_src_down));
        }
        let own = &c.dismount_on_outage;
        if !own.is_empty() {
            // "*" stands for all, as an empty list does.
            let names = if own.iter().any(|name| name == "*") { Vec::new() } else { own.clone() };
            self.of.push((names, true));
        }
        self.after = u64::from(c.disconnect_after_s) * SECOND;
        if self.of.is_empty() {
            (self.since, self.why) = (None, None);
        }
    }

    /// Why no clients are served, if none are.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// When [`OutageWatch::look`] is due.
    pub(super) fn timeout(&self) -> Option<u64> {
        (!self.of.is_empty()).then_some(self.look_at)
    }

    /// Looks, if it is time: `is_out` says whether these services are down, all or any of them. `redirect` is where else to go.
    pub(super) fn look(
        &mut self,
        now: u64,
        is_out: impl Fn(&[String], bool) -> bool,
        redirect: &str,
    ) -> Option<Change> {
        if self.of.is_empty() || now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK_EVERY;
        let Some((services, any)) = self.of.iter().find(|(services, any)| is_out(services, *any)) else {
            self.since = None;
            return self.why.take().map(|_| Change::Back);
        };
        let since = *self.since.get_or_insert(now);
        if self.why.is_some() || now < since.saturating_add(self.after) {
            return None;
        }
        let which = match (&services[..], any) {
            ([], false) => "All services are down".to_owned(),
            ([], true) => "A service is down".to_owned(),
            ([only], _) => format!("Service {only} is down"),
            (names, false) => format!("Services {} are down", names.join(", ")),
            (names, true) => format!("One of the services {} is down", names.join(", ")),
        };
        let redirect = if redirect.is_empty() { "Connect to another server" } else { redirect };
        self.why = Some(format!("{which} at this server. {redirect}"));
        Some(Change::Out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_when_it_has_lasted_and_come_when_it_is_over() {
        let mut watch = OutageWatch::default();
        assert_eq!((watch.timeout(), watch.look(0, |_, _| panic!("it is off"), "")), (None, None));
        let list = vec!["FEED".to_owned()];
        let c = P2ps { disconnect_src_down: true, disconnect_service_list: list.clone(), ..P2ps::default() };
        watch.configure(&c);
        let mut look = |at: u64, out: bool| {
            let change = watch.look(at * SECOND, |names, any| (names, any) == (&list[..], false) && out, "Use b:14002");
            (change, watch.why().map(str::to_owned))
        };
        assert_eq!(look(1, true), (None, None));
        assert_eq!(look(5, false), (None, None), "it was short");
        assert_eq!(look(10, true), (None, None));
        assert_eq!(look(19, true), (None, None));
        let text = "Service FEED is down at this server. Use b:14002".to_owned();
        assert_eq!(look(20, true), (Some(Change::Out), Some(text.clone())));
        assert_eq!(look(30, true), (None, Some(text)));
        assert_eq!(look(31, false), (Some(Change::Back), None));
        assert_eq!(look(32, false), (None, None));
    }

    #[test]
    fn a_service_may_send_clients_away_by_itself() {
        let mut watch = OutageWatch::default();
        let list = vec!["A".to_owned(), "B".to_owned()];
        let c = P2ps { dismount_on_outage: list.clone(), disconnect_after_s: 0, ..P2ps::default() };
        watch.configure(&c);
        assert_eq!(watch.look(SECOND, |names, any| (names, any) == (&list[..], true), ""), Some(Change::Out));
        assert_eq!(watch.why(), Some("One of the services A, B is down at this server. Connect to another server"));
        // Beside what holds for all: either outage is enough.
        let all = P2ps { disconnect_src_down: true, dismount_on_outage: vec!["*".to_owned()], ..c };
        watch.configure(&all);
        assert_eq!(watch.look(2 * SECOND, |_, _| false, ""), Some(Change::Back));
        assert_eq!(watch.look(3 * SECOND, |names, any| names.is_empty() && any, ""), Some(Change::Out));
        assert_eq!(watch.look(4 * SECOND, |names, any| names.is_empty() && !any, ""), None, "out as before");
        watch.configure(&P2ps::default());
        assert_eq!((watch.timeout(), watch.why()), (None, None));
    }
}
