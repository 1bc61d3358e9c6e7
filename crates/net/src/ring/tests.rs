use std::collections::VecDeque;
use std::thread;

use super::*;

fn drain(reader: &mut Reader) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    reader.read(usize::MAX, |tag, bytes| all.push((tag, bytes.to_vec())));
    all
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let (mut writer, mut reader) = spsc(1024);
    writer.push(7, b"refresh").expect("space");
    writer.push(8, b"").expect("space");
    assert_eq!(drain(&mut reader), []);
    writer.publish();
    assert_eq!(drain(&mut reader), [(7, b"refresh".to_vec()), (8, Vec::new())]);
    assert_eq!(drain(&mut reader), []);
}

#[test]
fn messages_are_aligned() {
    let (mut writer, mut reader) = spsc(1024);
    for len in 0..20 {
        writer.push(0, &vec![1; len]).expect("space");
    }
    writer.publish();
    reader.read(usize::MAX, |_, bytes| assert_eq!(bytes.as_ptr() as usize % 8, 0));
}

#[test]
fn a_full_ring_says_so_and_publishes_what_it_has() {
    let (mut writer, mut reader) = spsc(64);
    let pushed = (0..100).take_while(|&n| writer.push(n, b"12345678").is_ok()).count();
    assert_eq!(pushed, 4, "64 bytes hold four records of 16");
    assert_eq!((writer.full_count(), writer.lag()), (1, 64));
    assert_eq!(reader.read(1, |tag, _| assert_eq!(tag, 0)), 1);
    writer.push(9, b"12345678").expect("one has been read");
    assert_eq!(writer.push(10, b"").expect_err("full again"), PushError::Full);
    writer.publish();
    assert_eq!(drain(&mut reader).iter().map(|(tag, _)| *tag).collect::<Vec<_>>(), [1, 2, 3, 9]);
}

#[test]
fn the_longest_message_always_fits_an_empty_ring() {
    let (mut writer, mut reader) = spsc(256);
    let longest = writer.longest();
    assert_eq!(writer.push(0, &vec![0; longest + 1]), Err(PushError::TooLong));
    for shift in 0..256 {
        writer.push(0, &vec![1; shift % 30]).expect("space");
        writer.publish();
        assert_eq!(drain(&mut reader).len(), 1);
        writer.push(0, &vec![2; longest]).expect("whatever the position");
        writer.publish();
        assert_eq!(drain(&mut reader), [(0, vec![2; longest])]);
    }
}

/// A queue of vectors as the oracle, with sizes up to the longest, in a fixed pseudo-random order.
#[test]
fn a_ring_is_a_queue_for_each_reader() {
    let (mut writer, mut readers) = broadcast(512, 3);
    let mut models = vec![VecDeque::new(); 3];
    let mut x = 1u32;
    let mut random = move |limit: usize| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as usize % limit
    };
    for round in 0..if cfg!(miri) { 300 } else { 50_000u32 } {
        let message = vec![round as u8; random(writer.longest() + 1).min(random(400))];
        if writer.push(round, &message).is_ok() {
            for model in &mut models {
                model.push_back((round, message.clone()));
            }
        } else {
            assert!(models.iter().any(|model| !model.is_empty()), "full, with nothing unread");
        }
        writer.publish();
        let index = random(3);
        let limit = random(4);
        readers[index].read(limit, |tag, bytes| {
            assert_eq!(models[index].pop_front(), Some((tag, bytes.to_vec())));
        });
    }
}

#[test]
fn a_reader_that_goes_away_frees_its_space() {
    let (mut writer, mut readers) = broadcast(64, 2);
    while writer.push(0, b"12345678").is_ok() {}
    assert_eq!(drain(&mut readers[0]).len(), 4);
    assert_eq!(writer.push(0, b""), Err(PushError::Full), "the other one has not read");
    assert_eq!(writer.readers(), 2);
    drop(readers.pop());
    assert_eq!(writer.readers(), 1);
    writer.push(0, b"").expect("space");
    drop(readers);
    for _ in 0..100 {
        writer.push(0, b"nobody").expect("nobody holds it back");
    }
}

#[test]
fn a_ring_is_finished_when_the_writer_is_gone_and_all_is_read() {
    let (mut writer, mut reader) = spsc(64);
    writer.push(1, b"last").expect("space");
    assert!(!reader.is_finished());
    drop(writer);
    assert!(!reader.is_finished(), "what was pushed is still there");
    assert_eq!(drain(&mut reader), [(1, b"last".to_vec())]);
    assert!(reader.is_finished());
}

fn length(tag: u32) -> usize {
    (tag.wrapping_mul(2_654_435_761) >> 22) as usize % 200
}

// Miri has neither eventfd waits nor patience.
#[cfg(not(miri))]
mod threads_that_sleep {
    use std::time::Duration;

    use super::*;
    use crate::Sleeper;

    /// Writer and readers on threads of their own, all of them sleeping when they can; each reader checks every byte of every message.
    fn stress(readers: usize, messages: u32, capacity: usize) {
        let (mut writer, ends) = broadcast(capacity, readers);
        let reading: Vec<_> = ends
            .into_iter()
            .map(|mut reader| {
                thread::spawn(move || {
                    let mut sleeper = Sleeper::new().expect("eventfd");
                    reader.wake_with(sleeper.waker());
                    let mut expected = 0u32;
                    while !reader.is_finished() {
                        let read = reader.read(100, |tag, bytes| {
                            assert_eq!(tag, expected);
                            assert_eq!(bytes.len(), length(tag));
                            assert!(bytes.iter().all(|&byte| byte == tag as u8));
                            expected += 1;
                        });
                        if read == 0 {
                            if reader.prepare_sleep() {
                                let woken = sleeper.sleep(Some(Duration::from_secs(20)));
                                assert!(woken.expect("sleep"), "slept through a batch");
                            }
                            reader.awake();
                        }
                    }
                    expected
                })
            })
            .collect();
        let mut sleeper = Sleeper::new().expect("eventfd");
        writer.wake_with(sleeper.waker());
        for tag in 0..messages {
            while writer.push_with(tag, length(tag), |bytes| bytes.fill(tag as u8)) == Err(PushError::Full) {
                if writer.prepare_sleep(length(tag)) {
                    assert!(sleeper.sleep(Some(Duration::from_secs(20))).expect("sleep"), "slept through free space");
                }
                writer.awake();
            }
            if tag % 7 == 0 {
                writer.publish();
            }
        }
        drop(writer);
        for thread in reading {
            assert_eq!(thread.join().expect("reader"), messages);
        }
    }

    #[test]
    fn one_reader_under_stress() {
        stress(1, 300_000, 4096);
    }

    #[test]
    fn several_readers_under_stress() {
        stress(3, 100_000, 1024);
    }
}

/// As above without sleeping, small enough for Miri, which watches every access.
#[test]
fn threads_share_the_memory_without_a_race() {
    let messages = if cfg!(miri) { 200 } else { 20_000u32 };
    let (mut writer, readers) = broadcast(256, 2);
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            thread::spawn(move || {
                let mut expected = 0u32;
                while !reader.is_finished() {
                    let read = reader.read(5, |tag, bytes| {
                        assert_eq!(tag, expected);
                        assert!(bytes.iter().all(|&byte| byte == tag as u8));
                        expected += 1;
                    });
                    if read == 0 {
                        thread::yield_now();
                    }
                }
                expected
            })
        })
        .collect();
    for tag in 0..messages {
        while writer.push(tag, &vec![tag as u8; length(tag) % 50]) == Err(PushError::Full) {
            thread::yield_now();
        }
        if tag % 3 == 0 {
            writer.publish();
        }
    }
    drop(writer);
    for thread in reading {
        assert_eq!(thread.join().expect("reader"), messages);
    }
}

/// In a ring of 16 GB half of it is more than a length can say.
#[test]
fn the_longest_message_has_a_length() {
    assert_eq!(super::longest(1 << 12), (1 << 11) - 8);
    assert_eq!(super::longest(1 << 32), (1 << 31) - 8);
    for capacity in [1usize << 34, 1 << 40] {
        assert!(u32::try_from(super::longest(capacity)).is_ok_and(|len| len != super::FILLER), "{capacity}");
    }
}
