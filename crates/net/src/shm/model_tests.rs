//! Every interleaving of small programs over the log. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p quoteway-net --lib --release model_tests`.

use std::path::Path;

use loom::thread;

use super::*;

fn word(value: u64) -> [u8; 8] {
    value.to_ne_bytes()
}

fn publish(writer: &mut Writer, value: u64) {
    writer.room(8)[..8].copy_from_slice(&word(value));
    writer.publish(8);
}

/// The next word, for which it sleeps; `None` when the writer has left.
fn next(reader: &mut Reader) -> Option<u64> {
    loop {
        let bytes = reader.peek().expect("nothing is overwritten that was not read");
        if let Some(first) = bytes.first_chunk() {
            let value = u64::from_ne_bytes(*first);
            reader.release(8);
            return Some(value);
        }
        if reader.arm() {
            reader.wait();
        } else if reader.is_idle() && reader.writer() == WriterState::Ended {
            return None;
        }
    }
}

fn check(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(program);
}

/// A lost wake-up is a deadlock, a word seen too early a data race: loom reports both.
#[test]
fn a_sleeping_reader_is_woken() {
    check(3, || {
        let path = Path::new("woken");
        let mut writer = Writer::create(path, b"", CAPACITY_MIN, Pacing::Receiver).expect("made");
        let mut reader = Reader::open(path).expect("opened");
        let writing = thread::spawn(move || {
            publish(&mut writer, 7);
            // Kept to the end: the second wake-up, of a writer that leaves, must not hide the loss of the first.
            writer
        });
        assert_eq!(next(&mut reader), Some(7));
        drop(writing.join().expect("written"));
    });
}

#[test]
fn a_reader_sees_the_writer_leave() {
    check(3, || {
        let path = Path::new("leaves");
        let writer = Writer::create(path, b"", CAPACITY_MIN, Pacing::Receiver).expect("made");
        let mut reader = Reader::open(path).expect("opened");
        let writing = thread::spawn(move || drop(writer));
        assert_eq!(next(&mut reader), None);
        writing.join().expect("left");
    });
}

/// Three words through two: the third reuses the first one's place, with the writer asleep until it may.
#[test]
fn space_is_reused_only_when_released_and_a_sleeping_writer_is_woken() {
    check(2, || {
        let path = Path::new("reused");
        let mut writer = Writer::create(path, b"", CAPACITY_MIN, Pacing::Receiver).expect("made");
        let mut reader = Reader::open(path).expect("opened");
        let writing = thread::spawn(move || {
            for value in 1..=3 {
                while writer.room(8).len() < 8 {
                    if writer.arm(8) {
                        writer.wait();
                    }
                }
                publish(&mut writer, value);
            }
            writer
        });
        for value in 1..=3 {
            assert_eq!(next(&mut reader), Some(value));
        }
        drop(reader);
        drop(writing.join().expect("written"));
    });
}

/// One that joins while the writer reuses its ring begins where nothing is overwritten.
#[test]
fn one_that_joins_borrows_nothing_that_is_written() {
    check(2, || {
        let path = Path::new("joins");
        let mut writer = Writer::create(path, b"", CAPACITY_MIN, Pacing::Receiver).expect("made");
        let reading = thread::spawn(move || {
            let mut reader = Reader::open(path).expect("opened");
            let first = reader.position() / 8 + 1;
            let seen: Vec<u8> = reader.peek().expect("paced").to_vec();
            let values = seen.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().expect("eight")));
            for (value, expected) in values.zip(first..) {
                assert_eq!(value, expected);
            }
        });
        for value in 1..=3 {
            while writer.room(8).len() < 8 {
                thread::yield_now();
            }
            publish(&mut writer, value);
        }
        reading.join().expect("read");
        drop(writer);
    });
}

/// With source pacing a reader that is too slow is told so, and never believes what was overwritten.
#[test]
fn what_is_overwritten_while_it_is_copied_is_not_believed() {
    check(2, || {
        let path = Path::new("overwritten");
        let mut writer = Writer::create(path, b"", 4 * CAPACITY_MIN, Pacing::Source).expect("made");
        let mut reader = Reader::open(path).expect("opened");
        let writing = thread::spawn(move || {
            for value in 1..=10 {
                publish(&mut writer, value);
            }
            writer
        });
        for _ in 0..2 {
            let first = reader.position() / 8 + 1;
            let copied = reader.peek().map(<[u8]>::to_vec);
            let Ok(copied) = copied else { continue };
            for (bytes, expected) in copied.chunks_exact(8).zip(first..) {
                assert_eq!(u64::from_ne_bytes(bytes.try_into().expect("eight")), expected);
            }
            reader.release(copied.len());
        }
        drop(reader);
        drop(writing.join().expect("written"));
    });
}
