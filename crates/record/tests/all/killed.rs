//! A process that records is killed at any moment: what it had synchronised is there.

use crate::item;
use record::{Clock, Folder, Journal, JournalConfig, Kind, Recording};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the folder to a process that is to be killed.
const FOLDER: &str = "QUOTEWAY_RECORD_FOLDER";

/// How often to kill. `QUOTEWAY_KILLS=1000` for a long run.
fn kills() -> u64 {
    std::env::var("QUOTEWAY_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(25)
}

/// Records numbered updates until it is killed, and says up to which number they are safe. Does nothing unless it was started for that.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let config = JournalConfig { block_records: 100, segment_bytes: 20_000, ..JournalConfig::default() };
    let store = Folder::to_write(Path::new(&folder)).expect("the one before is dead");
    let mut journal = Journal::open(store, config, &mut Vec::new()).expect("it is repaired");
    let recording = Recording::open(Folder::to_read(Path::new(&folder)));
    let start = recording.map_or(0, |recording| last_number(&recording).map_or(0, |last| last + 1));
    let id = journal.item(item("IBM.N"));
    let mut clock = Clock::start();
    for n in start.. {
        journal.append(Kind::Update, Some(id), clock.now(), &crate::body(n));
        if n % 13 == 0 {
            journal.sync(clock.now());
            println!("safe {n}");
        }
    }
}

/// All updates are there from 0 on, in order; the last one's number.
fn last_number(recording: &Recording<Folder>) -> Option<u64> {
    let mut cursor = recording.from_time(0);
    let mut next = 0;
    while let Some(entry) = cursor.next().expect("it can be read") {
        if entry.record.kind == Kind::Update {
            assert_eq!(entry.record.body, crate::body(next), "{next}");
            next += 1;
        }
    }
    next.checked_sub(1)
}

#[test]
fn killed_at_any_moment_nothing_that_was_safe_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut last = 0;
    for kill in 0..kills() {
        let mut child = Command::new(std::env::current_exe().expect("it runs"))
            .args(["--exact", "killed::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs again");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The moment is told by its progress, not by time: some lines, and then some of the next one's work.
        let mut safe = last;
        let mut line = String::new();
        for _ in 0..=(seed >> 33) % 40 {
            line.clear();
            while !line.contains("safe") {
                line.clear();
                assert!(lines.read_line(&mut line).expect("a line") > 0, "it has ended by itself");
            }
            safe = line.split("safe ").nth(1).and_then(|n| n.trim().parse().ok()).expect("a number");
        }
        for _ in 0..(seed >> 50) % 3000 {
            std::hint::spin_loop();
        }
        child.kill().expect("it lives");
        child.wait().expect("it is dead");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).expect("what it had said");
        let said = rest.lines().filter(|line| line.starts_with("safe "));
        let whole = said.filter_map(|line| line["safe ".len()..].parse().ok()).max().unwrap_or(safe).max(safe);
        let recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
        let read = last_number(&recording).expect("something was written");
        // The last line may have been cut within its number.
        assert!(read >= safe && (read + 14 >= whole || rest.is_empty()), "kill {kill}: {read} of {safe}");
        last = read;
    }
    assert!(last > 0);
}
