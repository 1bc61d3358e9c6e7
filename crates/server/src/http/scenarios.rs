//! The test stand of the process (`quoteway scenario serve`): which scenarios there are, which one is played, and how far it is.

use std::future::{Ready, ready};

use rwf::dictionary::Dictionary;
use scenario::judge::{Finding, rule};
use scenario::play::Passed;
use scenario::verdict::Outcome;
use scenario_io::stand::{self, Choice, Run, Stand};
use serde::Serialize;

use super::actions::done;
use super::answer::{Answer, Fault};
use super::asked::{Asked, Parameter};
use super::endpoint::Api;

/// Lines of a message that are told.
const LINES_MAX: usize = 30;

/// The body of an order to play.
pub(super) const PLAY: &[Parameter] =
    &[("scenario", "Its name."), ("seed?", "Of all that is random in it: a whole number [default: 1].")];

/// A scenario that can be played.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Scenario {
    /// Its name.
    name: &'static str,
    /// Title: what it shows.
    title: String,
    /// Why it matters, and what a right client does.
    about: String,
    /// What is under test: `consumer` or `publisher`.
    judges: &'static str,
    /// The rules that it gives occasion to.
    rules: Vec<String>,
}

/// How the test stand is.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Standing {
    /// `off` (the process has none), `waiting` for a scenario to be chosen, or `playing`.
    state: &'static str,
    /// Where the client under test connects.
    listen: Option<String>,
    /// Connections now.
    connections: usize,
    /// Why nothing can be played.
    trouble: Option<String>,
    /// The scenario that is played, or was the last.
    run: Option<Played>,
}

/// A scenario that is played, or was.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Played {
    /// Its name.
    scenario: String,
    /// Title: what it shows.
    title: String,
    /// Why it matters, and what a right client does.
    about: String,
    /// The seed, as text: it may be too large for a number of JSON.
    seed: String,
    /// `playing`, `passed`, `failed` or `not judged`.
    outcome: &'static str,
    /// Why nothing was judged; empty otherwise.
    why_not: String,
    /// How long it takes or took, seconds.
    took_s: f64,
    /// Its steps, the first thousand of them.
    steps: Vec<Step>,
    /// Where rules were broken.
    findings: Vec<Broken>,
    /// The last messages, oldest first.
    messages: Vec<Message>,
}

/// A step.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Step {
    /// As it stands in the scenario.
    text: String,
    /// `done`, `failed`, `doing`, or `to come`.
    state: &'static str,
    /// When it began, seconds since the scenario did.
    at_s: Option<f64>,
}

/// A place at which a rule was broken.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Broken {
    /// The rule's name.
    rule: &'static str,
    /// When, seconds since the scenario began.
    at_s: f64,
    /// The client's deed, or what it did not do.
    text: String,
    /// What a right client does.
    about: &'static str,
    /// Where that is written.
    source: &'static str,
}

/// A message that passed.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Message {
    /// When, seconds since the scenario began.
    at_s: f64,
    /// Its connection, numbered as they came.
    connection: u32,
    /// The process under test sent it.
    from_client: bool,
    /// As `quoteway dump` shows it; of a long one the beginning.
    text: String,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Played {
    fn of(run: Run, is_playing: bool) -> Self {
        let (outcome, why_not) = match &run.outcome {
            None if is_playing => ("playing", String::new()),
            None => ("not judged", "it was ended".to_owned()),
            Some((Outcome::Passed, _)) => ("passed", String::new()),
            Some((Outcome::Failed, _)) => ("failed", String::new()),
            Some((Outcome::NotJudged, why)) => ("not judged", why.clone()),
        };
        let has_failed = |line: usize| {
            let place = format!("line {line}:");
            run.findings.iter().any(|finding| finding.rule == "steps" && finding.text.starts_with(&place))
        };
        let step = |(number, step): (usize, &stand::Step)| {
            let state = match number.cmp(&run.done) {
                std::cmp::Ordering::Less if has_failed(step.line) => "failed",
                std::cmp::Ordering::Less => "done",
                std::cmp::Ordering::Equal if run.outcome.is_none() => "doing",
                _ => "to come",
            };
            Step { text: step.text.clone(), state, at_s: step.began_ns.map(seconds) }
        };
        let dictionary = Dictionary::builtin();
        Self {
            outcome,
            why_not,
            took_s: seconds(run.took_ns),
            steps: run.steps.iter().enumerate().map(step).collect(),
            findings: run.findings.iter().map(Broken::of).collect(),
            messages: run.last.iter().map(|passed| Message::of(passed, &dictionary)).collect(),
            seed: run.seed.to_string(),
            scenario: run.scenario,
            title: run.title,
            about: run.about,
        }
    }
}

impl Broken {
    fn of(finding: &Finding) -> Self {
        let known = rule(finding.rule);
        Self {
            rule: finding.rule,
            at_s: seconds(finding.at_ns),
            text: finding.text.clone(),
            about: known.map_or("", |rule| rule.about),
            source: known.map_or("", |rule| rule.source),
        }
    }
}

impl Message {
    fn of(passed: &Passed, dictionary: &Dictionary) -> Self {
        let text = rwf_text::message(&passed.message, Some(dictionary)).to_string();
        let mut lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
        if text.lines().nth(LINES_MAX).is_some() {
            lines.push("...");
        }
        Self {
            at_s: seconds(passed.at_ns),
            connection: passed.conn,
            from_client: passed.from_client,
            text: lines.join("\n"),
        }
    }
}

pub(super) fn scenarios(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    let scenario = |choice: Choice| Scenario {
        name: choice.name,
        title: choice.title,
        about: choice.about,
        judges: choice.judges.name(),
        rules: choice.rules,
    };
    let choices = if api.about.stand.is_some() { stand::choices() } else { Vec::new() };
    ready(Answer::of(&choices.into_iter().map(scenario).collect::<Vec<_>>()))
}

pub(super) fn run(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    let Some(stand) = &api.about.stand else {
        let off = Standing { state: "off", listen: None, connections: 0, trouble: None, run: None };
        return ready(Answer::of(&off));
    };
    let stand::Standing { listen, connections, is_playing, run, trouble } = stand.standing();
    ready(Answer::of(&Standing {
        state: if is_playing { "playing" } else { "waiting" },
        listen: Some(crate::addresses::show(listen)),
        connections,
        trouble,
        run: run.map(|run| Played::of(run, is_playing)),
    }))
}

fn stand_of(api: &Api) -> Result<&Stand, Fault> {
    api.about
        .stand
        .as_ref()
        .ok_or_else(|| Fault::new(409, "this process has no test stand: quoteway scenario serve is one"))
}

pub(super) fn play(api: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    let played = || {
        let stand = stand_of(api)?;
        let name = asked.text("scenario").ok_or_else(|| Fault::new(400, "say which: {\"scenario\": \"...\"}"))?;
        let seed = asked.text("seed").unwrap_or("1");
        let seed = seed.parse().map_err(|_| Fault::new(400, format!("{seed} is no seed: a whole number from 0")))?;
        stand.play(name, seed).map_err(|why| Fault::new(404, why))?;
        done(asked, format!("scenario {name} is played, seed {seed}"))
    };
    ready(played())
}

pub(super) fn stop(api: &Api, asked: &Asked) -> Ready<Result<Answer, Fault>> {
    let stopped = || {
        if stand_of(api)?.stop() {
            done(asked, "the scenario is ended".to_owned())
        } else {
            Err(Fault::new(409, "no scenario is being played"))
        }
    };
    ready(stopped())
}
