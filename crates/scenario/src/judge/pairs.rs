//! A warm-standby pair: what the client says that each server is to it.

use std::collections::BTreeMap;

use super::notes::Notes;
use super::rules;
use crate::numbers::SECOND;
use crate::standby::StandbyPart;

/// A server of the pair.
#[derive(Debug, Default)]
struct Server {
    logged_in: bool,
    part: Option<StandbyPart>,
}

/// The rules of a pair. Times are nanoseconds of one clock.
#[derive(Debug)]
pub struct Pair {
    servers: [Server; 2],
    /// The one that was the active one last.
    active: usize,
    /// Both are logged in to, and do not have one part each, since then.
    unsettled_since_ns: Option<u64>,
    /// The active one was lost, and the other one can take over since then.
    waits_since_ns: Option<u64>,
    notes: Notes,
}

impl Pair {
    /// Nothing has been seen yet.
    pub fn new(limits: BTreeMap<String, f64>) -> Self {
        Self {
            servers: [Server::default(), Server::default()],
            active: 0,
            unsettled_since_ns: None,
            waits_since_ns: None,
            notes: Notes::new(limits),
        }
    }

    /// Findings and occasions so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The server that is the active one, or was the last.
    pub fn active(&self) -> usize {
        self.active
    }

    /// A login is accepted at a server.
    pub fn logged_in(&mut self, now: u64, server: usize) {
        self.servers[server].logged_in = true;
        self.look(now);
    }

    /// No login is left at a server.
    pub fn lost(&mut self, now: u64, server: usize) {
        let lost = std::mem::take(&mut self.servers[server]);
        if lost.part == Some(StandbyPart::Active) && self.servers[1 - server].logged_in {
            self.notes.occasion(&rules::STANDBY_TAKES_OVER);
            self.waits_since_ns = Some(now);
        }
        if !self.servers[1 - server].logged_in {
            self.waits_since_ns = None;
        }
        self.look(now);
    }

    /// The client says what a server is to it.
    pub fn told(&mut self, now: u64, server: usize, part: StandbyPart) {
        self.servers[server].part = Some(part);
        if part == StandbyPart::Active {
            self.active = server;
            self.waits_since_ns = None;
        }
        self.look(now);
    }

    fn look(&mut self, now: u64) {
        let [first, second] = &self.servers;
        let is_pair = first.logged_in && second.logged_in;
        let parts = [first.part, second.part];
        let has_each = parts.contains(&Some(StandbyPart::Active)) && parts.contains(&Some(StandbyPart::Standby));
        if is_pair && has_each && self.unsettled_since_ns.is_some() {
            self.notes.occasion(&rules::STANDBY_PARTS);
        }
        self.unsettled_since_ns = (is_pair && !has_each).then(|| self.unsettled_since_ns.unwrap_or(now));
    }

    /// When something is due next.
    pub fn due(&self) -> Option<u64> {
        let since = [self.unsettled_since_ns, self.waits_since_ns].into_iter().flatten().min();
        since.map(|since| since + self.notes.time_limit("standby-s"))
    }

    /// Time has come so far.
    pub fn advance(&mut self, now: u64) {
        let limit = self.notes.time_limit("standby-s");
        let seconds = limit as f64 / SECOND as f64;
        if self.unsettled_since_ns.is_some_and(|since| now >= since + limit) {
            self.unsettled_since_ns = None;
            let told = |server: &Server| server.part.map_or("nothing", StandbyPart::name);
            let [first, second] = [told(&self.servers[0]), told(&self.servers[1])];
            let text = format!("both servers are logged in to for {seconds} s; S was told {first}, S2 {second}");
            self.notes.broken(&rules::STANDBY_PARTS, now, text);
        }
        if self.waits_since_ns.take_if(|since| now >= *since + limit).is_some() {
            let text =
                format!("the active server was lost {seconds} s ago, and the other one was not told that it is active");
            self.notes.broken(&rules::STANDBY_TAKES_OVER, now, text);
        }
    }
}
