// What the fuzz targets run, and the tests in `all/hostile.rs` with them: any bytes may stand in the files of a recording, and nothing
// may panic, hang or take memory without a bound. Checksums are made right, or nothing behind them would be reached.

use record::{Clocks, Item, Journal, JournalConfig, Kind, Memory, Player, Recording, compact};
use rwf::container::FieldListEncoder;
use rwf::msg::{Domain, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, State};
use std::sync::OnceLock;

const SEGMENT: &str = "0000000001.qwr";
const TAIL: &str = "0000000001.tail";
/// The segment that is changed, which begins with a checkpoint, and its tail.
const SECOND: &str = "0000000002.qwr";
const SECOND_TAIL: &str = "0000000002.tail";
/// Bytes of the heads of a file and of a frame.
const FILE_HEAD: usize = 64;
const FRAME_HEAD: usize = 16;
/// The newest version of the format.
const VERSION: u8 = 5;
/// Kinds of frames that have checksums of their own within their payload.
const SLICED_BLOCK: u8 = 7;
const SLICED_IMAGES: u8 = 8;
/// What a head says that is written by [`recording`], from which time on records are asked for.
const LATE: u64 = u64::MAX / 2;

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

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
}

/// Makes the checksums of all frames right, and those within them, as far as their lengths go.
fn mend(frames: &mut [u8]) {
    let mut at = 0;
    while let Some(len) = number(frames, at + 4) {
        let kind = frames[at];
        let Some(payload) = frames.get_mut(at + FRAME_HEAD..).and_then(|rest| rest.get_mut(..len)) else { return };
        match kind {
            SLICED_BLOCK => _ = mend_slices(payload, number(payload, 48), (64, 16, 8)),
            SLICED_IMAGES => _ = mend_slices(payload, number(payload, 8), (16, 20, 12)),
            _ => {}
        }
        let check = crc(payload);
        frames[at + 8..at + 12].copy_from_slice(&check);
        let check = crc(&frames[at..at + 12]);
        frames[at + 12..at + 16].copy_from_slice(&check);
        at += FRAME_HEAD + len;
    }
}

/// Makes the checksums of slices right: behind a head of so many bytes, of which the last four are its checksum, come entries of so many, of which the last
/// four are that of the slice, and `length_at` is where they have its length.
fn mend_slices(
    payload: &mut [u8],
    slices: Option<usize>,
    (head, entry, length_at): (usize, usize, usize),
) -> Option<()> {
    let directory = head..slices?.checked_mul(entry)?.checked_add(head)?;
    let mut at = directory.end;
    payload.get(directory.clone())?;
    for place in directory.clone().step_by(entry) {
        let length = number(payload, place + length_at)?;
        let check = crc(payload.get(at..at.checked_add(length)?)?);
        payload[place + entry - 4..place + entry].copy_from_slice(&check);
        at += length;
    }
    let check = crc(&[&payload[..head - 4], &payload[directory]].concat());
    payload[head - 4..head].copy_from_slice(&check);
    Some(())
}

fn file_head(version: u8) -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(b"\x89QWREC\r\n");
    head[8] = version;
    let check = crc(&head[..60]);
    head[60..].copy_from_slice(&check);
    head
}

/// The bytes as the frames of a segment, and the second half as those of its tail.
pub(crate) fn recording(data: &[u8]) {
    for version in [1, VERSION] {
        let (mut segment, mut tail) = (data.to_vec(), data[data.len() / 2..].to_vec());
        mend(&mut segment);
        mend(&mut tail);
        let mut store = Memory::default();
        store.files.insert(SEGMENT.into(), [&file_head(version)[..], &segment].concat());
        store.files.insert(TAIL.into(), tail);
        keeps_the_rules(store);
    }
}

/// A change of a file: what is done, and where.
#[derive(Clone, Copy)]
enum Change {
    Set(usize, u8),
    Add(usize, u8),
    Remove(usize, u8),
    Double(usize, u8),
    Cut(usize),
}

impl Change {
    fn of(bytes: [u8; 5], len: usize) -> Self {
        let at = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], 0]) as usize % len.max(1);
        match bytes[0] {
            0..=119 => Self::Set(at, bytes[4]),
            120..=209 => Self::Add(at, bytes[4]),
            210..=229 => Self::Remove(at, bytes[4]),
            230..=249 => Self::Double(at, bytes[4]),
            _ => Self::Cut(at),
        }
    }

    fn make(self, file: &mut Vec<u8>) {
        let piece = |at: usize, count: u8| at..(at + usize::from(count)).min(file.len());
        match self {
            Self::Set(at, byte) => file.iter_mut().skip(at).take(1).for_each(|place| *place = byte),
            Self::Add(at, byte) => file.iter_mut().skip(at).take(1).for_each(|place| *place = place.wrapping_add(byte)),
            Self::Remove(at, count) => _ = file.drain(piece(at.min(file.len()), count)),
            Self::Double(at, count) => {
                let piece = file[piece(at.min(file.len()), count)].to_vec();
                let at = at.min(file.len());
                file.splice(at..at, piece);
            }
            Self::Cut(at) => file.truncate(at),
        }
    }
}

/// Recordings that our own writer has made, changed in some places: the first byte chooses the recording, the second the file and the version that its head tells,
/// and each further five are a change. With right checksums the changes reach what is within slices.
pub(crate) fn changed(data: &[u8]) {
    let [which, how, changes @ ..] = data else { return };
    let seeds = seeds();
    let mut store = seeds[usize::from(*which) % seeds.len()].clone();
    let name = if how & 0x80 != 0 && store.files.contains_key(SECOND_TAIL) { SECOND_TAIL } else { SECOND };
    let Some(file) = store.files.get_mut(name) else { return };
    let head = if name == SECOND { FILE_HEAD } else { 0 };
    let mut frames = file.split_off(head.min(file.len()));
    for change in changes.as_chunks::<5>().0 {
        Change::of(*change, frames.len()).make(&mut frames);
    }
    mend(&mut frames);
    if let [head @ .., _, _, _, _] = &mut file[..]
        && head.len() == FILE_HEAD - 4
    {
        head[8] = 1 + (how & 0x7F) % VERSION;
        let check = crc(head);
        file[FILE_HEAD - 4..].copy_from_slice(&check);
    }
    file.extend_from_slice(&frames);
    keeps_the_rules(store);
}

/// Whether the checksums that are made here are those of the writer.
#[cfg(test)]
pub(crate) fn mends_what_is_whole() -> bool {
    seeds().iter().flat_map(|seed| &seed.files).all(|(name, file)| {
        let frames = &file[if [SEGMENT, SECOND].contains(&&**name) { FILE_HEAD } else { 0 }..];
        let mut mended = frames.to_vec();
        mend(&mut mended);
        mended == frames
    })
}

/// How many slices the recordings have that are changed.
#[cfg(test)]
pub(crate) fn sliced_frames() -> (usize, usize) {
    let kinds = seeds().iter().flat_map(|seed| {
        let file = &seed.files[SECOND];
        let (mut at, mut kinds) = (FILE_HEAD, Vec::new());
        while let Some(len) = number(file, at + 4) {
            kinds.push(file[at]);
            at += FRAME_HEAD + len;
        }
        kinds
    });
    kinds.fold((0, 0), |(blocks, images), kind| {
        (blocks + usize::from(kind == SLICED_BLOCK), images + usize::from(kind == SLICED_IMAGES))
    })
}

/// Of each kind of recording one: closed, with slices, checkpoints, an index; killed, with a tail; clocks set back, gaps and sources' clocks; and
/// with blocks that are not packed.
fn seeds() -> &'static [Memory] {
    static SEEDS: OnceLock<Vec<Memory>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let packed = [seed(3, true, false), seed(3, false, false), seed(64, true, true), seed(2, false, true)];
        packed.into_iter().chain([seed_with(3, false, true, Some(400)), seed_with(3, true, false, Some(0))]).collect()
    })
}

fn seed(slice_records: usize, is_closed: bool, is_odd: bool) -> Memory {
    seed_with(slice_records, is_closed, is_odd, None)
}

fn seed_with(slice_records: usize, is_closed: bool, is_odd: bool, unpacked_bytes: Option<usize>) -> Memory {
    let config = JournalConfig { block_records: 24, slice_records, unpacked_bytes, ..JournalConfig::default() };
    let mut journal = Journal::open(Memory::default(), config, &mut Vec::new()).expect("memory");
    let item = |n: u32| Item { service: "FEED".into(), domain: 6, name: format!("I{n}").into() };
    let items: Vec<u32> = (0..5).map(|n| journal.item(item(n))).collect();
    for n in 0..70u64 {
        let set_back = if is_odd && n > 40 { 1 << 33 } else { 0 };
        let wall = 1_800_000_000_000_000_000 + n * 1_000_000 - set_back;
        let source = (is_odd && n % 3 > 0).then_some(wall - 5_000_000);
        let clocks = Clocks { wall, mono: n * 1_000_000, source };
        let item = items[(n * n % 7 % 5) as usize];
        match n {
            0..=9 => journal.append(Kind::Refresh, Some(items[n as usize % 5]), clocks, &message(n, true)),
            50 if is_odd => journal.overflow(7, 700, clocks),
            _ if n % 13 == 12 => journal.append(Kind::Generic, None, clocks, &n.to_le_bytes()),
            _ => journal.append(Kind::Update, Some(item), clocks, &message(n, false)),
        }
        if n % 30 == 29 {
            journal.sync(clocks);
        }
        if n == 9 {
            journal.end();
        }
    }
    if is_closed {
        journal.end();
    } else {
        journal.sync(Clocks { wall: 1_800_000_001_000_000_000, mono: 70_000_000, source: None });
    }
    journal.store().clone()
}

fn message(n: u64, is_image: bool) -> Vec<u8> {
    let (mut fields, mut buf) = (vec![0; 200], vec![0; 400]);
    let mut w = Writer::new(&mut fields);
    let mut list = FieldListEncoder::begin(&mut w).expect("room");
    list.uint(30, n * 7 % 11).and_then(|()| list.uint(31, n)).expect("room");
    list.uint(1000 + (n % 2) as i16, n << 20).expect("room");
    list.finish().expect("room");
    let body = w.written();
    let mut w = Writer::new(&mut buf);
    let container = DataType::FIELD_LIST;
    let written = if is_image {
        let flags = RefreshFlags::REFRESH_COMPLETE;
        RefreshMsg { flags, container, state: State::OPEN_OK, body, ..RefreshMsg::new(Domain(6), 0) }.encode(&mut w)
    } else {
        UpdateMsg { container, seq_num: Some(n as u32), body, ..UpdateMsg::new(Domain(6), 0) }.encode(&mut w)
    };
    written.expect("room");
    w.into_written().to_vec()
}

/// Whatever the files have, they are read, repaired and made smaller, or refused.
fn keeps_the_rules(store: Memory) {
    let Ok(found) = Recording::open(store.clone()) else { return };
    let all = read(&found);
    let info = found.info();
    let _ = (info.bytes_a_record(), found.rates(20));
    let middle = info.span.map_or(LATE, |(begin, end)| begin / 2 + end / 2);
    for item in found.items() {
        for at in [middle, LATE] {
            let _ = found.image_at(item, at);
        }
        let mut own = found.of_item(item, middle);
        while let Ok(Some(_)) = own.next() {}
    }
    if let Ok(mut player) = Player::at(&found, middle, &|_| true) {
        let _ = player.advance(u64::MAX, 10_000, &mut |_, _| {});
    }
    let _ = compact(store.clone(), |_| {});
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
