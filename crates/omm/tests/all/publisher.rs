//! The publisher against a server that takes everything.

use crate::world::{SECOND, fields, service};
use omm::publisher::{Event, Publisher, PublisherConfig};
use omm::{ConnectionList, Server};
use rwf::msg::{Domain, Msg, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::rdm::{directory, login};
use rwf::wire::Writer;
use rwf::{DataType, State};

fn sent(publisher: &mut Publisher) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| publisher.poll_transmit().map(<[u8]>::to_vec)).collect()
}

/// Connects, and accepts the login.
fn log_in(publisher: &mut Publisher, now: u64) {
    publisher.poll_connect(now).unwrap();
    publisher.handle_connected(now);
    let login = sent(publisher).remove(0);
    let Ok(Msg::Request(request)) = Msg::decode(&login) else { panic!("no request") };
    let request = login::Request::decode(&request).unwrap();
    assert!(request.is_provider());
    let mut buf = [0; 500];
    let mut w = Writer::new(&mut buf);
    login::Refresh::accept(&request, login::Features::default(), "").encode(&mut w).unwrap();
    publisher.handle_message(now, w.written());
}

#[test]
fn everything_is_published_again_after_a_loss() {
    let mut publisher = Publisher::new(PublisherConfig {
        connections: ConnectionList::new(vec![Server::new("adh", 14_003)]),
        login: login::Request { name: "nip".to_owned(), ..login::Request::default() },
        services: vec![service(1, "FEED", None)],
        login_timeout_ns: SECOND,
    });
    let item = publisher.open(Domain::MARKET_PRICE, 1, "A").unwrap();
    let body = fields(1);
    let container = DataType::FIELD_LIST;
    let flags = RefreshFlags::REFRESH_COMPLETE;
    let image =
        RefreshMsg { container, flags, state: State::OPEN_OK, body: &body, ..RefreshMsg::new(Domain::default(), 0) };
    let update = UpdateMsg { container, body: &body, ..UpdateMsg::new(Domain::default(), 0) };
    assert!(!publisher.refresh(item, &image), "there is no connection");
    for round in 0..2 {
        log_in(&mut publisher, round * 10 * SECOND);
        assert!(matches!(publisher.poll_event(), Some(Event::Ready(_))));
        assert!(!publisher.update(item, &update), "no update before the image");
        assert!(publisher.refresh(item, &image) && publisher.update(item, &update));
        let messages = sent(&mut publisher);
        let Ok(Msg::Refresh(shown)) = Msg::decode(&messages[0]) else { panic!("no directory") };
        assert_eq!(directory::Refresh::decode(&shown).unwrap().services[0].name(), Some("FEED"));
        let Ok(Msg::Refresh(shown)) = Msg::decode(&messages[1]) else { panic!("no image") };
        assert_eq!((shown.stream_id, shown.key.unwrap().name), (-1, Some(&b"A"[..])));
        assert_eq!(rwf::peek::stream_id(&messages[2]), Some(-1));
        publisher.handle_disconnected(round * 10 * SECOND + 1);
        assert!(matches!(publisher.poll_event(), Some(Event::Lost)));
    }
    publisher.close(item);
    assert!(sent(&mut publisher).is_empty());
}
