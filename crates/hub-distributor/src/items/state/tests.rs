//! Transitions of items, legal and not.

use super::*;
use crate::hash_seed::HashSeed;
use crate::item::ItemHash;

fn item(kind: Kind) -> Item {
    let key = HashedKey::new(ItemHash::new(HashSeed::default(), 1, b"key"), b"key");
    Item::new(1, key, kind, Epoch(1))
}

fn open() -> Item {
    let mut item = item(Kind::SHARED);
    item.watch(Slot(0));
    assert!(item.queue() && !item.queue());
    item.ask(SessionId(7), StreamId(5));
    assert!(item.first_answer() && !item.first_answer());
    item
}

#[test]
fn an_item_is_small() {
    // Names of up to 14 bytes are in it; of longer ones there is a box beside.
    assert!(size_of::<Option<Item>>() <= 72, "{}", size_of::<Option<Item>>());
}

#[test]
fn an_item_that_is_answered_lost_and_back_says_so_once() {
    let mut item = open();
    assert!(item.begin_set(true));
    item.settle(false);
    let (part, news) = item.take_part(true, true, DataState::OK);
    assert_eq!((part.solicited, part.recovery, news), (true, false, News::None));
    assert_eq!(item.complete_set(), (false, false));
    let left = item.leave().unwrap();
    assert_eq!((left.place.stream, left.unanswered), (StreamId(5), false));
    assert!(item.lose() && !item.lose() && item.awaits_recovery());
    item.queue();
    item.ask(SessionId(8), StreamId(6));
    item.first_answer();
    item.begin_set(true);
    item.settle(false);
    let (part, news) = item.take_part(true, false, DataState::OK);
    assert_eq!((part.solicited, part.recovery, news), (true, true, News::GoodAgain));
    let (part, _) = item.take_part(false, true, DataState::OK);
    assert!(part.recovery && item.is_lost(), "until the set is whole");
    assert_eq!(item.complete_set(), (false, true));
    item.check(Handle(0));
}

#[test]
fn an_image_that_was_asked_for_beside_the_first_is_owed_after_a_loss() {
    let mut item = open();
    item.begin_set(true);
    item.settle(false);
    item.take_part(true, true, DataState::OK);
    item.complete_set();
    item.request_image();
    item.leave();
    item.lose();
    item.check(Handle(0));
    item.queue();
    item.ask(SessionId(7), StreamId(9));
    item.first_answer();
    item.begin_set(true);
    item.settle(false);
    item.take_part(true, true, DataState::OK);
    assert_eq!(item.complete_set(), (true, true));
}

#[test]
fn what_was_told_and_what_is_known_change_together() {
    use Reported::{Good, Lost, Nothing, Returning, Suspect, TakenOver, Waits};
    for told in [Nothing, Waits, Good, Suspect, Lost, TakenOver, Returning] {
        assert!(told.data(true).is_suspect() && !told.data(false).is_suspect());
        assert!(told.data(true).is_answered() && told.explained().is_suspect());
        assert_eq!(told.data(false).is_lost(), told.is_lost());
        assert_eq!(told.explained().is_answered(), told.is_answered());
        assert_eq!(told.recovered().is_suspect(), told.is_suspect());
        assert!(!told.recovered().is_lost());
    }
}

#[test]
fn unwatched_time_runs_from_the_last_watcher_on() {
    let mut item = open();
    item.tell_state(DataState::OK);
    item.unwatch(Slot(0));
    assert!(item.starts_aging(1_000_000_000));
    item.watch(Slot(1));
    item.unwatch(Slot(1));
    assert!(!item.starts_aging(2_000_000_000), "the timer is set");
    assert_eq!(item.unwatched_timer(5_000_000_000, 4_000_000_000), UnwatchedTimer::NotYet(6_000_000_000));
    item.check(Handle(0));
    assert_eq!(item.unwatched_timer(6_000_000_000, 4_000_000_000), UnwatchedTimer::Over);
}

#[test]
#[should_panic(expected = "illegal state")]
fn a_published_item_that_expects_an_answer_is_found_out() {
    let mut item = item(Kind::Cached { image: ImageSlot(0) });
    item.images.expecting = true;
    item.images.unanswered = 1;
    item.check(Handle(3));
}

#[test]
#[should_panic(expected = "after it has left its stream")]
fn an_item_with_a_stream_does_not_end() {
    open().end();
}
