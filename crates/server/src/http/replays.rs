//! Replays of the process (`[replay.NAME]`): how they stand, and what users want of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use record::{Folder, Gap, Order, Overview, PlayedGap, Recording, ReplayState, Standing, Steering, when};
use serde::Serialize;

use super::actions::{blocking, done, optional_why};
use super::answer::{Answer, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use super::families::{escaped, head};

/// Parts of a recording for which a rate is told.
const PARTS: usize = 240;
/// Gaps of a recording that are told of.
const GAPS: usize = 1_000;

/// The replays of a process, by name. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Replays(Arc<Mutex<BTreeMap<String, Steering>>>);

impl Replays {
    /// Has a replay be shown and steered.
    pub fn add(&self, name: &str, steering: Steering) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), steering);
    }

    fn all(&self) -> Vec<(String, Steering)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, steering)| (name.clone(), steering.clone())).collect()
    }

    fn named(&self, name: &str) -> Result<Steering, Fault> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let names = || all.keys().cloned().collect::<Vec<_>>().join(", ");
        let known =
            || if all.is_empty() { "this process has none".to_owned() } else { format!("there are {}", names()) };
        all.get(name).cloned().ok_or_else(|| Fault::new(404, format!("there is no replay {name}: {}", known())))
    }
}

/// A replay, and how it stands.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Replay {
    /// Its name in the configuration (`[replay.NAME]`).
    name: String,
    /// `waiting` (until so many items are open as it was told), `running`, `paused`, `over` (items stay as they are), or `ended`: it serves nobody any more.
    state: &'static str,
    /// Why it has ended.
    trouble: Option<String>,
    /// The services that it serves; those as of other times (FEED@TIME) behind.
    services: Vec<String>,
    /// Items.
    items: usize,
    /// The time that it has come to.
    time: String,
    /// When what is played begins.
    from: String,
    /// When it ends.
    to: String,
    /// `time` in milliseconds since 1970; each of the next two, too.
    time_ms: f64,
    /// `from`.
    from_ms: f64,
    /// `to`.
    to_ms: f64,
    /// Seconds of the recording in a second, or `max`: as fast as clients take it.
    speed: String,
    /// Whether it begins anew at the end.
    repeats: bool,
    /// Streams that watch, of the server and of others that connect to it.
    streams: usize,
    /// Messages that were sent to them.
    messages: u64,
}

fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

impl Replay {
    fn of(name: String, steering: &Steering) -> Self {
        let (standing, played, end) = (steering.standing(), steering.overview(), steering.end());
        let time = standing.time_at(net::clock::now(), played.to).max(played.from);
        let Overview { from, to, .. } = *played;
        Self {
            name,
            state: if end.is_some() { "ended" } else { standing.state.name() },
            trouble: end,
            services: played.services.clone(),
            items: played.items,
            time: when::text(time),
            from: when::text(from),
            to: when::text(to),
            time_ms: milliseconds(time),
            from_ms: milliseconds(from),
            to_ms: milliseconds(to),
            speed: standing.pace.to_string(),
            repeats: standing.repeats,
            streams: standing.streams,
            messages: standing.messages,
        }
    }
}

/// Rate and gaps of a recording over its time, for a picture.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Profile {
    /// When it begins, milliseconds since 1970.
    from_ms: f64,
    /// When it ends.
    to_ms: f64,
    /// Records in each of equal parts of that time, to a block's accuracy.
    records: Vec<f64>,
    /// The first 1,000 gaps.
    gaps: Vec<ProfileGap>,
}

/// A gap of a recording.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct ProfileGap {
    /// From when, milliseconds since 1970.
    from_ms: f64,
    /// Until when.
    to_ms: f64,
    /// Why.
    reason: &'static str,
    /// Messages that are missing, where that is known.
    messages: Option<u64>,
}

impl Profile {
    const EMPTY: Self = Self { from_ms: 0.0, to_ms: 0.0, records: Vec::new(), gaps: Vec::new() };

    fn new(span: (u64, u64), records: Vec<f64>, gaps: impl Iterator<Item = PlayedGap>) -> Self {
        let gap = |gap: PlayedGap| ProfileGap {
            from_ms: milliseconds(gap.from),
            to_ms: milliseconds(gap.to),
            reason: gap.reason,
            messages: gap.messages,
        };
        let (from_ms, to_ms) = (milliseconds(span.0), milliseconds(span.1));
        Self { from_ms, to_ms, records, gaps: gaps.take(GAPS).map(gap).collect() }
    }

    fn of_folder(folder: &str) -> Result<Self, String> {
        let recording = match Recording::open(Folder::to_read(std::path::Path::new(folder))) {
            Err(record::Error::Empty { .. }) => return Ok(Self::EMPTY),
            opened => opened.map_err(|e| e.to_string())?,
        };
        let info = recording.info();
        let Some(span) = info.span else { return Ok(Self::EMPTY) };
        let of = |(_, gap): (u64, Gap)| PlayedGap {
            from: gap.from,
            to: gap.to,
            reason: gap.reason.text(),
            messages: gap.messages,
        };
        Ok(Self::new(span, recording.rates(PARTS), info.gaps.into_iter().map(of)))
    }
}

pub(super) fn replays(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    let all = api.about.replays.all().into_iter().map(|(name, steering)| Replay::of(name, &steering));
    ready(Answer::of(&all.collect::<Vec<_>>()))
}

fn name_of(asked: &Asked) -> &str {
    asked.places.first().map_or("", String::as_str)
}

pub(super) fn profile(api: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(api.about.replays.named(name_of(asked)).and_then(|steering| {
        let played = steering.overview();
        Answer::of(&Profile::new((played.from, played.to), played.rates.clone(), played.gaps.iter().cloned()))
    }))
}

/// Of what the process records of itself.
pub(super) async fn recording_profile(api: &Api, _: &Asked) -> Result<Answer, Fault> {
    let Some(recording) = api.life.recording() else { return Answer::of(&Profile::EMPTY) };
    let folder = recording.standing().folder;
    let profile = blocking(move || Profile::of_folder(&folder)).await?;
    Answer::of(&profile.map_err(|why| Fault::new(503, why))?)
}

pub(super) async fn order(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let why = optional_why(asked)?;
    let (name, steering) = (name_of(asked).to_owned(), api.about.replays.named(name_of(asked))?);
    let text = asked.text("order").ok_or_else(|| Fault::new(400, "say what: {\"order\": \"pause\"}"))?;
    let order: Order = text.parse().map_err(|e: record::NoOrder| Fault::new(400, e.to_string()))?;
    let standing = {
        let steering = steering.clone();
        blocking(move || steering.order(order)).await?.map_err(|e| Fault::new(409, e.to_string()))?
    };
    let said = format!("{order}: replay {name} is at {}, {}", time_text(&steering, standing), standing.state.name());
    done(asked, why.map_or_else(|| said.clone(), |why| format!("{said}: {why}")))
}

fn time_text(steering: &Steering, standing: Standing) -> String {
    when::text(standing.time_at(net::clock::now(), steering.overview().to))
}

/// The families of all replays; nothing where there are none.
pub(super) fn metrics(out: &mut String, replays: &Replays) {
    type Figure = (&'static str, &'static str, &'static str, fn(&Steering, Standing) -> f64);
    const FIGURES: [Figure; 4] = [
        ("running", "gauge", "1 while time passes in the replay.", |steering, standing| {
            f64::from(standing.state == ReplayState::Running && steering.end().is_none())
        }),
        ("time_seconds", "gauge", "The time that the replay has come to, Unix time.", |steering, standing| {
            standing.time_at(net::clock::now(), steering.overview().to) as f64 / 1e9
        }),
        ("streams", "gauge", "Streams that watch the replay.", |_, standing| standing.streams as f64),
        ("messages", "counter", "Messages that the replay has sent.", |_, standing| standing.messages as f64),
    ];
    let all = replays.all();
    if all.is_empty() {
        return;
    }
    for (name, kind, help, value) in FIGURES {
        let family = format!("quoteway_replay_{name}");
        head(out, &family, kind, help);
        let ending = if kind == "counter" { "_total" } else { "" };
        for (replay, steering) in &all {
            let value = value(steering, steering.standing());
            let _ = writeln!(out, "{family}{ending}{{replay=\"{}\"}} {value}", escaped(replay));
        }
    }
}
