//! The time stamp in updates, from which latency is measured: publisher and consumer share one monotonic clock.

/// The field of the stamp: `TIM_TRK_1`, in the last eight bytes of an update.
const TIM_TRK_1: i16 = 3902;

/// The time stamp of an update in nanoseconds, when it carries one as its last field; resolution is a microsecond.
///
/// Only the last bytes are looked at, so this costs next to nothing for the updates that have none. A message that happens
/// to end in the same eleven bytes is taken for a stamped one: tools use it on their own traffic.
#[inline]
pub fn find(message: &[u8]) -> Option<u64> {
    let tail: &[u8; 11] = message.last_chunk()?;
    let [id_high, id_low, length, micros @ ..] = tail;
    let stamped = [*id_high, *id_low] == TIM_TRK_1.to_be_bytes() && *length == 8;
    stamped.then(|| u64::from_be_bytes(*micros).saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_field_of_eight_bytes_is_a_stamp() {
        let mut message = vec![1, 2, 3, 0x0F, 0x3E, 8];
        message.extend(42u64.to_be_bytes());
        assert_eq!(find(&message), Some(42_000));
        message.push(0);
        assert_eq!(find(&message), None);
        assert_eq!(find(&[8; 5]), None);
    }
}
