//! Transports that wait for a place, and which of them gets one that another session has to leave.

use lbm::wire::lbmr::Transport;
use std::hash::{BuildHasher as _, RandomState};

/// Transports that are remembered, at most: a real source advertises again within seconds, and so many that are invented take longer.
const REMEMBERED: usize = 1 << 14;

/// Transports that were advertised while there was no place. A place that one has to leave goes to a transport that is advertised again, as a
/// real source's is: whoever invents a new one with each advertisement gets none, however fast that is.
#[derive(Debug, Default)]
pub(crate) struct WaitingTransports {
    /// By hash: the hash itself, 0 for none. Empty until there was no place for one.
    asked: Vec<u64>,
    hasher: RandomState,
}

impl WaitingTransports {
    /// A transport is advertised that there is no place for: true if it was before.
    pub(crate) fn asks_again(&mut self, transport: &Transport) -> bool {
        if self.asked.is_empty() {
            self.asked = vec![0; REMEMBERED];
        }
        let hash = self.hasher.hash_one(transport).max(1);
        let known = &mut self.asked[hash as usize % REMEMBERED];
        std::mem::replace(known, hash) == hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(port: u16) -> Transport {
        Transport::Lbtru { address: [127, 0, 0, 1].into(), session_id: Some(9), port }
    }

    #[test]
    fn one_that_is_advertised_again_gets_a_place_while_others_are_invented() {
        let mut waiting = WaitingTransports::default();
        assert!(!waiting.asks_again(&udp(1)));
        assert!(waiting.asks_again(&udp(1)));
        let again = (1_000..2_000).filter(|&port| waiting.asks_again(&udp(port))).count();
        assert_eq!(again, 0, "each is new");
        // Each of a thousand has taken its place by one chance in sixteen.
        let kept = (1_000..2_000).filter(|&port| waiting.asks_again(&udp(port))).count();
        assert!(kept > 850, "{kept} of 1,000 are known again");
    }
}
