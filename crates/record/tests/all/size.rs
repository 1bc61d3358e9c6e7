//! Bytes an update of recorded US ticks, encoded as the provider of the replay does. `--nocapture` shows them; without the data nothing is run.

use crate::at;
use feed::replay::ReplaySpeed;
use feed::replay::market::{ReplayConfig, TickReplay};
use feed::{MarketSource as _, Model, Payload};
use record::{Journal, JournalConfig, Kind, Memory, Recording, compact};
use rwf::DataType;
use rwf::msg::{Domain, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use std::path::Path;

/// Updates that are measured: half an hour from the opening on, the busiest of the day.
const UPDATES: usize = 150_000;
/// Recorded updates with the millisecond in which they came, by item.
type Ticks = Vec<(u64, u32, Vec<u8>)>;

fn ticks(folder: &Path) -> Ticks {
    let config = ReplayConfig { pace: ReplaySpeed::Scaled(1.0), from_millis: 34_200_000, pause: 0, repeat: false };
    let mut replay = TickReplay::open(folder, config, &mut |_| {}).expect("they can be read").expect("they are there");
    for name in replay.symbols() {
        let id = replay.find(&name).expect("it has just said so");
        replay.watch(id, Model::Price, true);
    }
    let mut sequence = [0; 8];
    let mut all = Vec::new();
    while all.len() < UPDATES
        && let Some(now) = replay.due()
    {
        replay.advance(now, 1, &mut |event| {
            let Payload::Update(kind) = event.payload else { return };
            let number = &mut sequence[event.instrument.0 as usize % 8];
            *number += 1;
            let mut buf = vec![0; 2000];
            let mut writer = Writer::new(&mut buf);
            let update = UpdateMsg {
                container: DataType::FIELD_LIST,
                update_type: UpdateType(kind as u8),
                seq_num: Some(*number),
                body: event.body,
                ..UpdateMsg::new(Domain(6), 0)
            };
            update.encode(&mut writer).expect("there is room");
            all.push((now, event.instrument.0, writer.written().to_vec()));
        });
    }
    all
}

/// Bytes an update in live segments, and compacted. `jitter` is by how much receipt follows the recorded millisecond.
fn sizes(ticks: &Ticks, jitter: impl Fn(usize) -> u64) -> (f64, f64) {
    let mut journal = Journal::open(Memory::default(), JournalConfig::default(), &mut Vec::new()).expect("memory");
    let items: Vec<u32> = (0..8).map(|n| journal.item(crate::item(&format!("I{n}")))).collect();
    for (n, (time, item, body)) in ticks.iter().enumerate() {
        let clocks = at(time + jitter(n));
        journal.append(Kind::Update, Some(items[*item as usize % 8]), clocks, body);
    }
    let size = |store: &Memory| store.files.values().map(Vec::len).sum::<usize>() as f64 / ticks.len() as f64;
    let live = crate::close(journal);
    let before = size(&live);
    let smaller = compact(live, |told| assert_eq!(told.left, None)).expect("memory");
    let after = size(&smaller);
    let recording = Recording::open(smaller).expect("a recording");
    assert!(recording.from_time(0).next().expect("memory").is_some());
    let read = crate::bodies(&recording);
    assert!(read.len() == ticks.len() && read.iter().zip(ticks).all(|(read, (.., given))| read == given));
    (before, after)
}

#[test]
fn an_update_takes_a_few_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/us-equity-ticks");
    if !folder.is_dir() {
        return;
    }
    let ticks = ticks(&folder);
    let raw: usize = ticks.iter().map(|(.., body)| body.len()).sum();
    let (live, compacted) = sizes(&ticks, |_| 0);
    println!("{} updates of {:.1} bytes", ticks.len(), raw as f64 / ticks.len() as f64);
    println!("received in their millisecond: {live:.2} bytes live, {compacted:.2} compacted");
    // Any nanosecond of the millisecond, so that they are out of order, too: the worst that can come.
    let (noisy, noisy_compacted) =
        sizes(&ticks, |n| 40_000 + (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000);
    println!("received at any nanosecond of it: {noisy:.2} bytes live, {noisy_compacted:.2} compacted");
    assert!(live <= 5.0 && compacted <= 3.0, "{live:.2} live, {compacted:.2} compacted");
    // Three bytes are the nanoseconds of receipt themselves: nothing can foretell them.
    assert!(noisy <= 6.5 && noisy_compacted <= 6.0, "{noisy:.2} live, {noisy_compacted:.2} compacted");
}
