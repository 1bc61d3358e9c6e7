//! How long an egress shard rests between two turns.
//!
//! What a delivery costs is mostly its share of the system call that sends it, and a shard that always goes on at once sends as
//! little at a time as its clients leave it. N shards then make N times as many sends as one thread for all clients would, each of an
//! N-th. So a shard that had little for each of many clients rests N - 1 times as long as its turn took: together the shards send as
//! often as one would, and nobody waits longer than for one. With much for each client, or few clients, nobody rests.

/// Bytes of a send, on average, from which the call is no longer most of what it costs: over loopback it takes as long for 90 bytes.
const MUCH: u64 = 16 << 10;
/// A rest that would be shorter is not worth its timer, and no rest is longer, nanoseconds.
const REST: std::ops::RangeInclusive<u64> = 50_000..=500_000;

/// The rests of one shard.
#[derive(Debug)]
pub struct Rest {
    /// Shards beside this one.
    others: u64,
    until: u64,
}

impl Rest {
    /// For one of so many shards.
    pub fn new(shards: u16) -> Self {
        Self { others: u64::from(shards.saturating_sub(1)), until: 0 }
    }

    /// When the hub's blocks are looked at again.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// A turn has ended that has taken `worked` nanoseconds, and so many sends of so many bytes together.
    pub fn after(&mut self, now: u64, worked: u64, sends: u64, bytes: u64) {
        let rest = worked.saturating_mul(self.others);
        if sends > 0 && bytes < sends.saturating_mul(MUCH) && rest >= *REST.start() {
            self.until = now.saturating_add(rest.min(*REST.end()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_shards_send_as_often_as_one() {
        // 24 clients of 5 us each in a turn, as much in all for each number of shards.
        for shards in 1..=4 {
            let (mut rest, mut now, mut turns) = (Rest::new(shards), 0, 0);
            let (clients, end) = (24 / u64::from(shards), 120_000_000);
            while now < end {
                let worked = clients * 5_000;
                now += worked;
                turns += 1;
                rest.after(now, worked, clients, clients * 500);
                now = now.max(rest.until());
            }
            assert_eq!(turns, end / 120_000, "{shards} shards");
        }
    }

    #[test]
    fn who_sends_much_or_to_few_does_not_rest() {
        let mut rest = Rest::new(2);
        rest.after(1_000, 400_000, 50, 50 * MUCH);
        assert_eq!(rest.until(), 0, "16 KB to each");
        rest.after(1_000, 49_999, 10, 1_000);
        assert_eq!(rest.until(), 0, "a timer is no more exact");
        rest.after(1_000, 400_000, 0, 0);
        assert_eq!(rest.until(), 0, "nothing was sent");
        rest.after(1_000, 50_000, 10, 1_000);
        assert_eq!(rest.until(), 51_000);
    }

    /// A turn in which the thread was interrupted for long says nothing of what its sends cost.
    #[test]
    fn no_rest_is_long() {
        let mut rest = Rest::new(64);
        rest.after(7, u64::MAX / 2, 1_000, 1_000);
        assert_eq!(rest.until(), 7 + 500_000);
    }
}
