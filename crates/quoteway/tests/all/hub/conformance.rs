//! Rules that hold over every transport alike.

use rwf::msg::NakCode;

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site};
use crate::hub::watcher::Watcher;

/// Images, updates in order, a refusal, a post with its ack, a generic message there and back, the dictionary, a second
/// watcher of the same items, closes that reach the provider.
fn a_consumers_day(join: Join) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let site = Site::start(join, &place, &[&[provider.addr]], 1);
    let first = Watcher::connect(&place, "first", site.rssl(0));
    first.open(&names(50));
    first.wait_all_ok();
    first.wait_updates(20);

    let second = Watcher::connect(&place, "second", site.rssl(0));
    second.open(&names(60));
    second.wait_all_ok();
    second.wait_updates(5);
    assert_eq!(provider.streams(), 60, "an item is open once at its provider");

    first.open(&["NONE".into()]);
    first.wait("the refusal", |v| v.items.values().any(|i| i.closed.is_some()));
    first.close(&["NONE".into()]);
    first.post("ITEM3", 77);
    first.wait("the ack", |v| v.acks.contains_key(&77));
    assert_eq!(first.look(|v| v.acks[&77]), None::<NakCode>);
    first.generic("ITEM4", b"there and back");
    first.wait("the generic message", |v| v.generics.iter().any(|g| g == b"there and back"));
    first.dictionary();
    first.wait("the dictionary", |v| v.dictionary.1);

    first.settle(&provider);
    second.settle(&provider);
    drop(second);
    first.close(&names(10));
    crate::hub::until("40 open streams", || {
        first.look(|_| ());
        provider.streams() == 40
    });
    first.wait_updates(5);
    assert_eq!(first.look(|v| v.items.values().map(|i| i.suspects).sum::<u32>()), 0, "nothing was lost");
}

/// Two P2PSs at one Source Distributor: an item is open once upstream, and what one asks for disturbs no watcher of the other.
fn two_p2pss(join: Join) {
    let place = Place::Here;
    let provider = Counting::start(&place);
    let site = Site::start(join, &place, &[&[provider.addr]], 2);
    let first = Watcher::connect(&place, "at the first", site.rssl(0));
    let second = Watcher::connect(&place, "at the second", site.rssl(1));
    first.open(&names(30));
    first.wait_all_ok();
    second.open(&names(40));
    second.wait_all_ok();
    first.wait_updates(10);
    second.wait_updates(10);
    assert_eq!(provider.streams(), 40);
    first.settle(&provider);
    second.settle(&provider);
    for watcher in [&first, &second] {
        assert_eq!(watcher.look(|v| v.items.values().map(|i| i.suspects).sum::<u32>()), 0, "nothing was lost");
    }
}

#[test]
fn in_process() {
    a_consumers_day(Join::InProcess);
}

over_every_transport! {
    a_consumers_day,
    two_p2pss,
}
