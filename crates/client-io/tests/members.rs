//! Chains and symbol lists, followed over sockets of this machine while they change.

use client::members::Kind;
use client::publication::{PublicationConfig, Unpublished};
use client::queue::QueueConfig;
use client_io::{Followed, Publisher, Session, SessionConfig, Step};
use omm::consumer::ItemRequest;
use rwf::msg::{Domain, MsgClass};
use rwf::wire::encode_growing;
use rwf::{DataType, MapAction, MapEncoder, MapHead, Primitive};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn publisher(port: u16) -> Publisher {
    let config = PublicationConfig {
        domains: vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST],
        unpublished: Unpublished::Wait,
        ..PublicationConfig::new("FEED")
    };
    let publisher = Publisher::listen(config, ([127, 0, 0, 1], port).into()).expect("a port");
    for name in ["A", "B", "C", "D", "E"] {
        publisher.publish(name, &[("BID", Primitive::Double(1.0))]).expect("a field");
    }
    publisher
}

fn session(publisher: &Publisher) -> Session {
    let address = publisher.address().expect("an address").to_string();
    let mut config = SessionConfig::new(&address, "user").expect("a server");
    let consumer = &mut config.client.consumer;
    (consumer.connections.retry_min_ns, consumer.connections.retry_max_ns) = (10_000_000, 20_000_000);
    consumer.retry_ns = 10_000_000;
    Session::connect(config).expect("sockets")
}

fn record(publisher: &Publisher, name: &str, links: [&str; 3], next: &str) {
    let text = |text: &'static str| Primitive::Ascii(text.as_bytes());
    let names = ["LINK_1", "LINK_2", "LINK_3"];
    let mut fields: Vec<(&str, Primitive<'_>)> = Vec::new();
    fields.extend(names.iter().zip(&links).map(|(field, link)| (*field, Primitive::Ascii(link.as_bytes()))));
    fields.push(("NEXT_LR", Primitive::Ascii(next.as_bytes())));
    fields.push(("DSPLY_NAME", text("A chain")));
    publisher.publish(name, &fields).expect("fields");
}

/// Takes what comes until all is known, the members are these, and each has an image. `seen` is the members as they were told.
fn until(followed: &mut Followed, seen: &mut BTreeSet<String>, imaged: &mut BTreeSet<String>, members: &[&str]) {
    let end = Instant::now() + PATIENCE;
    while !(followed.is_complete() && followed.members() == members && *imaged == *seen) {
        assert!(Instant::now() < end, "{:?}, not {members:?}; {seen:?} {imaged:?}", followed.members());
        match followed.next(Some(Duration::from_secs(1))).expect("it goes on") {
            Some(Step::Joined { item }) => assert!(seen.insert(followed.name(item).to_owned())),
            Some(Step::Left { item }) => {
                let name = followed.name(item).to_owned();
                imaged.remove(&name);
                assert!(seen.remove(&name));
            }
            Some(Step::Message(message)) if message.class == MsgClass::REFRESH => {
                let item = message.item;
                imaged.insert(followed.name(item).to_owned());
            }
            Some(_) | None => {}
        }
    }
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), {
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted
    });
}

#[test]
fn a_chain_is_followed_as_it_changes_and_through_a_loss() {
    let provider = publisher(0);
    let port = provider.address().expect("an address").port();
    record(&provider, "0#X", ["A", "B", ""], "1#X");
    record(&provider, "1#X", ["C", "", ""], "");
    let session = session(&provider);
    let request = ItemRequest::new("FEED", "");
    let mut followed = session.follow(Kind::Chain, "0#X", request, QueueConfig::default()).expect("room");
    let (mut seen, mut imaged) = (BTreeSet::new(), BTreeSet::new());
    until(&mut followed, &mut seen, &mut imaged, &["A", "B", "C"]);
    record(&provider, "1#X", ["C", "D", ""], "2#X");
    record(&provider, "2#X", ["E", "", ""], "");
    until(&mut followed, &mut seen, &mut imaged, &["A", "B", "C", "D", "E"]);
    record(&provider, "0#X", ["B", "A", ""], "2#X");
    until(&mut followed, &mut seen, &mut imaged, &["B", "A", "E"]);
    // The chain has changed when its provider is back.
    drop(provider);
    let provider = publisher(port);
    record(&provider, "0#X", ["B", "D", ""], "");
    until(&mut followed, &mut seen, &mut imaged, &["B", "D"]);
    provider.end(Domain::MARKET_PRICE, "0#X", "no more").expect("it goes on");
    let end = Instant::now() + PATIENCE;
    let mut is_broken = false;
    while !(is_broken && followed.members().is_empty()) {
        assert!(Instant::now() < end);
        let step = followed.next(Some(Duration::from_secs(1))).expect("it goes on");
        is_broken |= step == Some(Step::Broken { record: 0 });
    }
}

fn symbols(names: &[&str]) -> Vec<u8> {
    let mut list = Vec::new();
    let end = encode_growing(&mut list, 0, 256, 1 << 16, |w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
        for name in names {
            map.entry(MapAction::ADD, &Primitive::Ascii(name.as_bytes()), |_| Ok(()))?;
        }
        map.finish()
    });
    list.truncate(end.expect("room"));
    list
}

#[test]
fn a_symbol_list_is_followed_as_it_changes() {
    let provider = publisher(0);
    provider.publish_image(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &symbols(&["A", "B"])).expect("it goes on");
    let session = session(&provider);
    let request = ItemRequest::new("FEED", "");
    let mut followed = session.follow(Kind::SymbolList, "ALL", request, QueueConfig::default()).expect("room");
    let (mut seen, mut imaged) = (BTreeSet::new(), BTreeSet::new());
    until(&mut followed, &mut seen, &mut imaged, &["A", "B"]);
    provider.publish_body(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &symbols(&["C"])).expect("an update");
    until(&mut followed, &mut seen, &mut imaged, &["A", "B", "C"]);
    provider.publish_image(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &symbols(&["C", "D"])).expect("a new image");
    until(&mut followed, &mut seen, &mut imaged, &["C", "D"]);
}
