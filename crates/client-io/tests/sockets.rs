//! Consumers and publishers over sockets of this machine.

use client::images::{Condition, Images};
use client::publication::{Event, ItemName, PublicationConfig, Unpublished};
use client::queue::{Overflow, QueueConfig};
use client::{Arrangement, Fields, Interest, Layout, LinkId};
use client_io::{Connection, Notice, Publisher, Session, SessionConfig, Subscription};
use omm::consumer::ItemRequest;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, MsgClass, PostMsg};
use rwf::wire::{Writer, encode_growing};
use rwf::{DataType, FieldListEncoder, Primitive};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn anywhere() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn publisher(address: SocketAddr) -> Publisher {
    Publisher::listen(PublicationConfig::new("FEED"), address).expect("a port")
}

/// One at which items may be asked for before they are published: who comes back at once after a kill is not refused for good.
fn patient_publisher(address: SocketAddr) -> Publisher {
    let config = PublicationConfig { unpublished: Unpublished::Wait, ..PublicationConfig::new("FEED") };
    Publisher::listen(config, address).expect("a port")
}

fn session(servers: &[SocketAddr]) -> Session {
    Session::connect(session_config(servers, ",")).expect("sockets")
}

fn session_config(servers: &[SocketAddr], between: &str) -> SessionConfig {
    let list: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let mut config = SessionConfig::new(&list.join(between), "user").expect("servers");
    let client = &mut config.client;
    for list in std::iter::once(&mut client.consumer.connections).chain(&mut client.beside) {
        (list.retry_min_ns, list.retry_max_ns) = (10_000_000, 20_000_000);
    }
    client.consumer.retry_ns = 10_000_000;
    config
}

#[derive(Fields, Default, Debug, PartialEq)]
struct Quote {
    bid: Option<f64>,
    ask: Option<f64>,
}

/// Applies what comes until `is_so`.
fn until(subscription: &mut Subscription, images: &mut Images, mut is_so: impl FnMut(&Images) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so(images) {
        assert!(Instant::now() < end, "it does not come; {subscription:?}");
        for message in subscription.next_batch(Some(Duration::from_secs(1))).expect("it goes on") {
            images.apply(&message);
        }
    }
}

fn quote(images: &Images, item: u32, layout: &Layout<Quote>) -> Quote {
    let mut quote = Quote::default();
    if let Some(body) = images.payload(item, &mut Vec::new()) {
        layout.apply(&mut quote, body).expect("a field list");
    }
    quote
}

#[test]
fn images_equal_the_providers_after_kills_of_both_servers() {
    live_through_kills(|servers| session_config(servers, ","));
}

#[test]
fn images_equal_the_providers_where_items_are_routed() {
    live_through_kills(|servers| session_config(servers, "|"));
}

#[test]
fn images_equal_the_providers_where_one_stands_by() {
    for arrangement in [Arrangement::StandbyByLogin, Arrangement::StandbyByService] {
        live_through_kills(|servers| {
            let mut config = session_config(servers, "|");
            config.client.arrangement = arrangement;
            config
        });
    }
}

fn live_through_kills(config: impl FnOnce(&[SocketAddr]) -> SessionConfig) {
    const ITEMS: usize = 500;
    let names: Vec<String> = (0..ITEMS).map(|n| format!("ITEM{n}")).collect();
    let mut providers = [Some(patient_publisher(anywhere())), Some(patient_publisher(anywhere()))];
    let addresses = providers.each_ref().map(|p| p.as_ref().and_then(Publisher::address).expect("an address"));
    let session = Session::connect(config(&addresses)).expect("sockets");
    let mut subscription = session.subscribe("FEED", names.clone()).expect("room");
    let dictionary = Arc::new(Dictionary::builtin());
    let layout = Layout::<Quote>::of(&dictionary).expect("known fields");
    let mut images = Images::new(ITEMS, Some(Arc::clone(&dictionary)));
    let (mut values, mut random) = (vec![0.0; ITEMS], 1u64);
    for round in 0..12 {
        for (item, name) in names.iter().enumerate() {
            // The two servers are fed alike; one that was killed has everything again when it is back.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if round == 0 || random >> 40 & 1 == 0 {
                values[item] = f64::from(round) + item as f64 / 8.0;
            }
            for provider in providers.iter().flatten() {
                provider.publish(name, &[("BID", Primitive::Double(values[item]))]).expect("a field");
            }
        }
        if round % 3 == 2 {
            let killed = round as usize / 3 % 2;
            providers[killed] = None;
            let again = patient_publisher(addresses[killed]);
            for (name, value) in names.iter().zip(&values) {
                again.publish(name, &[("BID", Primitive::Double(*value)), ("ASK", Primitive::Blank)]).expect("fields");
            }
            again.flush();
            providers[killed] = Some(again);
        }
        let is_same = |images: &Images| {
            (0..ITEMS).all(|item| {
                images.condition(item as u32) == Condition::Ok
                    && quote(images, item as u32, &layout).bid == Some(values[item])
            })
        };
        until(&mut subscription, &mut images, is_same);
    }
    let status = session.status();
    assert!(status.connections_lost >= 2 && status.is_logged_in, "{status:?}");
    // Both are there again, if the session holds a connection to each.
    let links = status.links.len();
    let status = session.wait(PATIENCE, |status| status.links.iter().all(|link| link.services == ["FEED"]));
    assert!(status.links.len() == links && status.links.iter().all(|link| link.services == ["FEED"]), "{status:?}");
}

#[test]
fn a_preferred_server_is_gone_back_to_when_it_is_asked_for() {
    let providers = [publisher(anywhere()), publisher(anywhere())];
    let addresses = providers.each_ref().map(|p| p.address().expect("an address"));
    for provider in &providers {
        provider.publish("A", &[("BID", Primitive::Double(1.0))]).expect("a field");
    }
    let [first, other] = addresses.map(|address| address.to_string());
    let mut config = session_config(&addresses, ",");
    config.prefer(&first, None).expect("one of the list");
    let session = Session::connect(config).expect("sockets");
    let is_at = |server: &str| {
        let status = session.wait(PATIENCE, |status| status.is_logged_in && status.server.as_deref() == Some(server));
        assert_eq!((status.is_logged_in, status.server.as_deref()), (true, Some(server)));
    };
    is_at(&first);
    assert_eq!(session.fall_back(), Ok(0), "it is there");
    let [preferred, kept] = providers;
    drop(preferred);
    is_at(&other);
    let again = publisher(addresses[0]);
    again.publish("A", &[("BID", Primitive::Double(2.0))]).expect("a field");
    let mut subscription = session.subscribe("FEED", ["A"]).expect("room");
    subscription.next(Some(PATIENCE)).expect("it goes on").expect("an image");
    assert_eq!(session.fall_back(), Ok(1));
    is_at(&first);
    let layout = Layout::<Quote>::of(kept.dictionary()).expect("known fields");
    let mut images = Images::new(1, None);
    until(&mut subscription, &mut images, |images| quote(images, 0, &layout).bid == Some(2.0));
}

#[test]
fn a_program_without_threads_is_called_back() {
    let provider = publisher(anywhere());
    provider.publish("A", &[("BID", Primitive::Double(1.5))]).expect("a field");
    let address = provider.address().expect("an address").to_string();
    let mut connection = Connection::new(SessionConfig::new(&address, "user").expect("a server")).expect("sockets");
    let interest = Interest { request: ItemRequest::new("FEED", ""), names: vec!["A".to_owned(), "NONE".to_owned()] };
    connection.client.subscribe(net::clock::now(), &interest, &mut |_| panic!("nothing is held")).expect("room");
    let (mut heard, end) = (Vec::new(), Instant::now() + PATIENCE);
    while heard.len() < 2 {
        assert!(Instant::now() < end);
        let deadline = net::clock::now() + 100_000_000;
        connection.turn(Some(deadline), &mut |_, d| heard.push((d.item, d.class, d.is_final))).expect("sockets");
    }
    heard.sort_unstable_by_key(|(item, ..)| *item);
    assert_eq!(heard, [(0, MsgClass::REFRESH, false), (1, MsgClass::STATUS, true)]);
    assert!(matches!(connection.poll_notice(), Some(Notice::Connected { .. })));
}

#[test]
fn a_session_that_is_ended_does_not_wait_for_input_to_close() {
    let provider = publisher(anywhere());
    let address = provider.address().expect("an address").to_string();
    let mut connection = Connection::new(SessionConfig::new(&address, "user").expect("a server")).expect("sockets");
    let end = Instant::now() + PATIENCE;
    while !(connection.client.consumer(LinkId::FIRST).has_directory() && connection.client.dictionary().is_some()) {
        assert!(Instant::now() < end);
        connection.turn(Some(net::clock::now() + 100_000_000), &mut |_, _| {}).expect("sockets");
    }
    connection.client.shut_down(net::clock::now(), &mut |_| {});
    let begun = Instant::now();
    while connection.is_connected() {
        // A provider says nothing to a logout: without a close of this side each turn would last as long as it may.
        let deadline = net::clock::now() + PATIENCE.as_nanos() as u64;
        connection.turn(Some(deadline), &mut |_, _| {}).expect("sockets");
    }
    assert!(begun.elapsed() < PATIENCE / 2);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The least that drives a future.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_task_is_woken_by_what_comes_and_by_the_end() {
    let provider = publisher(anywhere());
    provider.publish("A", &[("BID", Primitive::Double(1.0))]).expect("a field");
    let session = session(&[provider.address().expect("an address")]);
    let mut subscription = session.subscribe("FEED", ["A"]).expect("room");
    let first = block_on(async { subscription.ready_batch().await.map(Iterator::count) });
    assert_eq!(first, Ok(1));
    let other = std::thread::spawn(move || {
        block_on(async {
            // Update and state may come in one batch or in two.
            let mut classes = Vec::new();
            while !classes.contains(&MsgClass::STATUS) {
                classes.extend(subscription.ready_batch().await?.map(|message| message.class));
            }
            Ok::<_, client_io::Ended>(classes)
        })
    });
    provider.publish("A", &[("BID", Primitive::Double(2.0))]).expect("a field");
    provider.flush();
    drop(provider);
    let classes = other.join().expect("no panic");
    assert_eq!(classes, Ok(vec![MsgClass::UPDATE, MsgClass::STATUS]), "the update, and that the provider is lost");
    drop(session);
}

#[test]
fn a_session_that_is_dropped_tells_those_who_wait() {
    let provider = publisher(anywhere());
    let session = session(&[provider.address().expect("an address")]);
    let mut subscription = session.subscribe("FEED", ["NONE"]).expect("room");
    let refused = subscription.next(Some(PATIENCE)).expect("it goes on").expect("a status");
    assert!(refused.is_final);
    let waits = std::thread::spawn(move || subscription.next(None).map(|_| ()));
    drop(session);
    let why = waits.join().expect("no panic").expect_err("the end").to_string();
    assert_eq!(why, "the subscription has ended: the session was ended");
}

#[test]
fn an_application_that_is_too_slow_is_cut_or_holds_the_server_up_or_gets_the_latest() {
    let provider = publisher(anywhere());
    let text = "x".repeat(200);
    let publish = |number: u64| {
        let fields = [("BID", Primitive::Double(number as f64)), ("DSPLY_NAME", Primitive::Utf8(text.as_bytes()))];
        provider.publish("A", &fields).expect("fields");
    };
    publish(0);
    let session = session(&[provider.address().expect("an address")]);
    let subscribe = |overflow| {
        let interest = Interest { request: ItemRequest::new("FEED", ""), names: vec!["A".to_owned()] };
        session.subscribe_to(interest, QueueConfig { limit_bytes: 10_000, overflow }).expect("room")
    };
    let layout = Layout::<Quote>::of(provider.dictionary()).expect("known fields");
    let mut latest = subscribe(Overflow::Latest);
    let mut cut = subscribe(Overflow::Cut);
    latest.next(Some(PATIENCE)).expect("it goes on").expect("an image");
    cut.next(Some(PATIENCE)).expect("it goes on").expect("an image");
    for number in 1..=2_000 {
        publish(number);
    }
    provider.flush();
    let mut ended = 0;
    let why = loop {
        match cut.next(Some(PATIENCE)) {
            Ok(Some(_)) => ended += 1,
            Ok(None) => panic!("no end"),
            Err(why) => break why.to_string(),
        }
    };
    assert!(why.contains("too slow") && ended < 100 && cut.counts().cut == 1, "{why} {ended}");
    let mut images = Images::new(1, None);
    until(&mut latest, &mut images, |images| quote(images, 0, &layout).bid == Some(2_000.0));
    assert!(latest.counts().merged > 1_000, "{:?}", latest.counts());
    let mut waits = subscribe(Overflow::Wait);
    waits.next(Some(PATIENCE)).expect("it goes on").expect("an image");
    for number in 2_001..=4_000 {
        publish(number);
    }
    let (mut last, end) = (2_000, Instant::now() + PATIENCE);
    while last < 4_000 {
        assert!(Instant::now() < end);
        for message in waits.next_batch(Some(Duration::from_secs(1))).expect("it goes on") {
            let mut quote = Quote::default();
            layout.apply(&mut quote, rwf::peek::body(message.msg).expect("a body")).expect("fields");
            last += 1;
            assert_eq!(quote.bid, Some(f64::from(last)), "every update once and in order");
        }
    }
}

/// By the clock of this place: each second is a time of the schedule.
#[test]
fn a_preferred_server_is_gone_back_to_at_a_time_of_the_schedule() {
    let (first, other) = (patient_publisher(anywhere()), patient_publisher(anywhere()));
    let [at, elsewhere] = [&first, &other].map(|publisher| publisher.address().expect("an address"));
    drop(first);
    let mut config = session_config(&[at, elsewhere], ",");
    config.prefer(&at.to_string(), None).expect("one of the list");
    config.fall_back_at("* * * * * *").expect("a schedule with seconds");
    let session = Session::connect(config).expect("sockets");
    let mut quotes = session.subscribe("FEED", ["A"]).expect("room");
    let is_at = |address: SocketAddr| {
        let name = address.to_string();
        move |status: &client_io::Status| status.is_logged_in && status.server.as_deref() == Some(name.as_str())
    };
    let status = session.wait(PATIENCE, is_at(elsewhere));
    assert!(is_at(elsewhere)(&status), "{status:?}");
    other.publish("A", &[("BID", Primitive::Double(1.0))]).expect("a field");
    let mut images = Images::new(1, None);
    until(&mut quotes, &mut images, |images| images.condition(0) == Condition::Ok);
    // The other one stays: nothing but the schedule is a reason to leave it.
    let first = patient_publisher(at);
    first.publish("A", &[("BID", Primitive::Double(2.0))]).expect("a field");
    let status = session.wait(PATIENCE, is_at(at));
    assert!(is_at(at)(&status), "{status:?}");
    let layout = Layout::of(&Dictionary::builtin()).expect("known fields");
    until(&mut quotes, &mut images, |images| {
        images.condition(0) == Condition::Ok && quote(images, 0, &layout).bid == Some(2.0)
    });
}

#[test]
fn posts_and_wishes_reach_the_publisher() {
    let config =
        PublicationConfig { unpublished: Unpublished::Wait, takes_posts: true, ..PublicationConfig::new("FEED") };
    let provider = Publisher::listen(config, anywhere()).expect("a port");
    let session = session(&[provider.address().expect("an address")]);
    let mut subscription = session.subscribe("FEED", ["A"]).expect("room");
    let item = ItemName { domain: Domain::MARKET_PRICE, name: "A".into() };
    assert_eq!(provider.next_event(PATIENCE), Some(Event::Wanted(item.clone())));
    provider.publish("A", &[("BID", Primitive::Double(1.0))]).expect("a field");
    subscription.next(Some(PATIENCE)).expect("it goes on").expect("an image");
    let mut body = Vec::new();
    client::fields::write(provider.dictionary(), &[("ASK", Primitive::Int(7))], &mut body).expect("a field");
    let post = PostMsg { container: DataType::FIELD_LIST, body: &body, ..PostMsg::new(Domain::MARKET_PRICE, 0) };
    let id = subscription.post(0, &post, true).expect("an open item");
    let posted = Event::Posted { item: item.clone(), container: DataType::FIELD_LIST, body };
    assert_eq!(provider.next_event(PATIENCE), Some(posted));
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end);
        match session.next_notice(PATIENCE) {
            Some(Notice::Client(client::Event::PostAnswered { id: answered, nak, .. })) => {
                assert_eq!((answered, nak), (id, None));
                break;
            }
            Some(_) => {}
            None => panic!("no answer"),
        }
    }
    drop(subscription);
    assert_eq!(provider.next_event(PATIENCE), Some(Event::Unwanted(item)));
}

/// So many fields of 60,000 bytes each.
fn long_fields(fids: std::ops::Range<i16>) -> Vec<u8> {
    let (mut bytes, value) = (Vec::new(), vec![b'x'; 60_000]);
    let write = |w: &mut Writer<'_>| {
        let mut fields = FieldListEncoder::begin(w)?;
        for fid in fids.clone() {
            fields.raw(fid, &value)?;
        }
        fields.finish()
    };
    let end = encode_growing(&mut bytes, 0, 1 << 20, 1 << 26, write).expect("room");
    bytes.truncate(end);
    bytes
}

/// A consumer that asks for an image that cannot be sent is told so, and does not wait for it.
#[test]
fn an_image_that_is_too_long_is_refused_or_closed() {
    let provider = publisher(anywhere());
    let (domain, list) = (Domain::MARKET_PRICE, DataType::FIELD_LIST);
    provider.publish_image(domain, "LONG", list, &long_fields(1..300)).expect("it goes on");
    provider.flush();
    assert_eq!(provider.status().refused, 1, "18 MB");
    provider.publish_image(domain, "LONG", list, &long_fields(1..200)).expect("12 MB");
    provider.publish_body(domain, "LONG", list, &long_fields(200..300)).expect("6 MB more");
    let session = session(&[provider.address().expect("an address")]);
    let mut subscription = session.subscribe("FEED", vec!["LONG".to_owned()]).expect("room");
    let mut images = Images::new(1, None);
    until(&mut subscription, &mut images, |images| images.condition(0) == Condition::Closed);
}
