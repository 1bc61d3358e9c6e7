//! Interactive providers without sockets: a right one passes, and each wrong one is caught by the name of its rule.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rwf::msg::{Domain, Msg, PostFlags, RequestFlags, RequestMsg};
use rwf::rdm::request::Payload;
use rwf::rdm::{directory, login};
use scenario::file::Judges;
use scenario::library::SHIPPED;
use scenario::numbers::{SECOND, ServiceIds};
use scenario::play::Spoken;
use scenario::verdict::{Outcome, Verdict, text};
use scenario::{Act, Play, words};

use super::{bytes_of, load};

/// Ping timeout of the handshake, s.
const PING_TIMEOUT_S: u8 = 5;
const TICK: u64 = SECOND / 20;

/// One item of a provider.
struct Item {
    name: String,
    fids: Vec<i16>,
}

/// A provider in front of a play; `wrong` is what it does wrong, or nothing.
struct Provider {
    wrong: &'static str,
    ids: ServiceIds,
    items: BTreeMap<(u32, i32), Item>,
    out: VecDeque<(u32, Vec<u8>)>,
    logged_in: BTreeSet<u32>,
}

impl Provider {
    fn new(wrong: &'static str) -> Self {
        Self {
            wrong,
            ids: [("FEED".to_owned(), 1)].into(),
            items: BTreeMap::new(),
            out: VecDeque::new(),
            logged_in: BTreeSet::new(),
        }
    }

    fn say(&mut self, conn: u32, class: &str, stream: i32, text: &str) {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let bytes = words::build(class, stream, &words, &self.ids).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.out.push_back((conn, bytes));
    }

    fn message(&mut self, conn: u32, bytes: &[u8]) {
        // What cannot be decoded is let be.
        let Ok(msg) = Msg::decode(bytes) else { return };
        match msg {
            Msg::Request(request) => self.request(conn, &request),
            Msg::Close(close) if close.domain == Domain::LOGIN => self.items.retain(|(of, _), _| *of != conn),
            Msg::Close(close) if self.wrong != "ignores-closes" => {
                self.items.remove(&(conn, close.stream_id));
            }
            Msg::Post(post) if post.flags.contains(PostFlags::ACK) && self.wrong != "never-acks" => {
                let id = post.post_id.unwrap_or_default();
                let seq = post.seq_num.unwrap_or_default() + u32::from(self.wrong == "acks-another-number");
                self.say(conn, "ACK", post.stream_id, &format!("id={id} seq={seq}"));
            }
            _ => {}
        }
    }

    fn request(&mut self, conn: u32, request: &RequestMsg<'_>) {
        match request.domain {
            Domain::LOGIN if self.wrong == "refuses-reissues" && self.items.keys().any(|(of, _)| *of == conn) => {}
            Domain::LOGIN => {
                self.logged_in.insert(conn);
                let model = login::Request::decode(request).expect("a login");
                let batch = Some(login::batch::REQUESTS);
                let features =
                    login::Features { post: Some(true), view: Some(true), batch, ..login::Features::default() };
                let refresh = login::Refresh::accept(&model, features, "welcome");
                self.out.push_back((conn, bytes_of(|w| refresh.encode(w))));
            }
            _ if !self.logged_in.contains(&conn) && self.wrong != "serves-strangers" => {}
            Domain::SOURCE => {
                let words = ["provides=RWFFld,RWFEnum".to_owned()];
                let mut words = words::Words::new(&words);
                let service = scenario::directory::offer(1, "FEED", &mut words).expect("an offer");
                let refresh = directory::Refresh::answer(&directory::Request::decode(request), vec![service]);
                self.out.push_back((conn, bytes_of(|w| refresh.encode(w))));
            }
            Domain::DICTIONARY => {
                let bytes = scenario::special::dictionary(request.stream_id, "22:BID", true).expect("a dictionary");
                self.out.push_back((conn, bytes));
            }
            _ => self.items(conn, request),
        }
    }

    fn items(&mut self, conn: u32, request: &RequestMsg<'_>) {
        let payload = Payload::of_request(request).expect("a payload");
        let streaming = request.flags.contains(RequestFlags::STREAMING);
        let fids = match (&payload.view, self.wrong) {
            (Some(rwf::rdm::request::View::Fields(fids)), wrong) if wrong != "ignores-views" => fids.clone(),
            _ => vec![22, 25, 30],
        };
        if request.key.service_id != Some(1) {
            return self.say(conn, "STATUS", request.stream_id, "Closed/Suspect/NotFound");
        }
        if let Some(names) = payload.items.filter(|_| request.flags.contains(RequestFlags::HAS_BATCH)) {
            self.say(conn, "STATUS", request.stream_id, "Closed/Ok");
            for (stream, name) in (request.stream_id + 1..).zip(names) {
                self.image(conn, stream, &String::from_utf8_lossy(name), streaming, fids.clone());
            }
            return;
        }
        let is_open = self.items.contains_key(&(conn, request.stream_id));
        if is_open && (request.flags.contains(RequestFlags::NO_REFRESH) && self.wrong != "answers-no-refresh") {
            return;
        }
        if is_open && self.wrong == "ignores-reissues" || self.wrong == "answers-nothing" {
            return;
        }
        self.image(conn, request.stream_id, &request.key.name_lossy(), streaming, fids);
    }

    fn image(&mut self, conn: u32, stream: i32, name: &str, streaming: bool, fids: Vec<i16>) {
        let state = if streaming || self.wrong == "opens-snapshots" { "Open/Ok" } else { "NonStreaming/Ok" };
        let how = if self.wrong == "unsolicited-answers" { "unsolicited" } else { "solicited" };
        let named = if self.wrong == "names-another" { "OTHER" } else { name };
        let content: Vec<String> = fids.iter().map(|fid| format!("{fid}=10.50")).collect();
        if self.wrong == "updates-first" {
            self.say(conn, "UPDATE", stream, "22=10.50");
        }
        self.say(conn, "REFRESH", stream, &format!("{state} {how} complete item={named} {}", content.join(" ")));
        if streaming || self.wrong == "updates-snapshots" {
            self.items.insert((conn, stream), Item { name: name.to_owned(), fids });
        }
    }

    fn tick(&mut self) {
        let all: Vec<(u32, i32, i16)> = self
            .items
            .iter()
            .filter_map(|((conn, stream), item)| Some((*conn, *stream, *item.fids.first()?)))
            .collect();
        for (conn, stream, fid) in all {
            self.say(conn, "UPDATE", stream, &format!("{fid}=10.51"));
        }
        if self.wrong == "other-streams"
            && let Some((conn, _)) = self.items.keys().next().copied()
        {
            self.say(conn, "UPDATE", 7_777, "22=10.50");
        }
    }
}

/// Plays a scenario in front of a provider, in time that is made up.
fn played(name: &str, text: &str, wrong: &'static str, seed: u64) -> (Verdict, Vec<(u64, Act)>) {
    let scenario = load(name, text);
    let mut play = Play::new(&scenario, seed, 1_800_000_000).expect("steps");
    let mut provider = Provider::new(wrong);
    let (mut next, mut up, mut acts) = (0, BTreeSet::new(), Vec::new());
    let mut silent_since = None;
    let mut now = 0;
    while play.end().is_none() && now < 200 * SECOND {
        play.advance(now);
        while let Some((_, act)) = play.take() {
            match &act {
                Act::Dial => {
                    next += 1;
                    up.insert(next);
                    play.connected(now, 0, next, PING_TIMEOUT_S, Spoken::Rssl);
                }
                Act::Send { conn, message } => provider.message(*conn, message),
                Act::Close { conn, .. } | Act::BreakOff { conn, .. } => {
                    up.remove(conn);
                    provider.items.retain(|(of, _), _| of != conn);
                }
                Act::Ping(pings) => silent_since = (!pings).then_some(now),
                _ => {}
            }
            acts.push((now, act));
            while let Some((conn, bytes)) = provider.out.pop_front() {
                if up.contains(&conn) {
                    play.message(now, conn, &bytes);
                }
            }
        }
        let is_dead = silent_since.is_some_and(|at| now >= at + u64::from(PING_TIMEOUT_S) * SECOND);
        if is_dead && wrong != "keeps-the-dead" {
            for conn in std::mem::take(&mut up) {
                provider.items.retain(|(of, _), _| *of != conn);
                play.closed(now, conn, true);
            }
        }
        if wrong != "never-pings" {
            for conn in &up {
                play.heard(now, *conn);
            }
        }
        if now % (4 * TICK) == 0 {
            provider.tick();
        }
        while let Some((conn, bytes)) = provider.out.pop_front() {
            if up.contains(&conn) {
                play.message(now, conn, &bytes);
            }
        }
        play.judge_mut().memory(now, 50_000_000);
        now += TICK;
    }
    play.judge_mut().is_alive();
    (Verdict::of(&scenario, &play, seed, now), acts)
}

fn said(verdict: &Verdict) -> String {
    text(std::slice::from_ref(verdict), &|bytes| rwf_text::message(bytes, None).to_string())
}

#[test]
fn a_right_provider_passes_all() {
    let mut count = 0;
    for shipped in SHIPPED.iter().filter(|shipped| load(shipped.name, shipped.text).judges == Judges::Provider) {
        let (verdict, _) = played(shipped.name, shipped.text, "", 1);
        assert_eq!(verdict.outcome, Outcome::Passed, "{}", said(&verdict));
        count += 1;
    }
    assert!(count >= 20, "{count}");
}

#[test]
fn each_wrong_provider_is_caught_by_the_name_of_its_rule() {
    for (wrong, scenario, rule) in [
        ("answers-nothing", "provider-request-flood", "requests-answered"),
        ("ignores-reissues", "provider-reissues", "requests-answered"),
        ("answers-no-refresh", "provider-reissues", "solicited"),
        ("refuses-reissues", "provider-login-again", "login-answered"),
        ("ignores-closes", "provider-closed-items", "closed-items"),
        ("never-acks", "provider-posts", "post-answers"),
        ("acks-another-number", "provider-posts", "post-answers"),
        ("ignores-views", "provider-view", "views"),
        ("opens-snapshots", "provider-snapshots", "snapshots"),
        ("updates-snapshots", "provider-snapshots", "ended-streams"),
        ("unsolicited-answers", "provider-batch", "solicited"),
        ("names-another", "provider-batch", "right-item"),
        ("updates-first", "provider-batch", "images-first"),
        ("other-streams", "provider-closed-items", "known-streams"),
        ("serves-strangers", "provider-before-login", "steps"),
        ("never-pings", "provider-pings", "pings"),
        ("keeps-the-dead", "provider-consumer-silent", "dead-server"),
    ] {
        let shipped = scenario::library::shipped(scenario).expect("it ships");
        let (mut verdict, _) = played(shipped.name, shipped.text, wrong, 1);
        if verdict.findings.is_empty() {
            // The last answers are owed after the last step.
            verdict = played(shipped.name, &later(shipped.text), wrong, 1).0;
        }
        let found: Vec<&str> = verdict.findings.iter().map(|finding| finding.rule).collect();
        assert!(found.contains(&rule), "{wrong} in {scenario}, {rule}: {}", said(&verdict));
    }
}

/// The scenario, with twelve seconds more at its end.
fn later(text: &str) -> String {
    let end = text.rfind("\"\"\"").expect("the end of its steps");
    format!("{}after 12 s\n{}", &text[..end], &text[end..])
}

#[test]
fn the_same_seed_asks_for_the_same() {
    for name in ["provider-consumer-cut-off", "provider-posts"] {
        let shipped = scenario::library::shipped(name).expect("it ships");
        let once = played(name, shipped.text, "", 7).1;
        assert!(once.len() > 5, "{name}");
        assert_eq!(once, played(name, shipped.text, "", 7).1, "{name}");
        assert_ne!(once, played(name, shipped.text, "", 8).1, "{name}");
    }
}

#[test]
fn items_know_their_names() {
    let mut provider = Provider::new("");
    provider.image(1, 10, "IBM.N", true, vec![22]);
    assert_eq!(provider.items[&(1, 10)].name, "IBM.N");
}
