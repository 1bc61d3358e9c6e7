//! A process that records is killed at any moment: what it had synchronised is there.

use crate::item;
use record::{Clock, Folder, Info, Journal, JournalConfig, Kind, Recording};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Names the folder to a process that is to be killed.
const FOLDER: &str = "QUOTEWAY_RECORD_FOLDER";
/// Tells it the number of the next update.
const NEXT: &str = "QUOTEWAY_RECORD_NEXT";
/// Tells it to keep up, as a recorder does, in place of synchronising.
const KEEPS_UP: &str = "QUOTEWAY_RECORD_KEEPS_UP";

/// How often to kill: 25 times, in a long run (`QUOTEWAY_LONG`) 1,000 times, else as often as `QUOTEWAY_KILLS` says.
fn kills() -> u64 {
    let usual = if std::env::var_os("QUOTEWAY_LONG").is_some() { 1_000 } else { 25 };
    std::env::var("QUOTEWAY_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(usual)
}

/// How far a recording is known to be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Number of the update behind.
    next: u64,
    /// The sequence number behind its record.
    sequence: u64,
}

impl Known {
    /// What follows is right, too: all updates are there, in order. A thousand kills read the recording once, not a thousand times.
    fn with_the_rest_of(self, recording: &Recording<Folder>) -> Self {
        let mut cursor = recording.from_sequence(self.sequence);
        let mut known = self;
        while let Some(entry) = cursor.next().expect("it can be read") {
            let record = entry.record;
            if record.kind == Kind::Update {
                assert!(
                    record.body == crate::body(known.next),
                    "{} in the place of update {}",
                    record.sequence,
                    known.next
                );
                known = Self { next: known.next + 1, sequence: record.sequence + 1 };
            }
        }
        known
    }
}

/// Records numbered updates until it is killed, and says up to which number they are safe. Does nothing unless it was started for that.
#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let start: u64 = std::env::var(NEXT).expect("it is told").parse().expect("a number");
    let config = JournalConfig { block_records: 100, segment_bytes: 20_000, ..JournalConfig::default() };
    let begin = Instant::now();
    let store = Folder::to_write(Path::new(&folder)).expect("the one before is dead");
    let mut journal = Journal::open(store, config, &mut Vec::new()).expect("it is repaired");
    println!("opened {}", begin.elapsed().as_micros());
    let id = journal.item(item("IBM.N"));
    let mut clock = Clock::start();
    let (keeps_up, mut last) = (std::env::var_os(KEEPS_UP).is_some(), start.saturating_sub(1));
    for n in start.. {
        journal.append(Kind::Update, Some(id), clock.now(), &crate::body(n));
        if keeps_up && n % 251 == 0 {
            // Some blocks have come since the last call: what was recorded before that one is safe.
            journal.keep_up(clock.now());
            println!("safe {}", std::mem::replace(&mut last, n));
        } else if !keeps_up && n % 13 == 0 {
            journal.sync(clock.now());
            println!("safe {n}");
        }
    }
}

/// The number behind a word on a line.
fn number(line: &str, word: &str) -> Option<u64> {
    line.split(word).nth(1)?.trim().parse().ok()
}

#[test]
fn killed_at_any_moment_nothing_that_was_safe_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut known = Known::default();
    let mut slowest = 0;
    let mut followed = None;
    for kill in 0..kills() {
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        let keeps_up = kill % 3 == 2;
        if keeps_up {
            command.env(KEEPS_UP, "1");
        }
        let mut child = command
            .args(["--exact", "killed::the_process_that_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(NEXT, known.next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs again");
        let mut lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // The moment is told by its progress, not by time: some lines, and then some of the next one's work.
        let mut safe = known.next.saturating_sub(1);
        let mut line = String::new();
        for _ in 0..=(seed >> 33) % 40 {
            line.clear();
            while !line.contains("safe") {
                line.clear();
                assert!(lines.read_line(&mut line).expect("a line") > 0, "it has ended by itself");
                slowest = number(&line, "opened ").unwrap_or(0).max(slowest);
            }
            safe = number(&line, "safe ").expect("a number");
        }
        for _ in 0..(seed >> 50) % 3000 {
            std::hint::spin_loop();
        }
        child.kill().expect("it lives");
        child.wait().expect("it is dead");
        let mut rest = String::new();
        lines.read_to_string(&mut rest).expect("what it had said");
        let said = rest.lines().filter(|line| line.starts_with("safe "));
        let whole = said.filter_map(|line| number(line, "safe ")).max().unwrap_or(safe).max(safe);
        let recording =
            followed.get_or_insert_with(|| Recording::open(Folder::to_read(folder.path())).expect("a recording"));
        recording.look_again(known.sequence).expect("it can be read");
        known = known.with_the_rest_of(recording);
        let read = known.next.checked_sub(1).expect("something was written");
        // The last line may have been cut within its number.
        assert!(
            read >= safe && (read + if keeps_up { 252 } else { 14 } >= whole || rest.is_empty()),
            "kill {kill}: {read} of {safe}"
        );
    }
    let begin = Instant::now();
    let recording = Recording::open(Folder::to_read(folder.path())).expect("a recording");
    let reading = begin.elapsed();
    assert_eq!(Known::default().with_the_rest_of(&recording), known, "from the first one on");
    assert!(known.next > 0);
    let Info { segments, .. } = recording.info();
    println!(
        "{} kills, {} updates in {segments} segments; opened to be written within {slowest} us, to be read in {reading:.1?}",
        kills(),
        known.next
    );
}
