//! A venue on the web from the network, without sockets: when it is dialled, what is fetched, and what is given up.

use super::*;
use crate::replay::venue::live::{Clock, LiveItems as _, WebConfig, WebFeed, WebWant};

const SECOND: u64 = 1_000_000_000;

fn clock(now: u64) -> Clock {
    Clock { now, wall: 1_700_000_000 * SECOND + now }
}

fn feed(kind: WebKind, products: &[&str]) -> WebFeed {
    let products = products.iter().map(|name| (*name).to_owned()).collect();
    WebFeed::new(&WebConfig { kind, products, suffix: None, symbology: None }, clock(0))
}

/// Lets time go by, and tells what is wanted meanwhile, and when.
fn wait(feed: &mut WebFeed, from: u64, until: u64) -> Vec<(u64, WebWant)> {
    let (mut wants, mut now) = (Vec::new(), from);
    loop {
        while let Some(want) = feed.poll() {
            wants.push((now, want));
        }
        match feed.timer().filter(|due| *due <= until) {
            Some(due) => {
                now = now.max(due);
                feed.on_timer(clock(now));
            }
            None => return wants,
        }
    }
}

fn good(feed: &WebFeed, name: &str) -> bool {
    feed.data_state(feed.find(name).expect("an item")) == DataState::OK
}

const BOOK: &[u8] = br#"{"type":"snapshot","product_id":"A-USD","bids":[["1.5","2"]],"asks":[]}"#;

#[test]
fn who_does_not_answer_is_dialled_again_later_each_time_and_a_steady_connection_begins_that_anew() {
    let mut feed = feed(WebKind::Coinbase, &["A-USD"]);
    let wants = wait(&mut feed, 0, 200 * SECOND);
    let dials: Vec<u64> = wants.iter().filter(|(_, want)| *want == WebWant::Dial).map(|(at, _)| at / SECOND).collect();
    // Ten seconds for an answer, and 1, 2, 4, ... 30 s in between.
    assert_eq!(dials, [0, 11, 23, 37, 55, 81, 121, 161]);
    assert!(wants.windows(2).all(|pair| (pair[0].1 == WebWant::Dial) != (pair[1].1 == WebWant::Dial)));
    // One that is cut at once counts as none: no storm.
    let mut now = 201 * SECOND;
    feed.disconnected(clock(now));
    let next = feed.timer().expect("it is dialled again");
    assert!(next >= now && next - now <= 30 * SECOND);
    now = next;
    assert_eq!(wait(&mut feed, now, now), [(now, WebWant::Dial)]);
    feed.connected(clock(now));
    feed.text(BOOK, clock(now));
    now += SECOND;
    feed.disconnected(clock(now));
    assert_eq!(feed.timer(), Some(now + 30 * SECOND));
    now += 30 * SECOND;
    wait(&mut feed, now, now);
    feed.connected(clock(now));
    for second in 0..12 {
        feed.text(BOOK, clock(now + second * SECOND));
    }
    now += 12 * SECOND;
    feed.disconnected(clock(now));
    assert_eq!(feed.timer(), Some(now + SECOND), "a steady one is dialled again at once");
}

#[test]
fn items_are_suspect_from_the_end_of_a_connection_or_its_silence_to_the_next_beginning() {
    let mut feed = feed(WebKind::Coinbase, &["A-USD", "B-USD"]);
    wait(&mut feed, 0, 0);
    assert!(!feed.is_ready() && !good(&feed, "A-USD"));
    feed.connected(clock(1));
    assert!(matches!(feed.poll(), Some(WebWant::Say(text)) if text.contains("A-USD")));
    feed.text(BOOK, clock(2));
    assert!(feed.is_ready() && good(&feed, "A-USD") && !good(&feed, "B-USD") && feed.figures().is_in_doubt);
    // Nothing for ten seconds: another connection, and what the old one still brings is of no use.
    let wants = wait(&mut feed, 2, 10 * SECOND + 2);
    assert_eq!(wants, [(10 * SECOND + 2, WebWant::HangUp)]);
    assert!(!good(&feed, "A-USD"));
    feed.text(BOOK, clock(10 * SECOND + 3));
    assert!(!good(&feed, "A-USD"));
    let mut states = Vec::new();
    feed.flush(&mut |_| {});
    feed.watch(feed.find("A-USD").expect("an item"), Model::Price, true);
    wait(&mut feed, 11 * SECOND + 2, 11 * SECOND + 2);
    feed.connected(clock(12 * SECOND));
    feed.text(BOOK, clock(12 * SECOND));
    feed.flush(&mut |event| {
        if let Payload::ImagePart { data, .. } = event.payload {
            states.push(data);
        }
    });
    assert_eq!((states, good(&feed, "A-USD")), (vec![DataState::OK], true), "a new image tells that it is good");
    let figures = feed.figures();
    assert_eq!((figures.dials, figures.stream.gaps, figures.stream.repairs), (2, 1, 1));
}

#[test]
fn fetches_are_few_at_a_time_and_given_up_in_their_time_and_with_their_connection() {
    let names = ["A1", "A2", "A3", "A4", "A5", "A6"];
    let mut feed = feed(WebKind::Bitstamp, &names);
    wait(&mut feed, 0, 0);
    feed.connected(clock(0));
    let begin = |feed: &mut WebFeed, now: u64| {
        for name in names {
            let text = format!(
                r#"{{"event":"data","channel":"diff_order_book_{name}","data":{{"microtimestamp":"5","bids":[["1.5","1"]],"asks":[]}}}}"#
            );
            feed.text(text.as_bytes(), clock(now));
        }
    };
    begin(&mut feed, 1);
    let fetched = |wants: &[(u64, WebWant)]| -> Vec<(u64, String)> {
        let of = |(_, want): &(u64, WebWant)| match want {
            WebWant::Fetch { number, path } => Some((*number, path.clone())),
            _ => None,
        };
        wants.iter().filter_map(of).collect()
    };
    let first = fetched(&wait(&mut feed, 1, 1));
    assert_eq!(first.len(), 4);
    let body = br#"{"microtimestamp":"9","bids":[["1.5","1"],["1.25","3"]],"asks":[["2","1"]]}"#;
    feed.fetched(first[0].0, Some(body), clock(2));
    feed.fetched(first[1].0, None, clock(2));
    assert!(good(&feed, "A1") && !good(&feed, "A2"));
    let second = fetched(&wait(&mut feed, 2, 2));
    assert_eq!(
        second.iter().map(|(_, path)| path.contains("A5") || path.contains("A6")).collect::<Vec<_>>(),
        [true, true]
    );
    // What has failed is wanted again, and what does not come in its place: never more than four, and each path once.
    let wants = wait(&mut feed, 2, 29 * SECOND);
    let mut open: Vec<(u64, String)> = [&first[2..], &second[..]].concat();
    for (_, want) in &wants {
        match want {
            WebWant::Fetch { number, path } => open.push((*number, path.clone())),
            WebWant::GiveUp { number } => open.retain(|(known, _)| known != number),
            _ => {}
        }
        let is_once = |(_, path): &(u64, String)| open.iter().filter(|(_, other)| other == path).count() == 1;
        assert!(open.len() <= 4 && open.iter().all(is_once), "{open:?}");
    }
    assert!(fetched(&wants).iter().any(|(_, path)| path.contains("A2")), "{wants:?}");
    // An answer that comes too late changes nothing.
    feed.fetched(first[2].0, Some(body), clock(29 * SECOND));
    assert!(!good(&feed, "A3"));
    feed.disconnected(clock(29 * SECOND));
    assert!(!good(&feed, "A1"));
    let ended = wait(&mut feed, 29 * SECOND, 29 * SECOND);
    assert!(ended.iter().any(|(_, want)| matches!(want, WebWant::GiveUp { .. })), "{ended:?}");
    assert!(fetched(&ended).is_empty());
    // Each connection begins with what it wants anew.
    let dialled = wait(&mut feed, 29 * SECOND, 31 * SECOND);
    assert!(dialled.iter().any(|(_, want)| *want == WebWant::Dial));
    feed.connected(clock(31 * SECOND));
    begin(&mut feed, 31 * SECOND);
    assert_eq!(fetched(&wait(&mut feed, 31 * SECOND, 31 * SECOND)).len(), 4);
}

#[test]
fn a_list_that_could_not_be_fetched_is_taken_when_it_can() {
    let mut feed = feed(WebKind::IndependentReserve, &["ETH-AUD"]);
    assert_eq!(feed.symbols(), ["ETH-AUD"], "the currencies that nobody wants it paid in are no items");
    wait(&mut feed, 0, 0);
    feed.connected(clock(0));
    let text = br#"{"Channel":"orderbook-eth","Nonce":1,"Data":{"OrderType":"LimitBid","OrderGuid":"2ea7b23c-0f3f-4d1f-9c1c-000000000001","Price":{"aud":5.5},"Volume":1.0},"Time":1,"Event":"NewOrder"}"#;
    feed.text(text, clock(1));
    let mut now = 1;
    for attempt in 0..4 {
        let number = loop {
            match feed.poll() {
                Some(WebWant::Fetch { number, .. }) => break number,
                Some(_) => {}
                None => {
                    now = now.max(feed.timer().expect("it is fetched"));
                    assert!(now < 60 * SECOND, "attempt {attempt}");
                    feed.on_timer(clock(now));
                }
            }
        };
        let body: &[u8] =
            br#"{"BuyOrders":[],"SellOrders":[{"Guid":"2ea7b23c-0f3f-4d1f-9c1c-000000000002","Price":6.0,"Volume":2.0}]}"#;
        feed.fetched(number, Some(body).filter(|_| attempt == 3), clock(now));
        assert_eq!(good(&feed, "ETH-AUD"), attempt == 3);
    }
}
