// What the fuzz target runs, and the smoke test in `all/hostile.rs` with it: any bytes may stand in the files of a recording, and nothing
// may panic, hang or take memory without a bound. Checksums are made right, or nothing behind them would be reached.

use record::{Journal, JournalConfig, Memory, Recording};

const SEGMENT: &str = "0000000001.qwr";
const TAIL: &str = "0000000001.tail";
/// Bytes of the heads of a file and of a frame.
const FILE_HEAD: usize = 64;
const FRAME_HEAD: usize = 16;

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    (!crc).to_le_bytes()
}

/// Makes the checksums of all frames right, as far as their lengths go.
fn mend(frames: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = frames.get(at..at + FRAME_HEAD) {
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(payload) = frames.get(at + FRAME_HEAD..).and_then(|rest| rest.get(..len)) else { return };
        let check = crc(payload);
        frames[at + 8..at + 12].copy_from_slice(&check);
        let check = crc(&frames[at..at + 12]);
        frames[at + 12..at + 16].copy_from_slice(&check);
        at += FRAME_HEAD + len;
    }
}

/// The bytes as the frames of a segment, and the second half as those of its tail: read, and repaired.
pub(crate) fn recording(data: &[u8]) {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(b"\x89QWREC\r\n");
    head[8] = 1;
    let check = crc(&head[..60]);
    head[60..].copy_from_slice(&check);
    let (mut segment, mut tail) = (data.to_vec(), data[data.len() / 2..].to_vec());
    mend(&mut segment);
    mend(&mut tail);
    let mut store = Memory::default();
    store.files.insert(SEGMENT.into(), [&head[..], &segment].concat());
    store.files.insert(TAIL.into(), tail);
    let Ok(found) = Recording::open(store.clone()) else { return };
    let all = read(&found);
    let _ = (found.info().bytes_a_record(), found.rates(20));
    for item in found.items() {
        let _ = found.image_at(item, u64::MAX / 2);
    }
    // The next writer has what was read, and makes it whole.
    let Ok(mut journal) = Journal::open(store, JournalConfig::default(), &mut Vec::new()) else { return };
    journal.end();
    let repaired = Recording::open(journal.store().clone()).expect("it was repaired");
    assert!(read(&repaired) >= all.min(1), "what was read is gone");
}

/// Records that can be read.
fn read(recording: &Recording<Memory>) -> usize {
    let mut cursor = recording.from_time(0);
    let mut count = 0;
    // Gaps may be as long as numbers go, but each takes a block of its own.
    while let Ok(Some(entry)) = cursor.next() {
        count += usize::from(entry.item.is_some() || !entry.record.body.is_empty());
    }
    count
}
