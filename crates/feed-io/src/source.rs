//! A feed on the network as a market source, whatever it is on: what comes is taken in when the owner asks the source to go on.

use std::cell::Cell;
use std::os::fd::{AsFd as _, OwnedFd};

use feed::replay::venue::live::{Clock, LiveFigures, LiveItems};
use feed::session::Nanos;
use feed::{InstrumentId, MarketSource, Model};
use net::tcp::Tcp;
use rwf::DataState;

pub(crate) const SECOND: u64 = 1_000_000_000;

/// Reads of all sockets in one call, at most: consumers are not kept waiting for longer.
const ROUNDS: usize = 4;

pub(crate) fn clock() -> Clock {
    Clock { now: net::clock::now(), wall: net::clock::wall() }
}

/// Takes what comes, how the feed stands, and how many datagrams found a buffer full; each second at most.
pub type Report = Box<dyn FnMut(&str, &LiveFigures, u64) + Send>;

/// A feed with its sockets: a [`Source`] is made of it.
pub trait Intake {
    /// State machine of the feed.
    type Feed: LiveItems;
    /// The feed.
    fn feed(&self) -> &Self::Feed;
    /// The feed, to be changed.
    fn feed_mut(&mut self) -> &mut Self::Feed;
    /// The poll that watches the sockets.
    fn tcp(&self) -> &Tcp;
    /// The protocol, for people.
    fn protocol(&self) -> String;
    /// Takes in what has come, once. True: there may be more at once.
    fn take_in(&mut self) -> bool;
    /// Sockets that had something are looked at again.
    fn look_again(&mut self) {}
    /// Datagrams that found a buffer full.
    fn dropped(&self) -> u64 {
        0
    }
    /// The last thing that the network refused, for people.
    fn trouble(&self) -> Option<&str>;
}

/// A feed on sockets as a source. They are looked at whenever the source is asked to go on.
pub struct Source<I> {
    intake: I,
    /// The place for people.
    site: String,
    /// The distance of the caller's clock behind the monotonic one.
    offset: Nanos,
    /// There may be more to take in at once.
    is_behind: bool,
    /// Messages and time when figures were shown last.
    shown: Cell<(u64, Nanos)>,
    report: Option<Report>,
    reported: u64,
}

impl<I: Intake> Source<I> {
    /// A source that has taken in nothing. `report` is told how the feed stands each second.
    pub(crate) fn new(intake: I, site: &str, report: Option<Report>) -> Self {
        let now = net::clock::now();
        let (shown, site) = (Cell::new((0, now)), site.to_owned());
        Self { intake, site, offset: now, is_behind: true, shown, report, reported: 0 }
    }

    /// Readable whenever something has come: for whoever waits for more than this source.
    ///
    /// # Errors
    /// The process has no descriptors left.
    pub fn wake(&self) -> std::io::Result<OwnedFd> {
        self.intake.tcp().as_fd().try_clone_to_owned()
    }

    #[cfg(test)]
    pub(crate) fn intake(&self) -> &I {
        &self.intake
    }

    /// Tells how the feed stands, if that was long enough ago.
    fn tell(&mut self) {
        let now = net::clock::now();
        if let Some(report) = &mut self.report
            && now >= self.reported + SECOND
        {
            self.reported = now;
            report(&self.intake.protocol(), &self.intake.feed().figures(), self.intake.dropped());
        }
    }
}

/// Runs what is due of a feed; `act` does what it wants then.
pub(crate) fn run_timers<I: Intake>(intake: &mut I, mut act: impl FnMut(&mut I)) {
    while let Some(due) = intake.feed().timer().filter(|due| *due <= net::clock::now()) {
        intake.feed_mut().on_timer(clock());
        act(intake);
        if intake.feed().timer() == Some(due) {
            // Done as far as it can be.
            break;
        }
    }
}

/// A summary of what a feed has done, for people: one line.
fn summary(figures: &LiveFigures, rate: f64, dropped: u64) -> String {
    let LiveFigures { messages, stream, books, snapshots, dials, is_in_doubt, .. } = figures;
    let mut texts = vec![format!(
        "{messages} messages ({rate:.0} a second), {books} items, gaps {}, repaired {}, requests {}, lost {}",
        stream.gaps, stream.repairs, stream.requests, stream.lost
    )];
    if *dials > 0 {
        texts.push(format!("connections {dials}, snapshots {snapshots}"));
    }
    for (line, counts) in (b'A'..).zip(&figures.lines).filter(|(_, counts)| counts.packets > 0) {
        let behind = counts.behind_ns.checked_div(counts.behind).unwrap_or(0) / 1_000;
        let (line, packets, first) = (char::from(line), counts.packets, counts.first);
        texts.push(format!("line {line}: {packets} packets, {first} messages first, else {behind} us behind"));
    }
    if *messages > 0 {
        let us = |ns: u64| ns / 1_000;
        let (median, p99) = (us(figures.latency_median_ns), us(figures.latency_p99_ns));
        texts.push(format!("{median} us behind the exchange's clock, 99 % within {p99} us"));
    }
    texts.extend(figures.bad.iter().map(|(kind, count)| format!("{kind}: {count}")));
    if dropped > 0 {
        texts.push(format!("receive buffer full: {dropped}"));
    }
    if *is_in_doubt {
        texts.push("Suspect".to_owned());
    }
    texts.join("; ")
}

impl<I: Intake> MarketSource for Source<I> {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        self.intake.feed().find(name)
    }

    fn offers(&self, _: InstrumentId, model: Model) -> bool {
        self.intake.feed().offers(model)
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        self.intake.feed().image(id, model, part, out)
    }

    fn data_state(&self, id: InstrumentId, _: Model) -> DataState {
        self.intake.feed().data_state(id)
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        self.intake.feed_mut().watch(id, model, on);
    }

    fn due(&self) -> Option<Nanos> {
        if self.is_behind {
            return Some(0);
        }
        // How it stands is told when nothing comes, too.
        let report = self.report.is_some().then(|| self.reported + SECOND);
        let timers = self.intake.feed().timer().into_iter().chain(self.intake.tcp().timeout()).chain(report).min();
        timers.map(|at| at.saturating_sub(self.offset))
    }

    fn symbols(&self) -> Vec<String> {
        self.intake.feed().symbols()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(feed::Event<'_>)) {
        self.offset = net::clock::now().saturating_sub(now);
        let mut told = 0;
        for _ in 0..ROUNDS {
            self.is_behind = self.intake.take_in();
            told += self.intake.feed_mut().flush(sink);
            if !self.is_behind || told >= limit {
                break;
            }
            self.intake.look_again();
        }
        self.tell();
    }

    fn is_live(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        self.intake.feed().is_ready()
    }

    fn may_come(&self, _name: &str) -> bool {
        self.intake.feed().may_come()
    }

    fn remarks(&self) -> Option<String> {
        let feed = self.intake.feed();
        let rejection = feed.rejection().map(|why| format!("; {why}")).unwrap_or_default();
        let (figures, now) = (feed.figures(), net::clock::now());
        let (before, at) = self.shown.replace((figures.messages, now));
        let rate = (figures.messages - before) as f64 / (now - at).max(1) as f64 * 1e9;
        let text = summary(&figures, rate, self.intake.dropped());
        Some(format!("{} ({}): {text}{rejection}", self.site, self.intake.protocol()))
    }

    fn unread(&self) -> Option<String> {
        self.intake.trouble().map(|why| format!("{}: {why}", self.site))
    }
}
