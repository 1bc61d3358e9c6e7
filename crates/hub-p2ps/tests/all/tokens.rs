//! Logins by token: who is meant, how long it holds, and what happens at its end.

use crate::world::{SECOND, World, encode, texts, words};
use hub_p2ps::{Authenticator, ClientId, CloseReason, Credentials, Identity, Rejected, TokenLife};
use rwf::StateCode;
use rwf::msg::Msg;
use rwf::rdm::login::{self, name_type};

/// Takes tokens of the form `user/seconds`, and no names.
#[derive(Debug)]
struct Checker;

impl Authenticator for Checker {
    fn check(&mut self, now: u64, credentials: &Credentials<'_>) -> Result<Identity, Rejected> {
        let rejected = |text: &str| Rejected { code: StateCode::USER_UNKNOWN_TO_PERM_SYS, text: text.to_owned() };
        let token = credentials.token.ok_or_else(|| rejected("a token is wanted"))?;
        let (user, seconds) = token.split_once('/').ok_or_else(|| rejected("that is no token"))?;
        let seconds: u64 = seconds.parse().map_err(|_| rejected("that is no time"))?;
        let life = TokenLife { reissue_at: 1_800_000_000, expires: now + seconds * SECOND };
        Ok(Identity { user: user.to_owned(), token: Some(life) })
    }
}

fn world() -> World {
    let mut world = World::with_feed();
    world.p2ps.authenticate_by(Box::new(Checker));
    world.connect(1);
    world
}

fn by_token(token: &str) -> login::Request {
    login::Request {
        name: "\0".to_owned(),
        name_type: Some(name_type::AUTHENTICATION_TOKEN),
        authentication_token: Some(token.to_owned()),
        ..login::Request::default()
    }
}

fn refresh(message: &[u8]) -> login::Refresh {
    let Ok(Msg::Refresh(refresh)) = Msg::decode(message) else { panic!("{}", words(message)) };
    login::Refresh::decode(&refresh).unwrap()
}

#[test]
fn the_user_is_the_tokens_and_the_refresh_says_when_the_next_is_due() {
    for request in [
        by_token("alice/60"),
        login::Request { name: "alice/60".to_owned(), name_type: Some(name_type::TOKEN), ..login::Request::default() },
    ] {
        let mut world = world();
        world.send_with(1, |w| request.encode(w));
        let answer = world.raw(1);
        let refresh = refresh(&answer[0]);
        assert_eq!((refresh.name.as_str(), refresh.name_type), ("alice", Some(name_type::NAME)));
        assert_eq!(refresh.authentication.reissue_at, Some(1_800_000_000));
        assert_eq!(refresh.authentication.error_code, Some(0));
        assert_eq!(world.p2ps.mounts().map(|mount| mount.user.to_owned()).collect::<Vec<_>>(), ["alice"]);
    }
}

#[test]
fn a_login_that_is_rejected_is_closed_with_the_reason() {
    for (request, text) in [
        (by_token("rubbish"), "that is no token"),
        (login::Request { name: "alice".to_owned(), ..login::Request::default() }, "a token is wanted"),
    ] {
        let mut world = world();
        world.send_with(1, |w| request.encode(w));
        let answer = world.raw(1);
        assert_eq!(words(&answer[0]), "login status 1 CLOSED/SUSPECT/USER_UNKNOWN_TO_PERM_SYS");
        assert_eq!(texts(&answer), [text]);
        let closed = std::mem::take(&mut world.closed);
        assert!(matches!(&closed[..], [(1, CloseReason::LoginRefused { .. })]), "{closed:?}");
    }
}

#[test]
fn tokens_that_nobody_checks_are_taken_as_names_are() {
    let named = |token: &str| login::Request {
        name: token.to_owned(),
        name_type: Some(name_type::TOKEN),
        ..login::Request::default()
    };
    for (first, second) in [(by_token("a"), by_token("b")), (named("a"), named("a"))] {
        let mut world = World::with_feed();
        world.connect(1);
        for request in [first, second] {
            world.send_with(1, |w| request.encode(w));
            let answer = world.raw(1);
            assert_eq!(refresh(&answer[0]).name, request.name);
        }
        assert!(world.closed.is_empty(), "{:?}", world.closed);
    }
}

#[test]
fn a_token_runs_out_unless_another_follows() {
    let mut world = world();
    world.send_with(1, |w| by_token("alice/60").encode(w));
    world.raw(1);
    world.pass(50 * SECOND);
    // As clients do it: no refresh wanted.
    world.send_with(1, |w| login::Request { no_refresh: true, ..by_token("alice/60") }.encode(w));
    world.pass(50 * SECOND);
    assert!(world.raw(1).is_empty());
    // A reissue without a token changes nothing about its life.
    world.send_with(1, |w| login::Request { name: "alice".to_owned(), ..login::Request::default() }.encode(w));
    assert_eq!(refresh(&world.raw(1)[0]).name, "alice");
    world.pass(11 * SECOND);
    let answer = world.raw(1);
    assert_eq!(words(&answer[0]), "login status 1 CLOSED/SUSPECT/NOT_ENTITLED");
    assert!(texts(&answer)[0].contains("expired"), "{answer:?}");
    assert_eq!(world.p2ps.counters().tokens_expired, 1);
    assert_eq!(world.p2ps.mounts().count(), 0);
    world.closed.clear();
}

#[test]
fn a_token_of_someone_else_ends_the_login() {
    let mut world = world();
    world.send_with(1, |w| by_token("alice/60").encode(w));
    world.raw(1);
    world.send_with(1, |w| by_token("bob/60").encode(w));
    let answer = world.raw(1);
    assert_eq!(words(&answer[0]), "login status 1 CLOSED/SUSPECT/NOT_ENTITLED");
    world.closed.clear();
    // Nothing of it is left behind for a time to come.
    world.disconnect(1);
    world.pass(100 * SECOND);
    assert_eq!(world.p2ps.counters().tokens_expired, 0);
}

#[test]
fn a_login_that_the_server_began_has_a_stream_of_its_own() {
    let mut world = world();
    let now = world.now;
    world.p2ps.log_in(now, ClientId(1), login::Request { stream_id: -1, ..by_token("alice/60") });
    world.settle();
    let answer = world.raw(1);
    assert_eq!((refresh(&answer[0]).stream_id, refresh(&answer[0]).name.as_str()), (-1, "alice"));
    let close = encode(|w| rwf::msg::CloseMsg::new(rwf::msg::Domain::LOGIN, -1).encode(w));
    world.bytes(1, &close);
    assert_eq!(world.p2ps.mounts().count(), 0);
}
