//! Every interleaving of small programs over the ring. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p quoteway-net --lib --release ring::model_tests`.

use loom::thread;

use super::*;

/// Reads a message or sleeps until there is one; `None` when the writer is gone.
fn next(reader: &mut Reader, waker: &Waker) -> Option<Vec<u8>> {
    loop {
        let mut message = None;
        reader.read(1, |_, bytes| message = Some(bytes.to_vec()));
        if message.is_some() {
            return message;
        }
        if reader.is_finished() {
            return None;
        }
        if reader.prepare_sleep() {
            waker.wait();
        }
        reader.awake();
    }
}

fn reader_with_waker(reader: &mut Reader) -> Waker {
    let waker = Waker::new();
    reader.wake_with(waker.clone());
    waker
}

/// A lost wake-up is a deadlock, a message seen too early a data race: loom reports both.
#[test]
fn a_sleeping_reader_is_woken() {
    loom::model(|| {
        let (mut writer, mut reader) = spsc(64);
        let waker = reader_with_waker(&mut reader);
        let writing = thread::spawn(move || {
            writer.push(0, &[1]).unwrap();
            writer.publish();
            // Kept to the end: the second wake-up, of a writer that goes away, must not hide the loss of the first.
            writer
        });
        assert_eq!(next(&mut reader, &waker), Some(vec![1]));
        drop(writing.join().unwrap());
    });
}

#[test]
fn a_reader_sees_the_writer_go() {
    loom::model(|| {
        let (writer, mut reader) = spsc(64);
        let waker = reader_with_waker(&mut reader);
        let writing = thread::spawn(move || drop(writer));
        assert_eq!(next(&mut reader, &waker), None);
        writing.join().unwrap();
    });
}

/// Three records of 16 bytes through 32: the third reuses the first one's space, with the writer asleep until it may.
#[test]
fn space_is_reused_only_when_read_and_a_sleeping_writer_is_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (mut writer, mut reader) = spsc(32);
        let waker = Waker::new();
        writer.wake_with(waker.clone());
        let writing = thread::spawn(move || {
            for n in 1..=3u8 {
                while writer.push(0, &[n]) == Err(PushError::Full) {
                    if writer.prepare_sleep(1) {
                        waker.wait();
                    }
                    writer.awake();
                }
                writer.publish();
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            if reader.read(1, |_, bytes| seen.extend_from_slice(bytes)) == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(seen, [1, 2, 3]);
        writing.join().unwrap();
    });
}

#[test]
fn the_slowest_reader_holds_the_writer_back() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (mut writer, readers) = broadcast(32, 2);
        let reading: Vec<_> = readers
            .into_iter()
            .map(|mut reader| {
                let waker = reader_with_waker(&mut reader);
                thread::spawn(move || {
                    let first = next(&mut reader, &waker);
                    assert_eq!(first, Some(vec![1]));
                })
            })
            .collect();
        for n in 1..=3u8 {
            // The readers leave after one message, which frees all.
            while writer.push(0, &[n]) == Err(PushError::Full) {
                thread::yield_now();
            }
            writer.publish();
        }
        for thread in reading {
            thread.join().unwrap();
        }
    });
}
