//! A replay while it runs: what users want of it, and how it stands. One type of order for the command line, HTTP, `ctl` and the page.

use crate::play::By;
use crate::when;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const SECOND: f64 = 1e9;
/// Orders that may wait to be obeyed.
const WAITING: usize = 64;
/// How long who gives an order waits until it is obeyed: a place in a large recording takes some seconds to find on a slow disk.
const PATIENCE: Duration = Duration::from_secs(20);
/// Steps of one order: it is obeyed at once, and nobody else is served meanwhile.
const STEPS: usize = 100_000;

/// How fast a recording goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many seconds of it in a second.
    Scaled(f64),
    /// As fast as those who watch take it.
    Unpaced,
}

impl FromStr for Pace {
    type Err = NoOrder;

    fn from_str(text: &str) -> Result<Self, NoOrder> {
        let speed = text.parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
        match (text, speed) {
            ("max", _) => Ok(Self::Unpaced),
            (_, Some(speed)) => Ok(Self::Scaled(speed)),
            _ => Err(NoOrder::Speed),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scaled(speed) => write!(f, "{speed}"),
            Self::Unpaced => f.write_str("max"),
        }
    }
}

/// Something that is to be done with a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Time stands still.
    Pause,
    /// Time passes.
    Go,
    /// Time stands still, and so many messages come.
    Step(usize),
    /// Another speed.
    Speed(Pace),
    /// Goes to a time, nanoseconds since 1970.
    Seek(u64),
    /// Goes so far, nanoseconds: forwards, or back where it is negative. It ends at the bounds of what is played.
    Skip(i64),
    /// Begins anew at the end, or does not.
    Loop(bool),
    /// Says where it is.
    Where,
}

/// Orders as they are written, for who has written something else.
pub const KNOWN_ORDERS: &str = "pause, go, step, step 10, speed 2, speed max, seek 2026-11-27T14:30:00Z, skip 10, skip -10, loop on, loop off, where";

/// A text is no order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOrder {
    /// The first word is none.
    #[error("{0:?} is no order; there are {KNOWN_ORDERS}")]
    Unknown(String),
    /// A number of steps.
    #[error("write how many messages, from 1 to {STEPS}: step 10")]
    Steps,
    /// A speed.
    #[error("write a factor as 1, 0.5 or 60, or max")]
    Speed,
    /// A distance.
    #[error("write how many seconds, with - for back: skip 10, skip -0.5")]
    Seconds,
    /// On or off.
    #[error("write loop on, or loop off")]
    Loop,
    /// A time.
    #[error(transparent)]
    Time(#[from] when::NoTime),
}

impl FromStr for Order {
    type Err = NoOrder;

    fn from_str(line: &str) -> Result<Self, NoOrder> {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        Ok(match (word, rest.trim()) {
            ("pause", "") => Self::Pause,
            ("go", "") => Self::Go,
            ("step", "") => Self::Step(1),
            ("step", count) => {
                let count = count.parse().ok().filter(|count| (1..=STEPS).contains(count));
                Self::Step(count.ok_or(NoOrder::Steps)?)
            }
            ("speed", speed) => Self::Speed(speed.parse()?),
            ("seek", time) => Self::Seek(when::parse(time)?),
            ("skip", seconds) => Self::Skip(distance(seconds).ok_or(NoOrder::Seconds)?),
            ("loop", "on") => Self::Loop(true),
            ("loop", "off") => Self::Loop(false),
            ("loop", _) => return Err(NoOrder::Loop),
            ("where", "") => Self::Where,
            _ => return Err(NoOrder::Unknown(line.escape_default().take(80).collect())),
        })
    }
}

/// Seconds as nanoseconds, up to a hundred years.
fn distance(seconds: &str) -> Option<i64> {
    let nanos = seconds.parse::<f64>().ok()? * SECOND;
    (nanos.abs() < 3.2e18).then_some(nanos as i64)
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause => f.write_str("pause"),
            Self::Go => f.write_str("go"),
            Self::Step(count) => write!(f, "step {count}"),
            Self::Speed(pace) => write!(f, "speed {pace}"),
            Self::Seek(time) => write!(f, "seek {}", when::text(*time)),
            Self::Skip(nanos) => write!(f, "skip {}", *nanos as f64 / SECOND),
            Self::Loop(is_on) => write!(f, "loop {}", if *is_on { "on" } else { "off" }),
            Self::Where => f.write_str("where"),
        }
    }
}

/// Whether time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// For so many open items.
    Waiting(usize),
    /// It passes.
    Running,
    /// It stands still.
    #[default]
    Paused,
    /// It has come to the end.
    Over,
}

impl State {
    /// In a word: `waiting`, `running`, `paused` or `over`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Over => "over",
        }
    }
}

/// How a replay stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Whether time passes.
    pub state: State,
    /// The time that it has come to, nanoseconds since 1970.
    pub time: u64,
    /// While time passes at a speed: the monotonic time at which it had come to `time`, nanoseconds.
    pub since: Option<u64>,
    /// How fast time passes, if it does.
    pub pace: Pace,
    /// Begins anew at the end.
    pub repeats: bool,
    /// Streams that watch, of this time and of others.
    pub streams: usize,
    /// Messages that were sent.
    pub messages: u64,
}

impl Standing {
    /// The time that the replay has come to at a monotonic time, not beyond `last`.
    pub fn time_at(&self, now: u64, last: u64) -> u64 {
        match (self.since, self.pace) {
            (Some(since), Pace::Scaled(speed)) => {
                let gone = now.saturating_sub(since) as f64 * speed;
                self.time.saturating_add(gone as u64).min(last.max(self.time))
            }
            _ => self.time,
        }
    }
}

impl Default for Standing {
    fn default() -> Self {
        let (state, pace) = (State::Paused, Pace::Scaled(1.0));
        Self { state, time: 0, since: None, pace, repeats: false, streams: 0, messages: 0 }
    }
}

/// A gap within what is played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedGap {
    /// From when, nanoseconds since 1970.
    pub from: u64,
    /// Until when.
    pub to: u64,
    /// Why.
    pub reason: &'static str,
    /// Messages that are missing, where that is known.
    pub messages: Option<u64>,
}

/// What is played.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// Services, those as of other times behind.
    pub services: Vec<String>,
    /// Items.
    pub items: usize,
    /// When it begins, nanoseconds since 1970.
    pub from: u64,
    /// When it ends.
    pub to: u64,
    /// By which clock time passes.
    pub by: By,
    /// Records in each of so many equal parts of the time from `from` to `to`.
    pub rates: Vec<f64>,
    /// The first gaps of that time.
    pub gaps: Vec<PlayedGap>,
}

/// Why an order was not obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// The time is none of those that are played.
    #[error("nothing is played then: the replay goes from {} to {}", when::text(*.from), when::text(*.to))]
    Outside {
        /// Its first time.
        from: u64,
        /// Its last one.
        to: u64,
    },
    /// More orders than can wait.
    #[error("{WAITING} orders wait already: ask again when they are done")]
    Busy,
    /// It has ended.
    #[error("the replay has ended: {0}")]
    Ended(String),
    /// No answer in time.
    #[error("the replay has not obeyed within {} s; it may do so later", PATIENCE.as_secs())]
    Silent,
}

type Wake = Box<dyn Fn() + Send + Sync>;

/// A replay, for those who steer it and look at it from other threads. Clones are the same.
#[derive(Clone, Default)]
pub struct Steering(Arc<Inner>);

#[derive(Default)]
struct Inner {
    shared: Mutex<Shared>,
    changed: Condvar,
    wake: OnceLock<Wake>,
}

#[derive(Default)]
struct Shared {
    orders: VecDeque<Order>,
    /// Orders that were given, and that were obeyed.
    given: u64,
    obeyed: u64,
    standing: Standing,
    overview: Arc<Overview>,
    end: Option<String>,
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steering").field("standing", &self.standing()).finish_non_exhaustive()
    }
}

impl Steering {
    /// Has an order obeyed in the next turn of the replay.
    ///
    /// # Errors
    /// It cannot be: a time that is not played, too many that wait, the replay is over for good.
    pub fn give(&self, order: Order) -> Result<u64, NotDone> {
        let mut shared = self.shared();
        if let Some(why) = &shared.end {
            return Err(NotDone::Ended(why.clone()));
        }
        let (from, to) = (shared.overview.from, shared.overview.to);
        if matches!(order, Order::Seek(time) if !(from..=to).contains(&time)) {
            return Err(NotDone::Outside { from, to });
        }
        if shared.orders.len() >= WAITING {
            return Err(NotDone::Busy);
        }
        shared.orders.push_back(order);
        shared.given += 1;
        let number = shared.given;
        drop(shared);
        if let Some(wake) = self.0.wake.get() {
            wake();
        }
        Ok(number)
    }

    /// Gives an order and waits until it is obeyed; tells how the replay stands then.
    ///
    /// # Errors
    /// As [`Steering::give`]; or the replay does not come to it.
    pub fn order(&self, order: Order) -> Result<Standing, NotDone> {
        let number = self.give(order)?;
        let is_open = |shared: &mut Shared| shared.obeyed < number && shared.end.is_none();
        let waited = self.0.changed.wait_timeout_while(self.shared(), PATIENCE, is_open);
        let (shared, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &shared.end {
            _ if shared.obeyed >= number => Ok(shared.standing),
            Some(why) => Err(NotDone::Ended(why.clone())),
            None => Err(NotDone::Silent),
        }
    }

    /// How the replay stood when it told so last: at each change, and several times a second.
    pub fn standing(&self) -> Standing {
        self.shared().standing
    }

    /// What is played.
    pub fn overview(&self) -> Arc<Overview> {
        self.shared().overview.clone()
    }

    /// Why the replay has ended, if it has.
    pub fn end(&self) -> Option<String> {
        self.shared().end.clone()
    }

    /// For the replay: what it plays, and what wakes it when there is an order.
    pub fn begin(&self, overview: Overview, wake: impl Fn() + Send + Sync + 'static) {
        self.shared().overview = Arc::new(overview);
        // A replay begins once.
        let _ = self.0.wake.set(Box::new(wake));
    }

    /// For the replay: the orders that are to be obeyed now.
    pub fn take(&self) -> Vec<Order> {
        self.shared().orders.drain(..).collect()
    }

    /// For the replay: whether there are some.
    pub fn has_orders(&self) -> bool {
        !self.shared().orders.is_empty()
    }

    /// For the replay: how it stands, after so many more orders were obeyed.
    pub fn tell(&self, standing: Standing, obeyed: usize) {
        let mut shared = self.shared();
        shared.standing = standing;
        shared.obeyed += obeyed as u64;
        drop(shared);
        if obeyed > 0 {
            self.0.changed.notify_all();
        }
    }

    /// For the replay: it has ended, and why.
    pub fn finish(&self, why: impl Into<String>) {
        self.shared().end = Some(why.into());
        self.0.changed.notify_all();
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood_or_refused() {
        let all = [
            ("pause", Order::Pause),
            (" go ", Order::Go),
            ("step", Order::Step(1)),
            ("step 3", Order::Step(3)),
            ("speed max", Order::Speed(Pace::Unpaced)),
            ("speed 0.5", Order::Speed(Pace::Scaled(0.5))),
            ("seek 1970-01-01T00:00:01Z", Order::Seek(1_000_000_000)),
            ("skip -0.5", Order::Skip(-500_000_000)),
            ("skip 10", Order::Skip(10_000_000_000)),
            ("loop on", Order::Loop(true)),
            ("loop off", Order::Loop(false)),
            ("where", Order::Where),
        ];
        for (text, order) in all {
            assert_eq!(text.parse(), Ok(order), "{text}");
            assert_eq!(order.to_string().parse(), Ok(order), "{text}");
        }
        for wrong in [
            "",
            "stop",
            "step x",
            "step 0",
            "step 100001",
            "speed 0",
            "speed",
            "speed -1",
            "seek",
            "seek now",
            "skip",
            "skip nan",
            "skip 1e300",
            "loop",
            "pause now",
        ] {
            assert!(wrong.parse::<Order>().is_err(), "{wrong}");
        }
        let why = "\u{1b}[2J".parse::<Order>().expect_err("no order").to_string();
        assert!(!why.contains('\u{1b}'), "{why}");
    }

    #[test]
    fn an_order_is_obeyed_by_another_thread_or_refused() {
        let steering = Steering::default();
        let overview = Overview { from: 10, to: 20, ..Overview::default() };
        let (woken, wakes) = std::sync::mpsc::channel();
        steering.begin(overview, move || woken.send(()).unwrap_or_default());
        assert_eq!(steering.order(Order::Seek(21)), Err(NotDone::Outside { from: 10, to: 20 }));
        let replay = steering.clone();
        let thread = std::thread::spawn(move || {
            wakes.recv().expect("an order comes");
            let orders = replay.take();
            replay.tell(Standing { time: 15, ..Standing::default() }, orders.len());
            orders
        });
        assert_eq!(steering.order(Order::Seek(15)).map(|standing| standing.time), Ok(15));
        assert_eq!(thread.join().expect("it goes on"), [Order::Seek(15)]);
        for _ in 0..WAITING {
            steering.give(Order::Go).expect("room");
        }
        assert_eq!(steering.give(Order::Go), Err(NotDone::Busy));
        steering.finish("the disk is gone");
        assert_eq!(steering.order(Order::Go), Err(NotDone::Ended("the disk is gone".to_owned())));
    }

    #[test]
    fn time_passes_between_two_tellings_up_to_the_end() {
        let standing = Standing { time: 100, since: Some(1_000), pace: Pace::Scaled(2.0), ..Standing::default() };
        assert_eq!([1_000, 1_010, 2_000].map(|now| standing.time_at(now, 150)), [100, 120, 150]);
        assert_eq!(Standing { since: None, ..standing }.time_at(2_000, 150), 100);
        assert_eq!(Standing { pace: Pace::Unpaced, ..standing }.time_at(2_000, 150), 100);
    }
}
