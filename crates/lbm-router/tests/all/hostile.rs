//! Input that peers may send: any bytes, and frames of which nothing fits.

use lbm::wire::lbmr::PatternKind;
use lbm_router::interest::{Interest, Place};
use lbm_router::wire::{BadFrame, Frame, Gone, is_frame, length};
use lbm_router::{
    EndpointConfig, Forward, Limits, Origin, PeerConfig, PeerFault, PortalId, Router, RouterId, StreamId,
};
use proptest::prelude::*;

struct Nothing;

impl Forward for Nothing {
    fn message(&mut self, _: PortalId, _: StreamId, _: u32, _: &[u8]) {}
    fn skip_to(&mut self, _: PortalId, _: StreamId, _: u32) {}
}

fn router(limits: Limits) -> Router {
    let mut router = Router::new(RouterId(1), limits);
    router.add_endpoint(EndpointConfig::new(5)).expect("a portal");
    router.add_peer(PeerConfig::default());
    router.link_up(0, PortalId(1), &mut Nothing);
    router
}

fn hello(id: u64) -> Frame<'static> {
    Frame::Hello { router: RouterId(id), silence_ms: 5_000 }
}

fn say(router: &mut Router, frame: &Frame<'_>) -> Result<(), PeerFault> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let said = router.receive(0, PortalId(1), &bytes, &mut Nothing);
    router.check_invariants();
    said
}

fn frames() -> Vec<Frame<'static>> {
    let topic = Interest::new(None, "orders");
    let place = Place { router: RouterId(9), domain: 7 };
    let path = vec![RouterId(2), RouterId(9)];
    vec![
        hello(2),
        Frame::KeepAlive,
        Frame::Wanted { interest: topic.clone(), place, path: path.clone() },
        Frame::Wanted { interest: Interest::new(Some(PatternKind::Regex), "^o"), place, path: path.clone() },
        Frame::Source { label: 3, origin: Origin([8; 32]), cost: 4, persistent: true, path, topic: b"orders" },
        Frame::Stores { label: 3, word: b"stores" },
        Frame::Subscribe { label: 0 },
        Frame::Lost { label: 3, first: 9, count: 2 },
        Frame::Response { label: 0, to: "10.0.0.1:14391".parse().expect("an address"), number: 5, payload: b"yes" },
        Frame::Unsubscribe { label: 0 },
        Frame::SourceGone { label: 3, why: Gone::Unreachable },
        Frame::SourceGone { label: 3, why: Gone::Ended },
        Frame::NotWanted { interest: topic, place },
    ]
}

#[test]
fn frames_are_read_as_they_were_written() {
    for frame in frames() {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        assert!(is_frame(&bytes) && length(&bytes) == Some(bytes.len()), "{frame:?}");
        assert_eq!(Frame::decode(&bytes), Ok(frame.clone()));
        // Bytes that these have at their end are theirs, however long.
        if !matches!(frame, Frame::Response { .. } | Frame::Stores { .. }) {
            for cut in 4..bytes.len() {
                assert!(Frame::decode(&bytes[..cut]).is_err(), "{frame:?} cut at {cut}");
            }
            bytes.push(0);
            assert!(matches!(Frame::decode(&bytes), Err(BadFrame { .. })), "{frame:?} and a byte");
        }
    }
}

#[test]
fn what_a_peer_cannot_know_is_its_fault() {
    let claim = |said: Result<(), PeerFault>| assert!(matches!(said, Err(PeerFault::Claim(_))), "{said:?}");
    claim(say(&mut router(Limits::default()), &Frame::KeepAlive));
    assert_eq!(say(&mut router(Limits::default()), &hello(1)), Err(PeerFault::OurId));
    let place = Place { router: RouterId(9), domain: 7 };
    let interest = Interest::new(None, "orders");
    for path in [vec![], vec![RouterId(9)], vec![RouterId(2), RouterId(3)], vec![RouterId(2), RouterId(2), RouterId(9)]]
    {
        let mut router = router(Limits::default());
        say(&mut router, &hello(2)).expect("good");
        claim(say(&mut router, &Frame::Wanted { interest: interest.clone(), place, path }));
    }
    let mut router = router(Limits::default());
    say(&mut router, &hello(2)).expect("good");
    claim(say(&mut router, &hello(2)));
}

#[test]
fn what_has_passed_us_is_nothing_new() {
    let mut router = router(Limits::default());
    say(&mut router, &hello(2)).expect("good");
    let (place, interest) = (Place { router: RouterId(9), domain: 7 }, Interest::new(None, "orders"));
    let path = vec![RouterId(2), RouterId(1), RouterId(9)];
    say(&mut router, &Frame::Wanted { interest, place, path: path.clone() }).expect("no fault");
    assert_eq!(router.wanted(), 0);
    say(
        &mut router,
        &Frame::Source { label: 1, origin: Origin([8; 32]), cost: 1, persistent: false, path, topic: b"orders" },
    )
    .expect("no fault");
    assert_eq!(router.topics().count(), 0);
}

#[test]
fn no_peer_brings_more_than_it_may() {
    let mut router = router(Limits { interests_max: 10, sources_max: 10, ..Limits::default() });
    say(&mut router, &hello(2)).expect("good");
    for i in 0..100u32 {
        let interest = Interest::new(None, &format!("topic {i}"));
        let place = Place { router: RouterId(2), domain: 7 };
        say(&mut router, &Frame::Wanted { interest, place, path: vec![RouterId(2)] }).expect("good");
        let mut origin = [0; 32];
        origin[..4].copy_from_slice(&i.to_be_bytes());
        let path = vec![RouterId(2)];
        say(
            &mut router,
            &Frame::Source { label: i, origin: Origin(origin), cost: 1, persistent: false, path, topic: b"x" },
        )
        .expect("good");
    }
    assert_eq!((router.wanted(), router.topics().count()), (10, 10));
    let stats = router.stats();
    assert_eq!((stats.interests_refused, stats.sources_refused), (90, 90));
    // A pattern that is none, or a large one, is refused as well.
    for pattern in ["(", "(a{1,500}){1,500}"] {
        let interest = Interest::new(Some(PatternKind::Pcre), pattern);
        let place = Place { router: RouterId(2), domain: 7 };
        say(&mut router, &Frame::NotWanted { interest: interest.clone(), place }).expect("good");
        say(&mut router, &Frame::Wanted { interest, place, path: vec![RouterId(2)] }).expect("good");
    }
    assert_eq!(router.wanted(), 10);
}

proptest! {
    #[test]
    fn no_bytes_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), greet in any::<bool>()) {
        let mut router = router(Limits::default());
        if greet {
            say(&mut router, &hello(2)).expect("good");
        }
        let _ = router.receive(0, PortalId(1), &bytes, &mut Nothing);
        router.check_invariants();
    }

    /// Frames in any order, with any byte changed.
    #[test]
    fn no_frames_harm(order in prop::collection::vec((0..12usize, any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..40)) {
        let mut router = router(Limits::default());
        say(&mut router, &hello(2)).expect("good");
        let all = frames();
        for (which, at, byte, change) in order {
            let mut bytes = Vec::new();
            all[which].encode(&mut bytes);
            if change {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if router.receive(0, PortalId(1), &bytes, &mut Nothing).is_err() {
                router.link_down(0, PortalId(1), &mut Nothing);
                router.link_up(0, PortalId(1), &mut Nothing);
                let _ = say(&mut router, &hello(2));
            }
            router.check_invariants();
            router.actions().for_each(drop);
        }
    }
}
