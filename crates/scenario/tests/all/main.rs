//! The play without sockets: the same seed gives the same acts, and the library is what it says.

use std::collections::{BTreeMap, BTreeSet};

use rwf::msg::{Domain, Msg, MsgKey, RequestMsg};
use rwf::rdm::{directory, login};
use rwf::wire::Writer;
use scenario::file::{Judges, ScenarioFile, read};
use scenario::judge::RULES;
use scenario::library::SHIPPED;
use scenario::numbers::SECOND;
use scenario::play::{End, Spoken};
use scenario::{Act, Play};

mod providers;
mod publishers;

fn load(name: &str, text: &str) -> ScenarioFile {
    read(name, text, &BTreeMap::new(), &|_| Err("nothing is included".to_owned()))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 1_000];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).expect("room");
    w.into_written().to_vec()
}

/// A client that logs in and asks for an item on each connection, connects again a second after a loss, and pings.
fn acts(scenario: &ScenarioFile, seed: u64) -> (Vec<Act>, Option<End>) {
    let mut play = Play::new(scenario, seed, 1_800_000_000).expect("steps");
    let (mut acts, mut conn, mut up, mut connect_at) = (Vec::new(), 0, false, 0);
    let requests = [
        bytes_of(|w| login::Request { name: "user".into(), ..login::Request::default() }.encode(w)),
        bytes_of(|w| {
            let filter = directory::filter::ALL;
            directory::Request { stream_id: 2, streaming: true, service_id: None, filter }.encode(w)
        }),
        bytes_of(|w| {
            let key = MsgKey { service_id: Some(1), name: Some(b"IBM.N"), name_type: Some(1), ..MsgKey::EMPTY };
            RequestMsg { key, flags: rwf::msg::RequestFlags::STREAMING, ..RequestMsg::new(Domain::MARKET_PRICE, 5) }
                .encode(w)
        }),
    ];
    for tick in 0..600 {
        let now = tick * SECOND / 10;
        if !up && now >= connect_at {
            (conn, up) = (conn + 1, true);
            play.connected(now, 0, conn, 30, Spoken::Rssl);
            for request in &requests {
                play.message(now, conn, request);
            }
        }
        play.heard(now, conn);
        play.advance(now);
        while let Some((_, act)) = play.take() {
            if let Act::Close { .. } | Act::BreakOff { .. } | Act::Vanish { .. } = &act {
                (up, connect_at) = (false, now + SECOND);
            }
            acts.push(act);
        }
        if play.end().is_some() {
            break;
        }
    }
    (acts, play.end().cloned())
}

#[test]
fn the_same_seed_gives_the_same_acts_and_another_one_others() {
    for name in ["connection-flaps", "updates-reordered", "service-flaps", "server-jitters", "time-fields"] {
        let shipped = scenario::library::shipped(name).expect("it ships");
        let scenario = load(name, shipped.text);
        let (first, end) = acts(&scenario, 7);
        assert_eq!(end, Some(End::Done), "{name}");
        assert!(first.len() > 20, "{name}: {} acts", first.len());
        assert_eq!(first, acts(&scenario, 7).0, "{name}");
        assert_ne!(first, acts(&scenario, 8).0, "{name}");
    }
}

/// Until the client answers otherwise, and it answers the same here, each scenario gives it the same bytes at the same times.
#[test]
fn the_same_seed_gives_the_same_acts_in_every_scenario_for_consumers() {
    for shipped in SHIPPED {
        let scenario = load(shipped.name, shipped.text);
        if scenario.judges == Judges::Consumer {
            let (first, again) = (acts(&scenario, 3).0, acts(&scenario, 3).0);
            assert!(first == again, "{}", shipped.name);
            assert!(first.iter().any(|act| matches!(act, Act::Send { .. })), "{}", shipped.name);
        }
    }
}

#[test]
fn what_the_server_sends_can_be_decoded() {
    for shipped in SHIPPED.iter().filter(|shipped| shipped.name != "update-malformed") {
        let scenario = load(shipped.name, shipped.text);
        if scenario.judges != Judges::Consumer {
            continue;
        }
        let (acts, _) = acts(&scenario, 1);
        for act in acts {
            let (Act::Send { message, .. } | Act::BreakOff { message, .. }) = act else { continue };
            Msg::decode(&message).unwrap_or_else(|error| panic!("{}: {error}: {message:02x?}", shipped.name));
        }
    }
}

#[test]
fn each_scenario_that_ships_says_what_it_is_about_and_each_rule_has_one() {
    let mut judged: BTreeSet<String> = BTreeSet::new();
    let mut titles = BTreeSet::new();
    let mut kinds = BTreeMap::<_, usize>::new();
    for shipped in SHIPPED {
        let scenario = load(shipped.name, shipped.text);
        *kinds.entry(scenario.judges.name()).or_default() += 1;
        scenario::program::compile(&scenario).unwrap_or_else(|error| panic!("{}: {error}", shipped.name));
        assert!(!scenario.about.is_empty() && !scenario.rules.is_empty(), "{}", shipped.name);
        assert!(
            titles.insert((scenario.judges.name(), scenario.title.clone())),
            "{}: another one has its title",
            shipped.name
        );
        judged.extend(scenario.rules);
    }
    assert!(kinds["consumer"] >= 60 && kinds["provider"] >= 8 && kinds["publisher"] >= 8, "{kinds:?}");
    // These hold in every scenario, or where a client comes upon them by itself.
    let everywhere = [
        "well-formed",
        "service-usable",
        "closed-streams",
        "stream-ids",
        "right-item",
        "images-first",
        "ended-streams",
        "known-streams",
    ];
    let without: Vec<&str> = RULES
        .iter()
        .map(|rule| rule.name)
        .filter(|name| !judged.contains(*name) && !everywhere.contains(name))
        .collect();
    assert_eq!(without, Vec::<&str>::new());
}

#[test]
fn the_example_of_the_guide_is_read() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/scenarios.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let example = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let include = |name: &str| if name == "begin.txt" { Ok(String::new()) } else { Err(format!("no {name}")) };
    let file = read("scenarios.md", example, &BTreeMap::new(), &include).unwrap_or_else(|error| panic!("{error}"));
    Play::new(&file, 1, 1_800_000_000).unwrap_or_else(|error| panic!("{error}"));
}

/// A client that does not start says nothing about how it behaves.
#[test]
fn who_does_not_connect_in_time_is_not_judged() {
    let scenario = load("slow", "title = \"T\"\nsteps = \"needs a login within 5 s\"\n");
    let mut play = Play::new(&scenario, 1, 1_800_000_000).expect("steps");
    play.set_start(20 * SECOND);
    play.advance(0);
    play.advance(19 * SECOND);
    assert_eq!(play.end(), None);
    play.advance(20 * SECOND);
    assert!(matches!(play.end(), Some(End::NotJudged(why)) if why.contains("--start")), "{:?}", play.end());
    // Once it is there, what is needed has the time that the step gives it.
    let mut play = Play::new(&scenario, 1, 1_800_000_000).expect("steps");
    play.set_start(20 * SECOND);
    play.advance(0);
    play.connected(19 * SECOND, 0, 1, 30, Spoken::Rssl);
    play.advance(23 * SECOND);
    assert_eq!(play.end(), None);
    play.advance(24 * SECOND);
    assert!(matches!(play.end(), Some(End::NotJudged(why)) if why.contains("did not do that")), "{:?}", play.end());
}

/// Each server of a pair has its own values, and no updates come of the one that the client has called its standby.
#[test]
fn a_standby_sends_no_updates_until_it_is_the_active_one() {
    let text = "title = \"T\"\nstandby-services = [\"DIRECT_FEED\"]\nsteps = \"after 60 s\"\n";
    let mut play = Play::new(&load("pair", text), 1, 1_800_000_000).expect("steps");
    let login = bytes_of(|w| login::Request { name: "user".into(), ..login::Request::default() }.encode(w));
    let item = bytes_of(|w| {
        let key = MsgKey { service_id: Some(1), name: Some(b"IBM.N"), name_type: Some(1), ..MsgKey::EMPTY };
        RequestMsg { key, flags: rwf::msg::RequestFlags::STREAMING, ..RequestMsg::new(Domain::MARKET_PRICE, 5) }
            .encode(w)
    });
    let part = |mode| {
        let warm_standby = Some(login::WarmStandby { added: true, mode });
        bytes_of(|w| login::ConnectionStatus { stream_id: 1, warm_standby }.encode(w))
    };
    for server in [0, 1] {
        play.connected(0, server, server as u32, 30, Spoken::Rssl);
        play.message(0, server as u32, &login);
        play.message(0, server as u32, &part(server as u64));
        play.message(0, server as u32, &item);
    }
    let sent = |play: &mut Play, until: u64| {
        let mut images = [Vec::new(), Vec::new()];
        let mut updates = [0, 0];
        play.advance(until);
        while let Some((server, act)) = play.take() {
            let Act::Send { message, .. } = act else { continue };
            match Msg::decode(&message).expect("a message") {
                Msg::Refresh(refresh) if refresh.domain == Domain::MARKET_PRICE => {
                    images[server] = refresh.body.to_vec();
                }
                Msg::Update(_) => updates[server] += 1,
                _ => {}
            }
        }
        (images, updates)
    };
    let (images, updates) = sent(&mut play, SECOND);
    assert!(
        !images[0].is_empty() && !images[1].is_empty() && images[0] != images[1],
        "both have it, with other values"
    );
    assert!(updates[0] > 0 && updates[1] == 0, "{updates:?}");
    play.message(SECOND, 1, &part(0));
    let (images, updates) = sent(&mut play, 2 * SECOND);
    assert!(
        !images[1].is_empty() && updates[1] > 0,
        "an image and updates come of the one that is active now: {updates:?}"
    );
}
