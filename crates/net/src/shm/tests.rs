use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use super::*;
use crate::sys::wait_readable;

const RING: usize = CAPACITY_MIN;

/// A name for a segment, and the directory it is in, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("net-shm-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = env::temp_dir().join(name);
        fs::create_dir(&directory).expect("a directory");
        Self(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.join("log")
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).expect("the directory").count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn both() -> [Pacing; 2] {
    [Pacing::Source, Pacing::Receiver]
}

fn put(writer: &mut Writer, number: u64, words: usize) {
    for bytes in writer.room(words * 8)[..words * 8].chunks_exact_mut(8) {
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
    writer.publish(words * 8);
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight"))).collect()
}

/// Takes all that is there.
fn take(reader: &mut Reader) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let bytes = reader.peek().expect("no overrun");
        if bytes.is_empty() {
            return all;
        }
        all.extend(numbers(bytes));
        let len = bytes.len();
        reader.release(len);
    }
}

/// Waits for what must come, and comes soon unless something is wrong.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

#[test]
fn readers_see_what_is_published_after_they_came_also_across_the_end_of_the_ring() {
    for pacing in both() {
        let place = Place::new();
        let mut writer = Writer::create(&place.path(), b"who", RING, pacing).expect("create");
        put(&mut writer, 1, 3);
        let mut first = Reader::open(&place.path()).expect("open");
        assert_eq!((&first.identity()[..4], first.pacing(), first.capacity()), (b"who\0".as_slice(), pacing, RING));
        assert_eq!(take(&mut first), [] as [u64; 0]);
        put(&mut writer, 2, 1);
        let mut second = Reader::open(&place.path()).expect("open");
        assert_eq!((writer.readers(), take(&mut first)), (2, vec![2]));
        // Many times round, in steps that do not divide the ring.
        for number in 3..300 {
            put(&mut writer, number, 211);
            assert_eq!(take(&mut first), vec![number; 211], "{pacing:?} {number}");
            assert_eq!(take(&mut second), vec![number; 211], "{pacing:?} {number}");
        }
        assert_eq!((first.position(), writer.lag()), (writer.published(), 0));
        drop(first);
        assert_eq!(writer.readers(), 1);
    }
}

#[test]
fn a_writer_paced_by_its_readers_waits_for_the_slowest() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Receiver).expect("create");
    let (mut fast, mut slow) = (Reader::open(&place.path()).expect("open"), Reader::open(&place.path()).expect("open"));
    for number in 0..8 {
        assert!(writer.room(RING / 8).len() >= RING / 8);
        put(&mut writer, number, RING / 64);
        take(&mut fast);
    }
    assert_eq!((writer.room(8).len(), writer.lag()), (0, RING as u64));
    assert!(writer.arm(8) && !wait_readable(writer.as_fd(), Some(Duration::ZERO)).expect("poll"));
    // Bytes that the slow reader has seen and not released stay.
    assert_eq!(numbers(slow.peek().expect("all"))[0], 0);
    assert_eq!(writer.room(8).len(), 0);
    assert!(writer.arm(8));
    slow.release(16);
    assert!(wait_readable(writer.as_fd(), Some(Duration::from_secs(20))).expect("poll"));
    assert_eq!(writer.room(8).len(), 16);
    assert!(!wait_readable(writer.as_fd(), Some(Duration::ZERO)).expect("poll"), "silent again");
    // A reader who leaves makes room, too.
    assert!(writer.arm(1_000));
    drop(slow);
    assert!(wait_readable(writer.as_fd(), Some(Duration::from_secs(20))).expect("poll"));
    assert_eq!(writer.room(1_000).len(), RING);
    assert!(!writer.arm(1_000), "there is room");
}

#[test]
fn a_writer_paced_by_itself_overruns_a_slow_reader_who_is_told() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Source).expect("create");
    let mut reader = Reader::open(&place.path()).expect("open");
    put(&mut writer, 0, 100);
    assert_eq!(numbers(reader.peek().expect("in time"))[..100], [0; 100]);
    // Copied before it was overwritten; not released, and so to be read again.
    for number in 1..=10 {
        put(&mut writer, number, RING / 64);
    }
    let skipped = reader.peek().expect_err("overwritten").skipped;
    assert_eq!((skipped, reader.position()), (writer.published(), writer.published()));
    assert_eq!(take(&mut reader), [] as [u64; 0]);
    put(&mut writer, 11, 2);
    assert_eq!(take(&mut reader), [11, 11]);
}

#[test]
fn nothing_is_lost_or_torn_between_threads_that_sleep_and_wake_each_other() {
    const COUNT: u64 = 40_000;
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Receiver).expect("create");
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut reader = Reader::open(&place.path()).expect("open");
            thread::spawn(move || {
                let mut next = 0;
                while next < COUNT {
                    let bytes = reader.peek().expect("lossless");
                    for record in bytes.chunks(8 * 37) {
                        assert!(numbers(record).iter().all(|n| *n == next), "{next}");
                        next += 1;
                    }
                    let len = bytes.len();
                    reader.release(len);
                    if len == 0 && reader.arm() {
                        let woken = wait_readable(reader.as_fd(), Some(Duration::from_mins(1))).expect("poll");
                        assert!(woken, "slept on something");
                    }
                }
            })
        })
        .collect();
    for number in 0..COUNT {
        while writer.room(8 * 37).len() < 8 * 37 {
            if writer.arm(8 * 37) {
                let woken = wait_readable(writer.as_fd(), Some(Duration::from_mins(1))).expect("poll");
                assert!(woken, "slept on room");
            }
        }
        put(&mut writer, number, 37);
    }
    for reader in readers {
        reader.join().expect("all came, in order");
    }
}

#[test]
fn what_a_reader_of_a_racing_writer_gets_is_never_torn() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Source).expect("create");
    let mut reader = Reader::open(&place.path()).expect("open");
    let (read, overruns) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            loop {
                let Ok(bytes) = reader.peek() else {
                    overruns.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                // Each record is eight equal words at a place that is a multiple of them; copies may end in one.
                let all = numbers(bytes);
                for record in all.chunks_exact(8) {
                    assert!(record.iter().all(|word| *word == record[0]), "torn: {record:?}");
                    assert!(record[0] > last, "{} after {last}", record[0]);
                    last = record[0];
                }
                let whole = all.len() / 8;
                reader.release(whole * 64);
                read.fetch_add(whole as u32, Ordering::Relaxed);
                if whole == 0 && reader.writer() != WriterState::Alive {
                    return;
                }
            }
        });
        let mut number = 0;
        until("records and overruns", || {
            // Sometimes so few that a reader keeps up, sometimes more than the ring holds.
            for _ in 0..if number % 3 == 0 { 3_000 } else { 100 } {
                number += 1;
                put(&mut writer, number, 8);
            }
            read.load(Ordering::Relaxed) > 10_000 && overruns.load(Ordering::Relaxed) > 1
        });
        drop(writer);
    });
}

#[test]
fn an_end_in_order_wakes_readers_and_removes_everything() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Receiver).expect("create");
    let mut reader = Reader::open(&place.path()).expect("open");
    put(&mut writer, 5, 1);
    assert!(!reader.arm(), "there is something");
    assert_eq!((take(&mut reader), reader.writer()), (vec![5], WriterState::Alive));
    assert!(reader.arm());
    put(&mut writer, 6, 1);
    drop(writer);
    assert!(wait_readable(reader.as_fd(), Some(Duration::from_secs(20))).expect("poll"));
    assert_eq!((take(&mut reader), reader.writer()), (vec![6], WriterState::Ended));
    assert!(!reader.arm(), "nobody would wake it");
    assert_eq!(place.files(), 0);
    assert!(matches!(Reader::open(&place.path()), Err(ShmError::System(..))));
}

#[test]
fn a_name_in_use_is_refused_and_so_is_what_is_no_segment() {
    let place = Place::new();
    let writer = Writer::create(&place.path(), b"", RING, Pacing::Source).expect("create");
    assert!(matches!(Writer::create(&place.path(), b"", RING, Pacing::Source), Err(ShmError::InUse(_))));
    assert_eq!(sweep(&place.0, "log"), 0, "its writer lives");
    drop(writer);
    assert!(matches!(Writer::create(&place.path(), b"", RING + 8, Pacing::Source), Err(ShmError::Unknown(..))));
    for content in [&b"short"[..], &vec![0; 100_000], &b"QWSHMLOG".repeat(20_000)] {
        fs::write(place.path(), content).expect("write");
        assert!(matches!(Reader::open(&place.path()), Err(ShmError::Unknown(..))));
        assert!(matches!(Writer::create(&place.path(), b"", RING, Pacing::Source), Err(ShmError::Unknown(..))));
        assert_eq!((sweep(&place.0, "log"), place.files()), (0, 1), "left alone");
    }
    fs::remove_file(place.path()).expect("remove");
    std::os::unix::fs::symlink("/etc/passwd", place.path()).expect("link");
    assert!(matches!(Reader::open(&place.path()), Err(ShmError::System(..))), "no links");
}

#[test]
fn there_is_room_for_so_many_readers_and_no_more() {
    let place = Place::new();
    let writer = Writer::create(&place.path(), b"", RING, Pacing::Source).expect("create");
    let mut readers: Vec<_> = (0..READERS).map(|_| Reader::open(&place.path()).expect("open")).collect();
    assert!(matches!(Reader::open(&place.path()), Err(ShmError::Full(_))));
    readers.swap_remove(40);
    assert_eq!(writer.readers(), READERS - 1);
    readers.push(Reader::open(&place.path()).expect("one has left"));
    drop(writer);
    assert_eq!(place.files(), 0);
}

/// A position that no reader can have must not let the writer overwrite, or overflow.
#[test]
fn nonsense_in_the_table_makes_the_writer_wait_and_nonsense_from_the_writer_is_an_overrun() {
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Receiver).expect("create");
    let mut reader = Reader::open(&place.path()).expect("open");
    put(&mut writer, 1, 8);
    let poke = |at: u64, value: u64| {
        use std::os::unix::fs::FileExt;
        fs::OpenOptions::new()
            .write(true)
            .open(place.path())
            .expect("open")
            .write_all_at(&value.to_ne_bytes(), at)
            .expect("poke");
    };
    for nonsense in [u64::MAX - 1, 1 << 40] {
        poke(4096, nonsense);
        assert!(writer.lag() <= RING as u64);
        let room = writer.room(RING).len();
        assert!(room <= RING);
    }
    for nonsense in [u64::MAX, 1 << 40, RING as u64 + 8] {
        poke(256, nonsense);
        assert!(reader.peek().is_err());
        let position = reader.position();
        poke(256, position);
        assert_eq!(reader.peek(), Ok(&[][..]));
        poke(256, position.wrapping_add(8));
        assert_eq!(reader.peek().map(<[u8]>::len), Ok(8));
        reader.release(8);
    }
}

/// Another process, which is this test again with a task. It dies with the test.
struct Other(Child);

impl Other {
    fn start(test: &str, task: &str, path: &Path) -> Self {
        let child = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", &format!("shm::tests::{test}"), "--nocapture"])
            .env("NET_SHM_TASK", task)
            .env("NET_SHM_PATH", path)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the other process does, if this is one: for ever, until it is killed.
fn task() {
    let (Ok(task), Ok(path)) = (env::var("NET_SHM_TASK"), env::var("NET_SHM_PATH")) else { return };
    let path = PathBuf::from(path);
    if task == "write" {
        let mut writer = Writer::create(&path, b"", RING, Pacing::Receiver).expect("create");
        until("a reader", || writer.readers() == 1);
        put(&mut writer, 77, 2);
        loop {
            thread::park();
        }
    }
    let mut reader = Reader::open(&path).expect("open");
    until("something", || !reader.peek().expect("lossless").is_empty());
    loop {
        thread::park();
    }
}

#[test]
fn a_writer_that_dies_is_noticed_and_its_segment_is_replaced_or_swept() {
    task();
    let place = Place::new();
    for replace in [true, false] {
        let mut other =
            Other::start("a_writer_that_dies_is_noticed_and_its_segment_is_replaced_or_swept", "write", &place.path());
        let mut reader = None;
        until("a segment", || {
            reader = Reader::open(&place.path()).ok();
            reader.is_some()
        });
        let mut reader = reader.expect("opened");
        until("data", || reader.peek().expect("lossless").len() == 16);
        assert_eq!(reader.writer(), WriterState::Alive);
        other.kill();
        assert_eq!(reader.writer(), WriterState::Dead);
        assert_eq!(take(&mut reader), [77, 77], "what it has published is there");
        assert!(matches!(Reader::open(&place.path()), Err(ShmError::Dead(_))));
        if replace {
            let mut writer = Writer::create(&place.path(), b"new", RING, Pacing::Source).expect("the name is free");
            let mut anew = Reader::open(&place.path()).expect("open");
            put(&mut writer, 1, 1);
            assert_eq!((take(&mut anew), take(&mut reader)), (vec![1], vec![]));
        } else {
            assert_eq!((sweep(&place.0, "other"), sweep(&place.0, "log"), sweep(&place.0, "log")), (0, 1, 0));
        }
        assert_eq!(place.files(), 0);
    }
}

#[test]
fn a_reader_that_dies_does_not_hold_the_writer_for_ever() {
    task();
    let place = Place::new();
    let mut writer = Writer::create(&place.path(), b"", RING, Pacing::Receiver).expect("create");
    let mut other = Other::start("a_reader_that_dies_does_not_hold_the_writer_for_ever", "read", &place.path());
    until("a reader", || writer.readers() == 1);
    // From its first message on it is in for it; before, it may have begun behind some.
    until("a full ring", || {
        if writer.room(RING / 16).len() >= RING / 16 {
            put(&mut writer, 1, RING / 128);
        }
        writer.lag() > RING as u64 / 2 && writer.room(RING / 16).len() < RING / 16
    });
    assert_eq!((writer.reap(), writer.readers()), (0, 1), "it lives");
    other.kill();
    assert_eq!((writer.reap(), writer.readers()), (1, 0));
    assert_eq!(writer.room(RING).len(), RING);
}

/// Somebody who can write to the directory makes the FIFO first, so that others can open it: it is not used.
#[test]
fn what_others_can_open_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::temp_dir().join(format!("net-shm-foreign-{}", std::process::id()));
    let _writer = Writer::create(&path, b"x", CAPACITY_MIN, Pacing::Source).expect("made");
    let bell = std::path::PathBuf::from(format!("{}.r0", path.display()));
    let open_to_all = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    };
    drop(Reader::open(&path).expect("as it should be"));
    open_to_all(&bell, 0o666);
    let error = Reader::open(&path).expect_err("a FIFO for all").to_string();
    assert!(error.contains("other users can open it"), "{error}");
    open_to_all(&bell, 0o600);
    drop(Reader::open(&path).expect("as it should be"));
    open_to_all(&path, 0o644);
    let error = Reader::open(&path).expect_err("a segment for all").to_string();
    assert!(error.contains("other users can open it"), "{error}");
    open_to_all(&path, 0o600);
}
