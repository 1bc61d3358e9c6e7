//! Applications that hold connections to several servers, each a process of its own, which are killed.

use client::members::Kind;
use client::queue::QueueConfig;
use client::{Arrangement, Layout};
use client_io::{Followed, Step};
use omm::consumer::ItemRequest;
use rwf::dictionary::Dictionary;
use rwf::msg::MsgClass;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::client_servers::{FEED, PATIENCE, Quote, Servers, Watched, await_links, name};

const ITEMS: usize = 200;

fn live_through_kills(arrangement: Arrangement) {
    let mut servers = Servers::new(2, ITEMS);
    let session = servers.session(arrangement, "|");
    await_links(&session, 2);
    let mut watched = Watched::new(&session, ITEMS, QueueConfig::default());
    watched.catch_up(&servers.values, "at first");
    let mut random = 7u32;
    for round in 0..5 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let killed = (random >> 16) as usize % 2;
        servers.change(2);
        servers.kill(killed);
        servers.change(3);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is killed"));
        servers.start(killed);
        servers.change(5);
        await_links(&session, 2);
        watched.catch_up(&servers.values, &format!("round {round}, {killed} is back"));
    }
    if arrangement == Arrangement::Routing {
        return;
    }
    // Where the standby has all items, nobody hears of a loss. When it has them nobody outside knows: so it gets more and more time, and one takeover counts.
    let is_quiet = (1..=12).any(|attempt| {
        let links = session.status().links;
        let serves = links.iter().position(|link| link.serves || !link.serves_in.is_empty()).expect("one serves");
        for _ in 0..attempt * attempt {
            servers.change(1);
            watched.catch_up(&servers.values, "the standby has time");
        }
        watched.suspects = 0;
        servers.kill(serves);
        servers.change(1);
        watched.catch_up(&servers.values, "a takeover");
        let suspects = watched.suspects;
        servers.start(serves);
        await_links(&session, 2);
        watched.catch_up(&servers.values, "both are there");
        suspects == 0
    });
    assert!(is_quiet, "Suspect was told at each takeover");
}

#[test]
fn items_are_routed_to_the_server_that_is_there() {
    live_through_kills(Arrangement::Routing);
}

#[test]
fn a_standby_by_login_takes_over() {
    live_through_kills(Arrangement::StandbyByLogin);
}

#[test]
fn a_standby_by_service_takes_over() {
    live_through_kills(Arrangement::StandbyByService);
}

/// The items of a symbol list, which servers open by themselves: on streams below zero.
struct Listed {
    followed: Followed,
    layout: Layout<Quote>,
    bids: BTreeMap<String, Option<f64>>,
}

impl Listed {
    fn take(&mut self) {
        let Some(step) = self.followed.next(Some(Duration::from_millis(200))).expect("it goes on") else { return };
        match step {
            Step::Joined { item } => {
                assert!(self.bids.insert(self.followed.name(item).to_owned(), None).is_none(), "it joins once");
            }
            Step::Message(message) if message.class != MsgClass::STATUS => {
                assert!(rwf::peek::stream_id(message.msg).is_some_and(|id| id < 0), "nobody has asked for an item");
                let mut quote = Quote::default();
                let body = rwf::peek::body(message.msg).unwrap_or_default();
                self.layout.apply(&mut quote, body).expect("fields");
                let item = message.item;
                self.bids.insert(self.followed.name(item).to_owned(), quote.bid);
            }
            Step::Message(_) => {}
            Step::Left { .. } | Step::Broken { .. } => panic!("{step:?}"),
        }
    }

    fn catch_up(&mut self, values: &[f64], when: &str) {
        let end = Instant::now() + PATIENCE;
        let expected: BTreeMap<String, Option<f64>> =
            values.iter().enumerate().map(|(item, value)| (name(item), Some(*value))).collect();
        while self.bids != expected {
            assert!(Instant::now() < end, "{when}: {:?} are not {expected:?}", self.bids);
            self.take();
        }
    }
}

fn follow_a_list_through_kills(arrangement: Arrangement) {
    let mut servers = Servers::new(2, 20);
    servers.list("ALL");
    let session = servers.session(arrangement, "|");
    await_links(&session, 2);
    let request = ItemRequest::new(FEED, "");
    let followed = session.follow(Kind::SymbolList, "ALL", request, QueueConfig::default()).expect("room");
    let layout = Layout::of(&Dictionary::builtin()).expect("a known field");
    let mut listed = Listed { followed, layout, bids: BTreeMap::new() };
    listed.catch_up(&servers.values, "at first");
    for killed in [0, 1, 0] {
        servers.change(1);
        servers.kill(killed);
        servers.change(3);
        listed.catch_up(&servers.values, &format!("{killed} is killed"));
        servers.start(killed);
        servers.change(2);
        await_links(&session, 2);
        listed.catch_up(&servers.values, &format!("{killed} is back"));
    }
}

#[test]
fn items_of_a_list_are_opened_by_the_server_to_which_it_is_routed() {
    follow_a_list_through_kills(Arrangement::Routing);
}

#[test]
fn items_of_a_list_are_opened_by_a_standby_by_login_too() {
    follow_a_list_through_kills(Arrangement::StandbyByLogin);
}

#[test]
fn items_of_a_list_are_opened_by_a_standby_by_service_too() {
    follow_a_list_through_kills(Arrangement::StandbyByService);
}
