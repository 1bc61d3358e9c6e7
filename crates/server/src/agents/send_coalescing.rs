//! Send coalescing of an egress shard: how long it rests between two turns, so that each send carries more.
//!
//! What a delivery costs is mostly its share of the system call that sends it, and a shard that always goes on at once sends as
//! little at a time as its clients leave it. N shards then make N times as many sends as one thread for all clients would, each of an
//! N-th. So a shard that had little for each of many clients rests as long as its turn took: half as many sends, and nobody waits
//! longer than for a turn and its rest. Two shards then send together as often as one thread would; more shards wait no longer than
//! two, since who adds shards wants to wait less. With much for each client, or few clients, nobody rests.

/// Bytes of a send, on average, from which the call is no longer most of what it costs: over loopback it takes as long for 90 bytes.
const MUCH: u64 = 16 << 10;
/// A rest that would be shorter is not worth its timer, nanoseconds.
const SHORTEST: u64 = 50_000;

/// The rests of one shard.
#[derive(Debug)]
pub struct SendCoalescing {
    /// Nanoseconds; 0 never rests.
    longest: u64,
    until: u64,
}

impl SendCoalescing {
    /// For one of so many shards, `longest_us` from the configuration (`p2ps.shard_rest_us`). One shard alone never rests.
    pub fn new(shards: u16, longest_us: u32) -> Self {
        Self { longest: if shards > 1 { u64::from(longest_us) * 1_000 } else { 0 }, until: 0 }
    }

    /// When the hub's blocks are looked at again.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// A turn has ended that has taken `worked` nanoseconds, and so many sends of so many bytes together.
    pub fn after(&mut self, now: u64, worked: u64, sends: u64, bytes: u64) {
        let rest = worked.min(self.longest);
        if sends > 0 && bytes < sends.saturating_mul(MUCH) && rest >= SHORTEST {
            self.until = now.saturating_add(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_shards_send_as_often_as_one_and_more_wait_no_longer() {
        // 240 clients of 5 us each in a turn, as much in all for each number of shards.
        for (shards, turn_us) in [(1, 1_200), (2, 1_200), (4, 600), (8, 300)] {
            let (mut shard, mut now, mut turns) = (SendCoalescing::new(shards, 1_000), 0, 0);
            let (clients, end) = (240 / u64::from(shards), 120_000_000);
            while now < end {
                let worked = clients * 5_000;
                now += worked;
                turns += 1;
                shard.after(now, worked, clients, clients * 500);
                now = now.max(shard.until());
            }
            assert_eq!(turns, end / (turn_us * 1_000), "{shards} shards");
        }
    }

    #[test]
    fn who_sends_much_or_to_few_does_not_rest() {
        let mut shard = SendCoalescing::new(2, 500);
        shard.after(1_000, 400_000, 50, 50 * MUCH);
        assert_eq!(shard.until(), 0, "16 KB to each");
        shard.after(1_000, 49_999, 10, 1_000);
        assert_eq!(shard.until(), 0, "a timer is no more exact");
        shard.after(1_000, 400_000, 0, 0);
        assert_eq!(shard.until(), 0, "nothing was sent");
        shard.after(1_000, 50_000, 10, 1_000);
        assert_eq!(shard.until(), 51_000);
        let mut never = SendCoalescing::new(2, 0);
        never.after(1_000, 400_000, 10, 1_000);
        assert_eq!(never.until(), 0, "switched off");
    }

    /// A turn in which the thread was interrupted for long says nothing of what its sends cost.
    #[test]
    fn no_rest_is_longer_than_configured() {
        let mut shard = SendCoalescing::new(64, 500);
        shard.after(7, u64::MAX / 2, 1_000, 1_000);
        assert_eq!(shard.until(), 7 + 500_000);
    }
}
