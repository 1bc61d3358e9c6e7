//! The order in which a load goes over its streams.
//!
//! A real feed hits its items in no order, and some far more often than others; the order in which they were opened flatters every cache on the way.

use anyhow::{Context as _, bail};
use feed::random::Random;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Which stream is next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Round and round, in the order in which streams were opened.
    #[default]
    Opened,
    /// Round and round, in a random order, the same in every run. Clients open what all watch before what one watches: in their order, half
    /// of a round would go to all and the other half to one.
    Random,
    /// Drawn: the most frequent stream n times as often as the nth (Zipf's law with the exponent 1). Which streams these are is random, and the same in
    /// every run.
    Zipf,
    /// As a file of item numbers says, again and again. Number n is the nth stream of a random order, the same in every run; numbers beyond the last
    /// begin with the first again.
    Trace(Arc<[u32]>),
}

impl Order {
    /// Whether streams lie in a random order.
    pub const fn is_mixed(&self) -> bool {
        !matches!(self, Self::Opened)
    }

    /// The numbers below `count` as streams lie that are opened in their order.
    pub fn sequence(&self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        let mut random = Random::new(MIXED);
        if self.is_mixed() {
            (1..count).rev().for_each(|last| numbers.swap(last as usize, random.below(last + 1) as usize));
        }
        numbers
    }
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text {
            "opened" => Ok(Self::Opened),
            "random" => Ok(Self::Random),
            "zipf" => Ok(Self::Zipf),
            path => trace(Path::new(path)).map(Self::Trace),
        }
    }
}

/// Reads a file of item numbers, one a line.
fn trace(path: &Path) -> anyhow::Result<Arc<[u32]>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{shown}: an order is opened, random, zipf, or a file of item numbers, one a line"))?;
    let number = |(at, line): (usize, &str)| {
        line.trim()
            .parse()
            .with_context(|| format!("{shown}:{}: {line:?} is no item number (0 to {})", at + 1, u32::MAX))
    };
    let numbers: Arc<[u32]> = text.lines().enumerate().map(number).collect::<anyhow::Result<_>>()?;
    if numbers.is_empty() {
        bail!("{shown}: there is no item number in it, one a line is wanted");
    }
    Ok(numbers)
}

/// Draws of Zipf's law are made for so many times the streams, and used again from the start then.
const DRAWS_OF_EACH: usize = 4;
/// At least so many.
const DRAWS_LEAST: usize = 1 << 16;

/// Places among the streams, one after the other.
#[derive(Debug)]
pub struct Places {
    order: Order,
    /// The next place, or the next number of the trace or of the draws.
    next: usize,
    draws: Vec<u32>,
    /// Streams that the draws are for.
    drawn_for: usize,
    random: Random,
}

/// Seed of a random order.
const MIXED: u64 = 1;
/// Seed of the draws.
const DRAWS: u64 = 2;

impl Places {
    /// Before the first place.
    pub fn new(order: Order) -> Self {
        Self { order, next: 0, draws: Vec::new(), drawn_for: 0, random: Random::new(DRAWS) }
    }

    /// Makes ready for so many streams: to be called before places of them are asked for.
    pub fn prepare(&mut self, streams: usize) {
        // Where streams come and go one by one, the law is drawn anew when they have doubled or halved.
        let fits = (self.drawn_for / 2 + 1..=self.drawn_for * 2).contains(&streams);
        if self.order == Order::Zipf && !fits && streams > 0 {
            let count = (DRAWS_OF_EACH * streams).max(DRAWS_LEAST);
            self.draws.clear();
            self.draws.extend((0..count).map(|_| zipf(&mut self.random, streams)));
            (self.drawn_for, self.next) = (streams, 0);
        }
    }

    /// What is drawn, or read of a file; `None` for a round.
    #[inline]
    fn numbers(&self) -> Option<&[u32]> {
        match &self.order {
            Order::Opened | Order::Random => None,
            Order::Zipf => Some(&self.draws),
            Order::Trace(numbers) => Some(numbers),
        }
    }

    /// The place that comes after so many others, of so many streams; nobody's turn is over by that.
    #[inline]
    pub fn peek(&self, ahead: usize, streams: usize) -> usize {
        let numbers = self.numbers();
        let at = wrapped(self.next + ahead, numbers.map_or(streams, <[u32]>::len));
        numbers.map_or(at, |numbers| wrapped(numbers[at] as usize, streams))
    }

    /// The next place of so many streams, of which there is one at least.
    #[inline]
    pub fn take(&mut self, streams: usize) -> usize {
        let place = self.peek(0, streams);
        self.next = wrapped(self.next, self.numbers().map_or(streams, <[u32]>::len)) + 1;
        place
    }
}

/// A number from 0 to below the end: nearly always it is that already, and nothing is divided.
#[inline]
const fn wrapped(number: usize, end: usize) -> usize {
    if number < end { number } else { number % end }
}

/// A number below `count` by Zipf's law with the exponent 1. Exact: what is uniform in its logarithm has nearly that law, and the first numbers a little too
/// seldom; of the others as many are thrown away as there are too many.
fn zipf(random: &mut Random, count: usize) -> u32 {
    let end = (count as f64 + 1.0).ln();
    loop {
        let rank = (random.unit() * end).exp().floor();
        // The law wants 1 / rank, the draw gives the logarithm of (rank + 1) / rank.
        let share = 1.0 / (rank * (1.0 / rank).ln_1p());
        if rank as usize <= count && random.unit() * std::f64::consts::LOG2_E <= share {
            return rank as u32 - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_nth_of_zipfs_law_comes_an_nth_as_often_as_the_first() {
        let mut random = Random::new(7);
        let (count, draws) = (1_000, 2_000_000);
        let mut seen = vec![0_u32; count];
        (0..draws).for_each(|_| seen[zipf(&mut random, count) as usize] += 1);
        let all: f64 = (1..=count).map(|rank| 1.0 / rank as f64).sum();
        for rank in [1, 2, 3, 10, 100, 1_000] {
            let expected = f64::from(draws) / all / rank as f64;
            let found = f64::from(seen[rank - 1]);
            assert!((found - expected).abs() < 6.0 * expected.sqrt(), "rank {rank}: {found}, {expected:.0} expected");
        }
    }

    #[test]
    fn places_are_what_the_order_says_whatever_the_number_of_streams() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "5\n0\n 7\n5\n").unwrap();
        let trace: Order = file.path().to_str().unwrap().parse().unwrap();
        for (order, expected) in [("opened".parse().unwrap(), [0, 1, 2, 0, 1]), (trace, [2, 0, 1, 2, 2])] {
            let mut places = Places::new(order);
            places.prepare(3);
            let ahead: Vec<usize> = (0..5).map(|ahead| places.peek(ahead, 3)).collect();
            let taken: Vec<usize> = (0..5).map(|_| places.take(3)).collect();
            assert_eq!((&ahead[..], &taken[..]), (&expected[..], &expected[..]));
        }
        let mut places = Places::new(Order::Zipf);
        for streams in [1, 1_000, 900, 2_500, 3] {
            places.prepare(streams);
            assert!((0..10_000).all(|_| places.take(streams) < streams));
        }
    }

    #[test]
    fn a_file_that_is_no_trace_is_named() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        let fault = |text: &str| format!("{:#}", text.parse::<Order>().unwrap_err());
        assert!(fault(&path).contains("no item number in it"));
        write!(file, "1\nIBM\n").unwrap();
        assert!(fault(&path).contains(":2: \"IBM\" is no item number"));
        assert!(fault("sorted").contains("an order is opened, random, zipf, or a file"));
    }
}
