//! Non-interactive providers without sockets: a right one passes, and each wrong one is caught by the name of its rule.

use rwf::msg::{Domain, Msg};
use rwf::rdm::{directory, login};
use rwf::{DataState, StreamState};
use scenario::library::shipped;
use scenario::numbers::{SECOND, ServiceIds};
use scenario::play::Spoken;
use scenario::verdict::{Outcome, Verdict, text};
use scenario::{Act, Play, words};

use super::{bytes_of, load};

const TICK: u64 = SECOND / 20;

fn message(class: &str, text: &str) -> Vec<u8> {
    let ids: ServiceIds = [("FEED".to_owned(), 1)].into();
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    words::build(class, -5, &words, &ids).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn directory_of() -> Vec<u8> {
    let mut words = words::Words::new(&[]);
    let service = scenario::directory::offer(1, "FEED", &mut words).expect("an offer");
    let filter = directory::filter::ALL;
    let request = directory::Request { stream_id: -1, streaming: true, service_id: None, filter };
    bytes_of(|w| directory::Refresh::answer(&request, vec![service]).encode(w))
}

/// Plays a scenario in front of a publisher of one item; `wrong` is what it does wrong, or nothing.
fn played(name: &str, wrong: &str) -> Verdict {
    let scenario = load(name, shipped(name).expect("it ships").text);
    let mut play = Play::new(&scenario, 1, 1_800_000_000).expect("steps");
    let (mut conn, mut is_up, mut connect_at, mut open, mut wanted) = (0, false, 0, false, true);
    let image = message("REFRESH", "Open/Ok unsolicited complete item=IBM.N service=FEED 22=10.50");
    let mut lost = false;
    let mut now = 0;
    while play.end().is_none() && now < 200 * SECOND {
        if !is_up && now >= connect_at && !(wrong == "never-comes-back" && lost) {
            (conn, is_up, open, wanted) = (conn + 1, true, false, true);
            play.connected(now, 0, conn, scenario.ping_timeout_s, Spoken::Rssl);
            let role = Some(if wrong == "logs-in-as-consumer" { login::ROLE_CONSUMER } else { login::ROLE_PROVIDER });
            let request = login::Request { name: "feed".to_owned(), role, ..login::Request::default() };
            play.message(now, conn, &bytes_of(|w| request.encode(w)));
            if wrong == "does-not-wait" {
                play.message(now, conn, &directory_of());
            }
        }
        play.heard(now, conn);
        play.advance(now);
        while let Some((_, act)) = play.take() {
            match act {
                Act::Close { .. } | Act::BreakOff { .. } => {
                    (is_up, open, lost, connect_at) = (false, false, true, now + SECOND);
                }
                Act::Send { message, .. } => match Msg::decode(&message).expect("a message") {
                    Msg::Refresh(refresh) if refresh.domain == Domain::LOGIN => {
                        open = refresh.state.stream == StreamState::OPEN && refresh.state.data == DataState::OK;
                        if wrong != "no-directory" {
                            play.message(now, conn, &directory_of());
                        }
                        if wrong != "updates-first" && !(wrong == "publishes-once" && lost) {
                            play.message(now, conn, &image);
                        }
                    }
                    Msg::Status(status) if status.domain == Domain::LOGIN => {
                        let ends = status.state.is_some_and(|state| state.stream != StreamState::OPEN);
                        open &= !ends || wrong == "goes-on";
                    }
                    Msg::Close(_) => wanted = wrong == "ignores-closes",
                    _ => {}
                },
                _ => {}
            }
        }
        if is_up && open && wanted && !(wrong == "publishes-once" && lost) {
            play.message(now, conn, &message("UPDATE", "22=10.51"));
        }
        now += TICK;
    }
    Verdict::of(&scenario, &play, 1, now)
}

fn said(verdict: &Verdict) -> String {
    text(std::slice::from_ref(verdict), &|bytes| rwf_text::message(bytes, None).to_string())
}

#[test]
fn a_right_publisher_passes() {
    for name in [
        "publisher-begins",
        "publisher-connection-reset",
        "publisher-connection-flaps",
        "publisher-frame-cut",
        "publisher-item-closed",
        "publisher-login-closed",
        "publisher-login-suspect",
        "publisher-login-unanswered",
        "publisher-server-restarts",
    ] {
        let verdict = played(name, "");
        assert_eq!(verdict.outcome, Outcome::Passed, "{}", said(&verdict));
    }
}

#[test]
fn each_wrong_publisher_is_caught_by_the_name_of_its_rule() {
    for (wrong, scenario, rule) in [
        ("logs-in-as-consumer", "publisher-begins", "publisher-role"),
        ("does-not-wait", "publisher-login-unanswered", "login-first"),
        ("no-directory", "publisher-begins", "directory-first"),
        ("updates-first", "publisher-server-deaf", "images-first"),
        ("publishes-once", "publisher-connection-reset", "republishes"),
        ("never-comes-back", "publisher-connection-reset", "reconnects"),
        ("goes-on", "publisher-login-closed", "closed-login"),
        ("ignores-closes", "publisher-item-closed", "closed-items"),
    ] {
        let verdict = played(scenario, wrong);
        let found: Vec<&str> = verdict.findings.iter().map(|finding| finding.rule).collect();
        assert!(found.contains(&rule), "{wrong} in {scenario}, {rule}: {}", said(&verdict));
    }
}
