//! The places of a port of HTTP: how many connections there are, what each is at, and who gives way when there is no place.
//!
//! A connection has a place from its acceptance to its end, and an answer one from the request's head until the kernel has the last byte.
//! There are fewer places for answers than for connections, so some connection is always one that can give way: it says nothing, is between
//! two requests, or does not take what it has asked for. Of those the address with most connections gives way first, so that nobody loses
//! a place to a stranger who has many. Health is answered without a place for an answer.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long an answer may not have been taken before it gives way to another one: nobody's network stands still as long.
pub(super) const STANDSTILL: Duration = Duration::from_millis(100);

/// Whose a connection is: an address, of IPv6 the network that one host has to itself; the Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    /// The group that may open the socket.
    Socket,
    /// By TCP.
    Address(IpAddr),
}

impl Whose {
    /// The network of an address.
    pub(super) fn of(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// How many there are of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections.
    pub(super) connections: usize,
    /// Answers at a time.
    pub(super) answers: usize,
    /// Answers at a time of one address.
    pub(super) answers_per_address: usize,
    /// Bytes of all answers that have not been taken; one that is longer has them for itself.
    pub(super) answer_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The connection has asked nothing, or nothing more, or its request is not whole.
    Quiet,
    /// The connection is being answered.
    Answered,
    /// The connection has an answer, and has not taken all of it.
    Standing,
}

struct Row {
    number: u64,
    whose: Whose,
    stage: Stage,
    since: Instant,
    /// The connection has a place for an answer.
    has_answer: bool,
    bytes: usize,
    end: Arc<Notify>,
}

#[derive(Default)]
struct Rows {
    next: u64,
    rows: Vec<Row>,
}

/// The places of one port.
pub(super) struct Places {
    bounds: Bounds,
    rows: Mutex<Rows>,
    freed: Notify,
}

/// There is no place for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Places {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, rows: Mutex::default(), freed: Notify::new() })
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a connection that has come; another one gives way if it must. `None` while every connection is being answered.
    pub(super) fn enter(self: &Arc<Self>, whose: Whose) -> Option<Arc<Place>> {
        let mut all = self.rows();
        if all.rows.len() >= self.bounds.connections && !all.give_way() {
            return None;
        }
        all.next += 1;
        let (number, end) = (all.next, Arc::new(Notify::new()));
        let row = Row {
            number,
            whose,
            stage: Stage::Quiet,
            since: Instant::now(),
            has_answer: false,
            bytes: 0,
            end: Arc::clone(&end),
        };
        all.rows.push(row);
        Some(Arc::new(Place { places: Arc::clone(self), number, whose, is_made: AtomicBool::new(false), end }))
    }

    /// Until [`Places::enter`] may find a place.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Rows {
    /// Takes the place of the connection that says nothing or takes nothing: of those of the address that has most, the one that has been so
    /// longest.
    fn give_way(&mut self) -> bool {
        let now = Instant::now();
        let of = |whose: Whose| self.rows.iter().filter(|row| row.whose == whose).count();
        let may = |row: &&Row| row.stage == Stage::Quiet || row.stands_still(now);
        let victim = self.rows.iter().filter(may).max_by_key(|row| (of(row.whose), now.duration_since(row.since)));
        let Some(number) = victim.map(|row| row.number) else { return false };
        self.end(number);
        true
    }

    fn end(&mut self, number: u64) {
        if let Some(at) = self.rows.iter().position(|row| row.number == number) {
            self.rows.swap_remove(at).end.notify_one();
        }
    }

    /// Ends the answer that has not been taken longest, of those of which `of` is true.
    fn end_answer(&mut self, of: impl Fn(&Row) -> bool) -> bool {
        let now = Instant::now();
        let still = self.rows.iter().filter(|row| row.stands_still(now) && of(row));
        let Some(number) = still.max_by_key(|row| now.duration_since(row.since)).map(|row| row.number) else {
            return false;
        };
        self.end(number);
        true
    }

    fn row(&mut self, number: u64) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.number == number)
    }
}

impl Row {
    fn stands_still(&self, now: Instant) -> bool {
        self.stage == Stage::Standing && now.duration_since(self.since) >= STANDSTILL
    }
}

/// The place of one connection; free when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    whose: Whose,
    is_made: AtomicBool,
    end: Arc<Notify>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.places.rows();
        all.rows.retain(|row| row.number != self.number);
        drop(all);
        self.places.freed.notify_one();
    }
}

impl Place {
    /// Whose it is.
    pub(super) fn whose(&self) -> Whose {
        self.whose
    }

    /// Until it has to give way.
    pub(super) async fn has_to_go(&self) {
        self.end.notified().await;
    }

    fn is_at(&self, stage: Stage) {
        let mut all = self.places.rows();
        let Some(row) = all.row(self.number).filter(|row| row.stage != stage) else { return };
        (row.stage, row.since) = (stage, Instant::now());
        if stage == Stage::Quiet {
            (row.has_answer, row.bytes) = (false, 0);
        }
        drop(all);
        if stage == Stage::Quiet {
            self.places.freed.notify_one();
        }
    }

    /// A request is there whose answer takes no place: it is short, and does not wait for others.
    pub(super) fn is_asked(&self) {
        self.is_at(Stage::Answered);
    }

    /// A request is there: the place of its answer. One of this address that does not take its answer gives way if the address has as many as
    /// it may have, one of any address if there is none left.
    ///
    /// # Errors
    /// All of them are at work.
    pub(super) fn take_answer(&self) -> Result<(), Full> {
        let Bounds { answers, answers_per_address, .. } = self.places.bounds;
        let whose = self.whose;
        let mut all = self.places.rows();
        let own = all.rows.iter().filter(|row| row.has_answer && row.whose == whose).count();
        if own >= answers_per_address && !all.end_answer(|row| row.whose == whose) {
            return Err(Full);
        }
        let taken = all.rows.iter().filter(|row| row.has_answer).count();
        if taken >= answers && !all.end_answer(|_| true) {
            return Err(Full);
        }
        let Some(row) = all.row(self.number) else { return Err(Full) };
        (row.stage, row.since, row.has_answer) = (Stage::Answered, Instant::now(), true);
        Ok(())
    }

    /// The body of the request has still to come.
    pub(super) fn awaits_body(&self) {
        let mut all = self.places.rows();
        if let Some(row) = all.row(self.number) {
            (row.stage, row.since) = (Stage::Quiet, Instant::now());
        }
    }

    /// The answer has so many bytes: memory for them, if need be that of answers that are not taken.
    ///
    /// # Errors
    /// Others have it all, and take theirs.
    pub(super) fn take_bytes(&self, bytes: usize) -> Result<(), Full> {
        let most = self.places.bounds.answer_bytes;
        let mut all = self.places.rows();
        loop {
            let others: usize = all.rows.iter().filter(|row| row.number != self.number).map(|row| row.bytes).sum();
            if others == 0 || others + bytes <= most {
                break;
            }
            if !all.end_answer(|row| row.number != self.number && row.bytes > 0) {
                return Err(Full);
            }
        }
        let Some(row) = all.row(self.number) else { return Err(Full) };
        row.bytes = bytes;
        Ok(())
    }

    /// The kernel takes no more of an answer for now. From here on it counts as one that stands, also while it is taken bit by bit.
    pub(super) fn stands_still(&self) {
        self.is_at(Stage::Standing);
    }

    /// The answer is made; what follows is its way to the kernel.
    pub(super) fn is_made(&self) {
        self.is_made.store(true, Ordering::Relaxed);
    }

    /// The kernel has all that there was for it: the answer, if that was made.
    pub(super) fn is_flushed(&self) {
        if self.is_made.swap(false, Ordering::Relaxed) {
            self.is_at(Stage::Quiet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { connections: 4, answers: 3, answers_per_address: 2, answer_bytes: 100 };

    fn from(last: u8) -> Whose {
        Whose::of([10, 0, 0, last].into())
    }

    fn old(places: &Places) {
        for row in &mut places.rows().rows {
            row.since = row.since.checked_sub(STANDSTILL * 2).expect("the machine runs longer");
        }
    }

    fn is_ended(place: &Place) -> bool {
        places_of(place).iter().all(|number| *number != place.number)
    }

    fn places_of(place: &Place) -> Vec<u64> {
        place.places.rows().rows.iter().map(|row| row.number).collect()
    }

    #[test]
    fn who_says_nothing_gives_way_and_first_that_of_the_address_with_most() {
        let places = Places::new(BOUNDS);
        let quiet = places.enter(from(1)).expect("a place");
        old(&places);
        let many: Vec<_> = (0..3).map(|_| places.enter(from(2)).expect("a place")).collect();
        let newest = places.enter(from(3)).expect("a place of another");
        assert_eq!(many.iter().filter(|place| is_ended(place)).count(), 1);
        assert!(!is_ended(&quiet) && !is_ended(&newest));
    }

    #[test]
    fn who_is_being_answered_keeps_the_place_and_who_does_not_take_it_loses_it() {
        let places = Places::new(BOUNDS);
        let all: Vec<_> = (0..4).map(|n| places.enter(from(n)).expect("a place")).collect();
        for place in &all {
            place.is_asked();
        }
        assert!(places.enter(from(9)).is_none());
        all[2].stands_still();
        assert!(places.enter(from(9)).is_none(), "for a moment that is nothing");
        old(&places);
        all[1].stands_still();
        let newest = places.enter(from(9)).expect("a place");
        newest.is_asked();
        assert!(is_ended(&all[2]) && !is_ended(&all[1]));
        all[0].is_flushed();
        assert!(places.enter(from(9)).is_none(), "nothing is made yet");
        all[0].is_made();
        all[0].is_flushed();
        assert!(places.enter(from(9)).is_some());
        assert!(is_ended(&all[0]));
    }

    #[test]
    fn an_address_has_so_many_answers_and_takes_them_from_itself() {
        let places = Places::new(BOUNDS);
        let all: Vec<_> = (0..3).map(|_| places.enter(from(1)).expect("a place")).collect();
        let other = places.enter(from(2)).expect("a place");
        assert!(all[0].take_answer().is_ok() && all[1].take_answer().is_ok());
        assert_eq!(all[2].take_answer(), Err(Full));
        assert_eq!(other.take_answer(), Ok(()));
        all[0].stands_still();
        old(&places);
        assert_eq!(all[2].take_answer(), Ok(()));
        assert!(is_ended(&all[0]) && !is_ended(&other));
        all[1].is_made();
        all[1].is_flushed();
        assert_eq!(all[1].take_answer(), Ok(()), "its own is over");
    }

    #[test]
    fn answers_that_are_not_taken_give_their_memory_to_others() {
        let places = Places::new(BOUNDS);
        let all: Vec<_> = (0..3).map(|n| places.enter(from(n)).expect("a place")).collect();
        assert_eq!(all[0].take_bytes(1_000), Ok(()), "one that is longer, alone");
        assert_eq!(all[1].take_bytes(1), Err(Full));
        all[0].stands_still();
        old(&places);
        assert_eq!(all[1].take_bytes(60), Ok(()));
        assert!(is_ended(&all[0]));
        assert_eq!((all[2].take_bytes(41), all[2].take_bytes(40)), (Err(Full), Ok(())));
    }

    #[test]
    fn a_host_has_one_network_of_ipv6() {
        let at = |text: &str| Whose::of(text.parse().expect("an address"));
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
    }
}
