//! Bytes as nobody should send them: the targets of fuzzing, on days and packets that were changed here and there, and on kept inputs.

use venue::nasdaq::mold::MoldPacket;
use venue::nasdaq::soup;

use crate::day::{Day, Random, Settings};
use crate::itch::encoded;
use crate::{cme, iex, kept, kraken, targets, web};

fn changed(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(6) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(5) {
            0 => bytes[at] = random.bits() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.bits() as u8),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

fn day_file(seed: u64) -> Vec<u8> {
    let mut source = Day::new(Settings { seed, stocks: 2, longest_life: 60.0 });
    let mut file = Vec::new();
    for message in (0..150).map(|_| encoded(&source.next())) {
        file.extend_from_slice(&(message.len() as u16).to_be_bytes());
        file.extend_from_slice(&message);
    }
    file
}

/// Operations of a channel: packets that lose, overlap and come twice, time, a snapshot.
fn operations(seed: u64) -> Vec<u8> {
    let mut source = Day::new(Settings { seed, stocks: 2, longest_life: 60.0 });
    let mut random = Random::new(seed);
    let mut all = vec![random.below(2) as u8, 0];
    let mut act = |code: u64, bytes: &[u8]| {
        all.extend_from_slice(&[code as u8, bytes.len() as u8]);
        all.extend_from_slice(bytes);
    };
    let mut next = 1u64;
    for turn in 0..60 {
        let mut packet = MoldPacket::new(*b"day       ", next);
        for _ in 0..random.below(5) {
            packet.push(&encoded(&source.next()));
        }
        next += u64::from(packet.count());
        for line in (0..4).filter(|_| random.chance(0.4)) {
            act(line, packet.bytes());
        }
        match turn {
            40 => act(4, b""),
            45 => act(5, format!("G{next:>20}").as_bytes()),
            _ if random.chance(0.1) => act(6, b""),
            _ => {}
        }
    }
    all
}

fn server_bytes(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut all = Vec::new();
    soup::packet(b'A', b"      day1                   1", &mut all);
    for _ in 0..40 {
        let code = b"SSSSSSH+UZJA"[random.below(12) as usize];
        soup::packet(code, &vec![b'x'; random.below(50) as usize], &mut all);
    }
    all
}

/// A DBN file of a hundred records by order.
fn records(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut all = b"DBN\x01\x04\0\0\0meta".to_vec();
    for _ in 0..100 {
        let mut record = vec![14, 0xA0, 1, 0, random.below(3) as u8, 0, 0, 0];
        record.resize(56, 0);
        record[16] = random.below(20) as u8;
        record[24] = random.below(8) as u8;
        record[32] = random.below(5) as u8;
        record[36] = [0, 0x80, 0x20, 0xA0][random.below(4) as usize];
        record[38] = b"AAAACMRTFN"[random.below(10) as usize];
        record[39] = b"BAN"[random.below(3) as usize];
        all.extend_from_slice(&record);
    }
    all
}

/// Operations of a channel of IEX: segments that lose and come twice, beginnings anew, time.
fn segments(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let (mut all, mut next) = (Vec::new(), 1u64);
    for (n, messages) in iex::session(seed, 120).chunks(3).enumerate() {
        if random.chance(0.05) {
            next = 1;
        }
        let offset = i64::from(next != 1);
        let bytes = iex::segment(7, next, offset, n as i64, messages);
        next += messages.len() as u64;
        for _ in 0..random.below(3) {
            all.extend_from_slice(&[random.below(8) as u8, bytes.len() as u8]);
            all.extend_from_slice(&bytes);
        }
    }
    all
}

#[test]
fn changed_days_channels_and_connections_stop_nothing() {
    let mut random = Random::new(11);
    for seed in 0..400 {
        targets::venue_itch(&changed(&day_file(seed), &mut random));
        targets::venue_mold(&changed(&operations(seed), &mut random));
        targets::venue_dbn(&changed(&records(seed), &mut random));
        targets::venue_soup(&changed(&server_bytes(seed), &mut random));
        targets::venue_iex(&changed(&segments(seed), &mut random));
        targets::venue_cme(&changed(&cme::operations(seed), &mut random));
        targets::venue_kraken(&changed(&kraken::texts(seed), &mut random));
        let mut texts = vec![seed as u8 % 6];
        texts.extend_from_slice(&web::texts(seed));
        targets::venue_web(&changed(&texts, &mut random));
    }
}

#[test]
fn what_fuzzing_has_learnt_stops_nothing() {
    let folder = env!("CARGO_MANIFEST_DIR");
    kept::run(folder, "venue_itch", targets::venue_itch);
    kept::run(folder, "venue_mold", targets::venue_mold);
    kept::run(folder, "venue_dbn", targets::venue_dbn);
    kept::run(folder, "venue_soup", targets::venue_soup);
    kept::run(folder, "venue_iex", targets::venue_iex);
}
