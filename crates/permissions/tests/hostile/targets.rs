// What the fuzz targets run, and the smoke test in `hostile.rs` with it: any bytes may come, and nothing may panic, hang or
// lose meaning on the way round.

use permissions::lock::{AnyLock, Lock, LockError, combine, eq_meaning};

/// Bytes as a lock, as its text, and as two locks that are combined.
pub(crate) fn lock(data: &[u8]) {
    let _ = AnyLock::decode(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = text.parse::<Lock>();
    }
    let Ok(lock) = Lock::decode(data) else { return };
    match lock.encode() {
        Ok(bytes) => assert_eq!(Lock::decode(&bytes).as_ref(), Ok(&lock), "a lock comes back from its bytes"),
        Err(e) => assert!(matches!(e, LockError::TooLong { .. }), "{e}"),
    }
    assert_eq!(lock.to_string().parse().as_ref(), Ok(&lock), "a lock comes back from its text");
    assert!(eq_meaning(&lock, &combine([&lock, &lock])), "a lock and itself demand what it demands");
    let half = data.len() / 2;
    if let Ok(other) = Lock::decode(&data[half..]) {
        assert!(eq_meaning(&combine([&lock, &other]), &combine([&other, &lock])), "AND has no order");
    }
}
