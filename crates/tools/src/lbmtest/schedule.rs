//! Test messages by a schedule, whatever becomes of them.

use std::time::Duration;

use feed::pace::{Pacer, Rate, Shape};

use super::payload::Payload;

/// Messages between two turns while they go as fast as they can.
pub(super) const BURST: u64 = 64;

/// When each message is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) rate: Rate,
    /// So many messages, in the place of so long.
    pub(super) count: Option<u64>,
    pub(super) seconds_ns: u64,
}

/// A publisher that waits for whoever has to have its messages.
pub(super) trait Blocking {
    /// Sends a test message, and waits while it may not go.
    fn send(&mut self, message: Payload) -> anyhow::Result<()>;

    /// A turn, which waits for so long at most.
    fn turn(&mut self, wait: Duration) -> anyhow::Result<()>;
}

/// Sends by the schedule; returns how many messages, and how long it took, ns.
pub(super) fn send_all(publisher: &mut impl Blocking, schedule: Schedule) -> anyhow::Result<(u64, u64)> {
    let Schedule { rate, count, seconds_ns } = schedule;
    let (began, mut sent) = (net::clock::now(), 0);
    let ends = began.saturating_add(seconds_ns);
    let mut pacer = Pacer::new(Shape::Smooth, rate, began);
    while count.is_none_or(|count| sent < count) && net::signal::stop_requested() == 0 {
        let now = net::clock::now();
        if count.is_none() && now >= ends {
            break;
        }
        let due = if rate == Rate::Max { BURST } else { pacer.due(now) }.min(count.unwrap_or(u64::MAX) - sent);
        pacer.skip(due);
        for _ in 0..due {
            let number = (sent % u64::from(u32::MAX)) as u32;
            publisher.send(Payload::Message { number, topic: 0, intended: now })?;
            sent += 1;
        }
        let next = pacer.next(now).unwrap_or(now).saturating_sub(net::clock::now());
        publisher.turn(if rate == Rate::Max { Duration::ZERO } else { Duration::from_nanos(next) })?;
    }
    Ok((sent, net::clock::now() - began))
}
