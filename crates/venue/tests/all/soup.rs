//! The client of `SoupBinTCP`.

use venue::nasdaq::soup::{Login, Rejection, SoupClient, State, packet};
use venue::sequence::Change;

use crate::watch::Stream;

const SECOND: u64 = 1_000_000_000;

fn login(sequence: u64) -> Login {
    Login { user: "quote".into(), password: "secret".into(), session: String::new(), sequence }
}

fn accepted(session: &str, next: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet(b'A', format!("{session:>10}{next:>20}").as_bytes(), &mut bytes);
    bytes
}

fn data(messages: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        packet(b'S', message.as_bytes(), &mut bytes);
    }
    bytes
}

fn session(name: &str, next: u64) -> Change {
    Change::Session { name: name.into(), next }
}

#[test]
fn a_login_is_as_specified_and_messages_are_counted_from_its_answer() {
    let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
    client.connected(0);
    assert_eq!(client.take_output(), b"\0\x2FLquote secret                                 1");
    client.receive(&accepted("day1", 1), 1, &mut stream);
    client.receive(&data(&["one", "two"]), 2, &mut stream);
    assert_eq!(stream.changes, [session("day1", 1)]);
    assert_eq!(stream.messages, [(1, b"one".to_vec()), (2, b"two".to_vec())]);
    assert_eq!((client.state(), client.next()), (State::Open, 3));
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let all = [accepted("day1", 1), data(&["a", "", "ccc"]), data(&["dddd"])].concat();
    for size in 1..all.len() {
        let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
        client.connected(0);
        all.chunks(size).for_each(|piece| client.receive(piece, 1, &mut stream));
        let messages: Vec<&[u8]> = stream.messages.iter().map(|(_, message)| &message[..]).collect();
        assert_eq!(messages, [&b"a"[..], b"", b"ccc", b"dddd"], "pieces of {size}");
    }
}

#[test]
fn a_new_connection_goes_on_where_the_last_ended() {
    let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
    client.connected(0);
    client.receive(&[accepted("day1", 1), data(&["1", "2", "3"])].concat(), 1, &mut stream);
    client.disconnected(&mut stream);
    assert!(stream.is_gap, "all is in doubt while the connection is down");
    client.take_output();
    client.connected(5);
    assert!(client.take_output().ends_with(b"      day1                   4"));
    client.receive(&[accepted("day1", 4), data(&["4"])].concat(), 6, &mut stream);
    assert_eq!(stream.changes, [session("day1", 1), Change::Gap { missing: 4..4 }, Change::Repaired]);
    assert_eq!(stream.messages.len(), 4);
}

#[test]
fn what_the_server_does_not_keep_is_lost_and_another_session_is_a_new_one() {
    let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
    client.connected(0);
    client.receive(&[accepted("day1", 1), data(&["1"])].concat(), 1, &mut stream);
    for (name, next) in [("day1", 5), ("day2", 1)] {
        client.disconnected(&mut stream);
        client.connected(2);
        client.receive(&accepted(name, next), 3, &mut stream);
    }
    let gap = |at| Change::Gap { missing: at..at };
    let lost = Change::Lost { missing: 2..5 };
    assert_eq!(stream.changes, [session("day1", 1), gap(2), lost, session("day2", 1)]);
}

#[test]
fn heartbeats_are_sent_and_silence_ends_a_connection() {
    let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
    client.connected(0);
    client.receive(&accepted("day1", 1), 0, &mut stream);
    client.take_output();
    assert_eq!(client.timer(), Some(SECOND));
    client.on_timer(SECOND, &mut stream);
    assert_eq!(client.take_output(), b"\0\x01R");
    client.receive(b"\0\x01H", 2 * SECOND, &mut stream);
    for second in 3..17 {
        client.on_timer(second * SECOND, &mut stream);
        assert_eq!(client.state(), State::Open);
    }
    client.on_timer(17 * SECOND, &mut stream);
    assert_eq!((client.state(), client.timer()), (State::Silent, None));
    assert!(stream.is_gap);
}

#[test]
fn refusals_ends_and_nonsense_are_told_apart() {
    let after = |bytes: &[u8]| {
        let (mut client, mut stream) = (SoupClient::new(login(1)), Stream::default());
        client.connected(0);
        client.receive(bytes, 1, &mut stream);
        client.state()
    };
    assert_eq!(after(b"\0\x02JA"), State::Rejected(Rejection::NotAuthorised));
    assert_eq!(after(b"\0\x02JS"), State::Rejected(Rejection::NoSession));
    assert_eq!(after(&[accepted("d", 1), b"\0\x01Z".to_vec()].concat()), State::Ended);
    assert_eq!(after(b"\0\0"), State::Broken);
    assert_eq!(after(&data(&["before the login"])), State::Broken);
    assert_eq!(after(b"\0\x05Axxxx"), State::Broken);
    assert_eq!(after(&[accepted("d", u64::MAX), data(&["behind the last number"])].concat()), State::Broken);
    assert_eq!(after(b"\0\x02?x\0\x01+"), State::LoggingIn);
}

#[test]
fn a_password_is_not_shown() {
    let shown = format!("{:?}", SoupClient::new(login(1)));
    assert!(shown.contains("quote") && !shown.contains("secret"), "{shown}");
}
