//! A tunnel stream between this end and a provider by hand, which says what ETA's reactor says.

use super::*;
use proptest::prelude::*;
use rwf::container::{ElementListEncoder, FilterAction, FilterHead, FilterListEncoder};
use rwf::msg::{AckMsg, RefreshFlags, StatusMsg};
use rwf::{EncodeError, Primitive};

const SECOND: u64 = 1_000_000_000;
const STREAM: i32 = 77;

fn encode(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 20_000];
    let mut w = Writer::new(&mut buf);
    write(&mut w).expect("room");
    w.into_written().to_vec()
}

fn tunnel(has_login: bool) -> Tunnel {
    let login =
        login::Request { name: "user".to_owned(), password: Some("secret".to_owned()), ..login::Request::default() };
    Tunnel::new(TunnelConfig {
        stream_id: STREAM,
        domain: Domain::SYSTEM,
        name: "TUNNEL".to_owned(),
        service_id: 0,
        login: has_login.then_some(login),
        messages_max: 3,
        patience: 5 * SECOND,
    })
}

fn sent(tunnel: &mut Tunnel) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| tunnel.poll_transmit().map(<[u8]>::to_vec)).collect()
}

fn events(tunnel: &mut Tunnel) -> Vec<Event> {
    std::iter::from_fn(|| tunnel.poll_event()).collect()
}

/// The class of service of a provider that takes messages of `max` bytes, `window` of them at a time.
fn class(version: u64, max: u64, window: i64) -> Vec<u8> {
    encode(|w| {
        let mut list = FilterListEncoder::begin(w, FilterHead::new(DataType::ELEMENT_LIST))?;
        list.entry(1, FilterAction::SET, |w| {
            let mut common = ElementListEncoder::begin(w)?;
            common.uint(b":MaxMsgSize", max)?;
            common.uint(b":StreamVersion", version)?;
            common.finish()
        })?;
        list.entry(3, FilterAction::SET, |w| {
            let mut flow = ElementListEncoder::begin(w)?;
            flow.uint(b":Type", 1)?;
            flow.element(b":RecvWindowSize", DataType::INT, &Primitive::Int(window))?;
            flow.finish()
        })?;
        list.finish();
        Ok(())
    })
}

fn answer(tunnel: &mut Tunnel, msg: &[u8]) {
    assert!(tunnel.handle_message(SECOND, &Msg::decode(msg).expect("a message")));
}

fn accept(tunnel: &mut Tunnel, class: &[u8]) {
    let refresh = RefreshMsg {
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED | RefreshFlags::PRIVATE_STREAM,
        state: State::OPEN_OK,
        container: DataType::FILTER_LIST,
        body: class,
        ..RefreshMsg::new(Domain::SYSTEM, STREAM)
    };
    answer(tunnel, &encode(|w| refresh.encode(w)));
}

fn generic(number: Option<u32>, header: &[u8], body: &[u8]) -> Vec<u8> {
    let container = if body.is_empty() { DataType::NO_DATA } else { DataType::MSG };
    let generic = GenericMsg {
        seq_num: number,
        ext_header: Some(header),
        container,
        body,
        ..GenericMsg::new(Domain::SYSTEM, STREAM)
    };
    encode(|w| generic.encode(w))
}

/// An acknowledgement as ETA writes it.
fn ack(action: u8, up_to: u32, again: &[(u32, u32)], window: u32) -> Vec<u8> {
    let mut header = vec![2, action];
    header.extend(up_to.to_be_bytes());
    header.push(again.len() as u8);
    for (first, last) in again {
        header.extend([first.to_be_bytes(), last.to_be_bytes()].concat());
    }
    header.push(0);
    header.extend(window.to_be_bytes());
    generic(None, &header, &[])
}

/// A message that was sent: the number, the header, the body.
fn read(msg: &[u8]) -> (Option<u32>, Vec<u8>, Vec<u8>) {
    let Msg::Generic(generic) = Msg::decode(msg).expect("a message") else { panic!("{msg:?}") };
    assert_eq!((generic.stream_id, generic.domain), (STREAM, Domain::SYSTEM));
    (generic.seq_num, generic.ext_header.unwrap_or_default().to_vec(), generic.body.to_vec())
}

/// A message of `length` bytes.
fn post(length: usize) -> Vec<u8> {
    vec![b'p'; length]
}

/// A tunnel without a login that is open.
fn open(version: u64, max: u64, window: i64) -> Tunnel {
    let mut tunnel = tunnel(false);
    tunnel.open(0, 4);
    assert_eq!(sent(&mut tunnel).len(), 1);
    accept(&mut tunnel, &class(version, max, window));
    assert_eq!(events(&mut tunnel), [Event::Open]);
    tunnel
}

#[test]
fn it_is_asked_for_as_private_qualified_stream_and_its_login_goes_first() {
    let mut tunnel = tunnel(true);
    assert_eq!(tunnel.send(&post(1)), Err(Refused::NotOpen));
    tunnel.open(0, 4);
    let asked = sent(&mut tunnel);
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    let Msg::Request(request) = Msg::decode(asked).expect("a message") else { panic!("{asked:?}") };
    let flags = RequestFlags::STREAMING | RequestFlags::PRIVATE_STREAM | RequestFlags::QUALIFIED_STREAM;
    assert!(request.flags.contains(flags), "{:?}", request.flags);
    let key = (request.key.service_id, request.key.name, request.key.filter);
    assert_eq!(key, (Some(4), Some(&b"TUNNEL"[..]), Some(0b1111)));
    let class_of_request = ClassOfService::decode(request.body).expect("a class of service");
    assert!(class_of_request.has_login && class_of_request.window == Some(WINDOW.into()));
    accept(&mut tunnel, &class(1, 6_144, 100));
    let login = sent(&mut tunnel);
    let (number, header, body) = read(&login[0]);
    assert_eq!((login.len(), number, &header[..]), (1, Some(1), &[1][..]));
    let Msg::Request(inner) = Msg::decode(&body).expect("a message") else { panic!("{body:?}") };
    let inner = login::Request::decode(&inner).expect("a login");
    assert_eq!((&*inner.name, inner.password.as_deref()), ("user", Some("secret")));
    assert_eq!((events(&mut tunnel), tunnel.send(&post(1))), (vec![], Err(Refused::NotOpen)));
    let accepted = RefreshMsg { state: State::OPEN_OK, ..RefreshMsg::new(Domain::LOGIN, 1) };
    answer(&mut tunnel, &generic(Some(1), &[1], &encode(|w| accepted.encode(w))));
    assert_eq!((events(&mut tunnel), tunnel.is_open(), tunnel.timeout()), (vec![Event::Open], true, None));
    // Data that came is acknowledged.
    let (number, header, body) = read(&sent(&mut tunnel)[0]);
    assert_eq!((number, &header[..8], body.len()), (None, &[2, 0, 0, 0, 0, 1, 0, 0][..], 0));
}

#[test]
fn a_login_that_is_refused_ends_it() {
    let mut tunnel = tunnel(true);
    tunnel.open(0, 4);
    accept(&mut tunnel, &class(1, 6_144, 100));
    sent(&mut tunnel);
    let refused = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_ENTITLED, "who are you");
    let status = StatusMsg { state: Some(refused), ..StatusMsg::new(Domain::LOGIN, 1) };
    answer(&mut tunnel, &generic(Some(1), &[1], &encode(|w| status.encode(w))));
    let told = events(&mut tunnel);
    assert!(matches!(&told[..], [Event::Closed(state)] if state.text == b"who are you"), "{told:?}");
    let last = sent(&mut tunnel);
    assert!(matches!(Msg::decode(&last[0]), Ok(Msg::Close(_))) && last.len() == 1, "{last:?}");
    assert!(!tunnel.is_asked());
}

#[test]
fn as_many_bytes_go_as_the_window_lets_and_the_others_when_they_are_acknowledged() {
    let mut tunnel = open(2, 60, 100);
    for length in [60, 60, 10] {
        assert_eq!(tunnel.send(&post(length)), Ok(()));
    }
    assert_eq!((tunnel.send(&post(1)), tunnel.send(&post(61))), (Err(Refused::Full), Err(Refused::TooLong(60))));
    let first: Vec<_> = sent(&mut tunnel).iter().map(|msg| read(msg)).collect();
    assert_eq!(first, [(Some(1), vec![1, 0], post(60))], "from stream version 2 on data have flags");
    answer(&mut tunnel, &ack(0, 1, &[], 100));
    let next: Vec<_> = sent(&mut tunnel).iter().map(|msg| read(msg)).collect();
    assert_eq!(next, [(Some(2), vec![1, 0], post(60)), (Some(3), vec![1, 0], post(10))]);
    assert_eq!((tunnel.send(&post(40)), sent(&mut tunnel).len()), (Ok(()), 0));
    // A window that has shrunk holds what waits.
    answer(&mut tunnel, &ack(0, 3, &[], 30));
    assert_eq!(sent(&mut tunnel).len(), 0);
    answer(&mut tunnel, &ack(0, 3, &[], 100));
    assert_eq!(read(&sent(&mut tunnel)[0]), (Some(4), vec![1, 0], post(40)));
}

#[test]
fn what_was_lost_goes_again_and_is_asked_for_again() {
    let mut tunnel = open(1, 60, 1_000);
    for length in [1, 2, 3] {
        assert_eq!(tunnel.send(&post(length)), Ok(()));
    }
    assert_eq!(sent(&mut tunnel).len(), 3);
    answer(&mut tunnel, &ack(0, 1, &[(2, 3)], 1_000));
    let again: Vec<_> = sent(&mut tunnel).iter().map(|msg| read(msg)).collect();
    assert_eq!(again, [(Some(2), vec![3], post(2)), (Some(3), vec![3], post(3))]);
    // Two of the provider's are missing; one that came before is not told again.
    let inner = encode(|w| AckMsg { ack_id: 9, ..AckMsg::new(Domain::LOGIN, 1) }.encode(w));
    answer(&mut tunnel, &generic(Some(1), &[1], &inner));
    answer(&mut tunnel, &generic(Some(4), &[1], &inner));
    answer(&mut tunnel, &generic(Some(1), &[3], &inner));
    assert_eq!(events(&mut tunnel), [Event::Message(inner.clone())]);
    let (_, header, _) = read(&sent(&mut tunnel)[0]);
    assert_eq!(header[..15], [2, 0, 0, 0, 0, 1, 1, 0, 0, 0, 2, 0, 0, 0, 4]);
    for number in 2..=4 {
        answer(&mut tunnel, &generic(Some(number), &[3], &inner));
    }
    assert_eq!(events(&mut tunnel).len(), 3);
    assert_eq!(read(&sent(&mut tunnel)[0]).1[..7], [2, 0, 0, 0, 0, 4, 0]);
}

#[test]
fn a_provider_that_ends_it_is_answered_and_its_last_word_is_waited_for() {
    let mut tunnel = open(1, 60, 1_000);
    tunnel.send(&post(5)).expect("open");
    sent(&mut tunnel);
    answer(&mut tunnel, &ack(1, 1, &[], 1_000));
    let answers: Vec<_> = sent(&mut tunnel).iter().map(|msg| read(msg).1[..6].to_vec()).collect();
    assert_eq!(answers, [[2, 0, 0, 0, 0, 1], [2, 1, 0, 0, 0, 2]], "its number is acknowledged, and ours is the next");
    assert_eq!((tunnel.send(&post(1)), events(&mut tunnel)), (Err(Refused::NotOpen), vec![]));
    answer(&mut tunnel, &ack(0, 2, &[], 1_000));
    assert!(matches!(&events(&mut tunnel)[..], [Event::Closed(_)]));
    assert!(matches!(Msg::decode(&sent(&mut tunnel)[0]), Ok(Msg::Close(_))));
    // The tunnel begins anew with the first numbers.
    tunnel.open(2 * SECOND, 5);
    sent(&mut tunnel);
    accept(&mut tunnel, &class(1, 60, 100));
    tunnel.send(&post(1)).expect("open");
    assert_eq!(read(&sent(&mut tunnel)[0]).0, Some(1));
}

#[test]
fn an_answer_that_does_not_come_is_not_waited_for_for_ever() {
    let mut tunnel = tunnel(true);
    tunnel.open(SECOND, 4);
    sent(&mut tunnel);
    assert_eq!(tunnel.timeout(), Some(6 * SECOND));
    tunnel.handle_timeout(6 * SECOND - 1);
    assert_eq!(events(&mut tunnel), []);
    tunnel.handle_timeout(6 * SECOND);
    let told = events(&mut tunnel);
    let text = |state: &StateBuf| String::from_utf8_lossy(&state.text).into_owned();
    assert!(
        matches!(&told[..], [Event::Closed(state)] if text(state).contains("the opening is not answered")),
        "{told:?}"
    );
    tunnel.lose("the connection is gone");
    assert_eq!(events(&mut tunnel), [], "it was over already");
}

mod of_posts {
    use super::*;
    use rwf::msg::{MsgClass, NakCode, PostFlags, PostMsg};
    use rwf::peek;
    use rwf::rdm::directory::{self, Action, Info, Part, Service, ServiceState};

    fn directory(id: u16, up: bool) -> Vec<u8> {
        let mut service = Service::new(id, Action::Add);
        service.info =
            Some(Part::Set(Info { name: "THERE".to_owned(), capabilities: vec![Domain::SYSTEM], ..Info::default() }));
        service.state = Some(Part::Set(ServiceState::new(up)));
        let request = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: 0x3F };
        encode(|w| directory::Refresh::answer(&request, vec![service]).encode(w))
    }

    /// A post as a Source Distributor sends it: off-stream, on the stream of its login.
    fn post_of(service: u16, id: u32) -> Vec<u8> {
        let key = Some(MsgKey::item(service, b"IBM"));
        let post = PostMsg { post_id: Some(id), flags: PostFlags::ACK, key, ..PostMsg::new(Domain::MARKET_PRICE, 1) };
        encode(|w| post.encode(w))
    }

    fn posts() -> PostTunnel {
        let mut posts = PostTunnel::new(tunnel(false).config, Some("THERE".to_owned()));
        let login = login::Request { name: "sd".to_owned(), ..login::Request::default() };
        assert!(!posts.to_provider(&encode(|w| login.encode(w))), "the Source Distributor's own login passes");
        posts
    }

    fn said(posts: &mut PostTunnel) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| posts.poll_transmit().map(<[u8]>::to_vec)).collect()
    }

    /// The answers for the Source Distributor: id, code and text.
    fn answers(posts: &mut PostTunnel) -> Vec<(u32, Option<NakCode>, String)> {
        let all = std::iter::from_fn(|| posts.poll_answer().map(<[u8]>::to_vec));
        let read = |msg: Vec<u8>| {
            let Msg::Ack(ack) = Msg::decode(&msg).expect("a message") else { panic!("{msg:?}") };
            (ack.ack_id, ack.nak_code, String::from_utf8_lossy(ack.text.unwrap_or_default()).into_owned())
        };
        all.map(read).collect()
    }

    fn take(posts: &mut PostTunnel, msg: &[u8]) {
        assert!(posts.from_provider(SECOND, msg), "it is the tunnel's own");
    }

    fn opened() -> PostTunnel {
        let mut posts = posts();
        assert!(!posts.from_provider(0, &directory(4, true)), "the directory is the Source Distributor's");
        assert_eq!(peek::class(&said(&mut posts)[0]), Some(MsgClass::REQUEST));
        let body = class(1, 6_144, 10_000);
        let container = DataType::FILTER_LIST;
        let accepted =
            RefreshMsg { state: State::OPEN_OK, container, body: &body, ..RefreshMsg::new(Domain::SYSTEM, STREAM) };
        take(&mut posts, &encode(|w| accepted.encode(w)));
        posts
    }

    #[test]
    fn posts_go_in_and_their_answers_come_out() {
        let mut posts = opened();
        assert!(posts.to_provider(&post_of(4, 9)) && posts.to_provider(&post_of(4, 10)));
        assert!(!posts.to_provider(&post_of(5, 11)), "a post to another service passes");
        let sent = said(&mut posts);
        assert_eq!(sent.iter().map(|msg| read(msg).2).collect::<Vec<_>>(), [post_of(4, 9), post_of(4, 10)]);
        let ack = |id| {
            encode(|w| AckMsg { ack_id: id, text: Some(b"done"), ..AckMsg::new(Domain::MARKET_PRICE, 1) }.encode(w))
        };
        take(&mut posts, &generic(Some(1), &[1], &ack(10)));
        take(&mut posts, &generic(Some(2), &[1], &ack(77)));
        assert_eq!(answers(&mut posts), [(10, None, "done".to_owned())]);
        assert_eq!(posts.counts(), PostCounts { sent: 2, opened: 1, unexpected: 1, refused: 0 });
        // The end: what was not answered is refused, and it is asked for again after a pause.
        let closed = State::new(StreamState::CLOSED_RECOVER, DataState::SUSPECT, StateCode::NONE, "bye");
        take(
            &mut posts,
            &encode(|w| StatusMsg { state: Some(closed), ..StatusMsg::new(Domain::SYSTEM, STREAM) }.encode(w)),
        );
        let refused = answers(&mut posts);
        assert!(
            matches!(&refused[..], [(9, Some(NakCode::SOURCE_DOWN), text)] if text.ends_with("bye")),
            "{refused:?}"
        );
        assert_eq!((posts.timeout(), posts.take_news()), (Some(2 * SECOND), Some("bye")));
        assert!(posts.to_provider(&post_of(4, 12)));
        assert_eq!(posts.timeout(), Some(0), "an answer waits");
        assert_eq!(answers(&mut posts)[0].1, Some(NakCode::SOURCE_DOWN));
        said(&mut posts);
        posts.handle_timeout(2 * SECOND);
        assert_eq!(peek::class(&said(&mut posts)[0]), Some(MsgClass::REQUEST));
    }

    #[test]
    fn a_service_that_goes_down_takes_it_along_and_has_it_opened_when_it_is_back() {
        let mut posts = opened();
        posts.to_provider(&post_of(4, 9));
        said(&mut posts);
        posts.from_provider(SECOND, &directory(4, false));
        assert_eq!(
            (answers(&mut posts).len(), posts.timeout()),
            (1, None),
            "nobody is asked while the service is down"
        );
        posts.from_provider(SECOND, &directory(6, true));
        let asked = said(&mut posts);
        let Ok(Msg::Request(request)) = Msg::decode(&asked[0]) else { panic!("{asked:?}") };
        assert_eq!(request.key.service_id, Some(6));
    }

    #[test]
    fn a_provider_that_takes_no_tunnel_has_posts_refused() {
        let mut posts = posts();
        assert!(posts.to_provider(&post_of(4, 1)));
        assert_eq!(answers(&mut posts)[0].1, Some(NakCode::SOURCE_DOWN));
        posts.from_provider(0, &directory(4, true));
        let no = State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::NOT_FOUND, "no such item");
        take(
            &mut posts,
            &encode(|w| StatusMsg { state: Some(no), ..StatusMsg::new(Domain::SYSTEM, STREAM) }.encode(w)),
        );
        assert!(posts.to_provider(&post_of(4, 2)));
        assert!(answers(&mut posts)[0].2.ends_with("no such item"));
    }
}

proptest! {
    /// A provider may say anything: no panic, and no more is kept than may be.
    #[test]
    fn a_hostile_provider_breaks_nothing(
        said in proptest::collection::vec((any::<Option<u32>>(), proptest::collection::vec(any::<u8>(), 0..40), proptest::collection::vec(any::<u8>(), 0..30)), 0..30),
        class in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut tunnel = tunnel(true);
        tunnel.open(0, 4);
        let refresh = RefreshMsg { state: State::OPEN_OK, container: DataType::FILTER_LIST, body: &class, ..RefreshMsg::new(Domain::SYSTEM, STREAM) };
        tunnel.handle_message(0, &Msg::decode(&encode(|w| refresh.encode(w))).expect("a message"));
        let mut open = open(1, 60, 100);
        for (number, header, body) in said {
            let msg = generic(number, &header, &body);
            for tunnel in [&mut tunnel, &mut open] {
                let _ = tunnel.send(&post(30));
                tunnel.handle_message(0, &Msg::decode(&msg).expect("a message"));
                prop_assert!(tunnel.waiting.len() + tunnel.unacknowledged.len() <= 3);
                sent(tunnel);
                events(tunnel);
            }
        }
    }
}
