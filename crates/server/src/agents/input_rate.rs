//! How much a provider, or a client, may send in a second (RTDS's `maxIncomingBytesPerSecond`, `maxIncomingMessagesPerSecond`).
//!
//! A peer that sends more is not read for a moment, so that its socket holds it back; nothing of what it sends is lost. A second's
//! worth may come at once. Who has been held back is read again when a tenth of a second's worth may come, and is within its limit again
//! when it has not been held back for some seconds.

const SECOND: u64 = 1_000_000_000;
/// Input that may come at once, as time at the rate.
const BURST: u64 = SECOND;
/// Input that may come when a provider is read again, as time at the rate.
const ROOM: u64 = SECOND / 10;
/// The longest pause: it has to end before the silence counts as the peer's. What one turn takes in of a connection is less than this at the least
/// limits that may be configured (`config::INPUT_BYTES_MIN`).
const PAUSE_MAX_NS: u64 = 10 * SECOND;
/// Without a pause for so long, a peer is within its limit again.
const CALM: u64 = 5 * SECOND;

/// Limits of what one peer may send in a second; 0 is any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputLimit {
    /// Bytes of its messages.
    pub bytes: u32,
    /// The peer's messages.
    pub messages: u32,
}

impl InputLimit {
    /// Whether there is one.
    pub fn is_on(self) -> bool {
        self != Self::default()
    }

    /// The time that this much takes at the rate.
    fn cost(self, bytes: u64, messages: u64) -> u64 {
        let time = |count: u64, rate: u32| count.saturating_mul(SECOND).checked_div(rate.into()).unwrap_or(0);
        time(bytes, self.bytes).max(time(messages, self.messages))
    }
}

#[derive(Debug)]
struct Limited {
    /// The peer's address.
    name: String,
    limit: InputLimit,
    /// Of this turn.
    bytes: u64,
    messages: u64,
    /// The time that is used up at the rate.
    used_until: u64,
    /// The connection is not read until then.
    paused_until: Option<u64>,
    /// The connection was held back, and is not within its limit again before this time.
    over_until: Option<u64>,
}

/// The peers of one kind that have limits, by the slots that their owner gives them.
#[derive(Debug)]
pub struct InputRates {
    /// The kind of peers, for the log: `provider`, `client`.
    kind: &'static str,
    limited: Vec<Option<Box<Limited>>>,
    /// Slots of those that have sent something in this turn.
    heard: Vec<usize>,
    /// Slots of those that are over their limits.
    over: Vec<usize>,
    /// Times that one was held back.
    pauses: u64,
}

impl InputRates {
    /// None yet, of peers that the log calls so.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, limited: Vec::new(), heard: Vec::new(), over: Vec::new(), pauses: 0 }
    }

    /// A peer with a limit has come, from this address.
    pub fn opened(&mut self, slot: usize, name: String, limit: InputLimit) {
        if self.limited.len() <= slot {
            self.limited.resize_with(slot + 1, || None);
        }
        let (paused_until, over_until) = (None, None);
        let limited = Limited { name, limit, bytes: 0, messages: 0, used_until: 0, paused_until, over_until };
        self.limited[slot] = Some(Box::new(limited));
    }

    /// A peer is gone, whether it had a limit or not.
    pub fn closed(&mut self, slot: usize) {
        if self.limited.get_mut(slot).and_then(Option::take).is_some() {
            self.over.retain(|&over| over != slot);
        }
    }

    /// A peer, which may have a limit, has sent a message of so many bytes.
    #[inline]
    pub fn take(&mut self, slot: usize, bytes: usize) {
        let Some(limited) = self.limited.get_mut(slot).and_then(Option::as_mut) else { return };
        if limited.messages == 0 {
            self.heard.push(slot);
        }
        limited.bytes += bytes as u64;
        limited.messages += 1;
    }

    /// Whether a peer is not to be read for now.
    pub fn is_paused(&self, slot: usize) -> bool {
        let limited = self.limited.get(slot).and_then(Option::as_ref);
        limited.is_some_and(|limited| limited.paused_until.is_some())
    }

    /// The turn is over: `pause` is called for those that are not to be read from now on. The operator hears of who is held back.
    pub fn end_turn(&mut self, now: u64, mut pause: impl FnMut(usize)) {
        for slot in self.heard.drain(..) {
            let Some(limited) = self.limited[slot].as_mut() else { continue };
            let cost = limited.limit.cost(limited.bytes, limited.messages);
            (limited.bytes, limited.messages) = (0, 0);
            limited.used_until = limited.used_until.max(now).saturating_add(cost);
            if limited.used_until <= now.saturating_add(BURST) {
                continue;
            }
            let resumes = limited.used_until - (BURST - ROOM);
            let resumes = resumes.min(now.saturating_add(PAUSE_MAX_NS));
            limited.used_until = resumes.saturating_add(BURST - ROOM);
            limited.paused_until = Some(resumes);
            self.pauses += 1;
            pause(slot);
            if limited.over_until.replace(resumes.saturating_add(CALM)).is_none() {
                self.over.push(slot);
                let (kind, name, InputLimit { bytes, messages }) = (self.kind, &limited.name, limited.limit);
                tracing::warn!(
                    "{kind} {name} sends more than it may ({bytes} bytes, {messages} messages a second; 0 is any number): it is read no faster, and held back by its socket"
                );
            }
        }
    }

    /// When [`InputRates::on_timer`] is due.
    pub fn timeout(&self) -> Option<u64> {
        let due = |&slot: &usize| {
            let limited = self.limited[slot].as_ref()?;
            limited.paused_until.or(limited.over_until)
        };
        self.over.iter().filter_map(due).min()
    }

    /// `resume` is called for those that are to be read again. The operator hears of who has kept within its limit for some time.
    pub fn on_timer(&mut self, now: u64, mut resume: impl FnMut(usize)) {
        let Self { kind, limited, over, .. } = self;
        over.retain(|&slot| {
            let Some(limited) = limited[slot].as_mut() else { return false };
            if limited.paused_until.take_if(|until| *until <= now).is_some() {
                resume(slot);
            }
            let is_within = limited.over_until.take_if(|until| *until <= now).is_some();
            if is_within {
                tracing::info!("{kind} {} sends no more than it may again", limited.name);
            }
            !is_within
        });
    }

    /// How many are over their limits now, and how many times one was held back.
    pub fn counts(&self) -> (u64, u64) {
        (self.over.len() as u64, self.pauses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const SLOT: usize = 3;

    /// A connection, and what has happened to it.
    struct World {
        rates: InputRates,
        reading: bool,
        /// How many were over their limits, whenever that changed.
        over: Vec<u64>,
    }

    impl World {
        fn new(limit: InputLimit) -> Self {
            let mut rates = InputRates::new("provider");
            rates.opened(SLOT, "p:1".to_owned(), limit);
            Self { rates, reading: true, over: vec![0] }
        }

        fn turn(&mut self, now: u64, messages: usize, bytes: usize) {
            let mut reading = self.reading;
            if self.rates.timeout().is_some_and(|at| at <= now) {
                self.rates.on_timer(now, |_| reading = true);
            }
            (0..messages).for_each(|_| self.rates.take(SLOT, bytes));
            self.rates.end_turn(now, |_| reading = false);
            self.reading = reading;
            assert_eq!(self.rates.is_paused(SLOT), !reading);
            self.over.push(self.rates.counts().0);
            self.over.dedup();
        }
    }

    #[test]
    fn a_second_may_come_at_once_and_the_rate_is_kept_behind_it() {
        let mut world = World::new(InputLimit { bytes: 0, messages: 10_000 });
        let (mut now, mut sent) = (SECOND, 0);
        // A provider that sends 100 messages whenever it is read, each millisecond: ten times what it may.
        for _ in 0..10_000 {
            let messages = if world.reading { 100 } else { 0 };
            world.turn(now, messages, 50);
            sent += messages;
            now += MILLISECOND;
        }
        assert!((100_000..=111_000).contains(&sent), "{sent} in ten seconds");
        assert_eq!(world.over, [0, 1], "it is over its limit once");
        let (over, pauses) = world.rates.counts();
        assert!(over == 1 && (50..200).contains(&pauses), "a tenth of a second at a time: {pauses}");
        // The connection keeps within its limit, and is so again after a while.
        for _ in 0..6_000 {
            world.turn(now, 5, 50);
            now += MILLISECOND;
        }
        assert_eq!(world.over, [0, 1, 0]);
    }

    #[test]
    fn bytes_count_as_messages_do_and_within_the_limit_nobody_waits() {
        let mut world = World::new(InputLimit { bytes: 1_000_000, messages: 10_000 });
        for at in 0..1_000 {
            world.turn(SECOND + at * MILLISECOND, 10, 100);
        }
        assert!(world.reading && world.over == [0]);
        world.turn(3 * SECOND, 10, 200_000);
        assert!(!world.reading, "two seconds of bytes");
        world.turn(3 * SECOND + 1_000 * MILLISECOND, 0, 0);
        assert!(!world.reading);
        world.turn(3 * SECOND + 1_101 * MILLISECOND, 0, 0);
        assert!(world.reading, "with room for a tenth of a second");
    }

    #[test]
    fn a_pause_has_an_end_and_who_is_gone_is_forgotten() {
        let mut world = World::new(InputLimit { bytes: config::INPUT_BYTES_MIN, messages: 0 });
        world.turn(SECOND, 1, 1 << 30);
        assert_eq!(world.rates.timeout(), Some(SECOND + PAUSE_MAX_NS));
        world.rates.closed(SLOT);
        assert_eq!((world.rates.timeout(), world.rates.counts()), (None, (0, 1)));
        world.rates.on_timer(u64::MAX, |_| panic!("nobody is there"));
        assert!(!InputLimit::default().is_on() && InputLimit { bytes: 1, messages: 0 }.is_on());
    }
}
