//! The verdict of a run: as text for people, as `JUnit` XML and JSON for programs.

use std::fmt::Write as _;

use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use serde_json::{Value, json};

use crate::file::{Judges, ScenarioFile};
use crate::judge::{Finding, Notes, RULES, rule};
use crate::play::{End, Passed, Play};

/// Lines of a message that a report shows.
const LINES_MAX: usize = 30;

/// The end of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// No rule was broken, and those of the scenario had occasion.
    Passed,
    /// A rule was broken.
    Failed,
    /// Something that the scenario needs did not come, or a rule of it had no occasion.
    NotJudged,
}

/// The verdict of one run of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The scenario's name.
    pub scenario: String,
    /// Title of the scenario.
    pub title: String,
    /// What is under test: client, provider or publisher.
    pub under_test: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// Why nothing was judged; empty otherwise.
    pub why_not: String,
    /// The seed: the run can be repeated with it.
    pub seed: u64,
    /// How long it ran, nanoseconds.
    pub took_ns: u64,
    /// Where rules were broken.
    pub findings: Vec<Finding>,
    /// Rules that had occasion: name, times, times broken.
    pub rules: Vec<(&'static str, u64, u64)>,
    /// The last messages, for failures.
    pub last: Vec<Passed>,
    /// Where the whole run was recorded, if it was.
    pub recording: Option<String>,
}

impl Verdict {
    /// The verdict of a play that has ended.
    pub fn of(scenario: &ScenarioFile, play: &Play, seed: u64, took_ns: u64) -> Self {
        let notes = &play.notes();
        let why_not = why_not(scenario, notes, play.end());
        let outcome = match (notes.findings().is_empty(), why_not.is_empty()) {
            (false, _) => Outcome::Failed,
            (true, true) => Outcome::Passed,
            (true, false) => Outcome::NotJudged,
        };
        let rules = RULES.iter().map(|rule| (rule.name, notes.occasions(rule.name), notes.times_broken(rule.name)));
        Self {
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            under_test: match scenario.judges {
                Judges::Consumer => "client",
                other => other.name(),
            },
            outcome,
            why_not,
            seed,
            took_ns,
            findings: notes.findings().to_vec(),
            rules: rules.filter(|(_, occasions, _)| *occasions > 0).collect(),
            last: if outcome == Outcome::Failed { play.last().iter().cloned().collect() } else { Vec::new() },
            recording: None,
        }
    }
}

/// Why a run says nothing about the client.
fn why_not(scenario: &ScenarioFile, notes: &Notes, end: Option<&End>) -> String {
    match end {
        Some(End::NotJudged(why)) => return why.clone(),
        Some(End::Impossible(why)) => return format!("the scenario cannot go on: {why}"),
        None => return "the run was ended before its last step".to_owned(),
        Some(End::Done) => {}
    }
    let without: Vec<&str> =
        scenario.rules.iter().map(String::as_str).filter(|name| notes.occasions(name) == 0).collect();
    if without.is_empty() { String::new() } else { format!("no occasion for {}", without.join(", ")) }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A line for each scenario, and behind those that failed what was found, and the last messages as `quoteway dump` shows them.
pub fn text(verdicts: &[Verdict], dump: &dyn Fn(&[u8]) -> String) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        let word = match verdict.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::NotJudged => "not judged",
        };
        let (name, took) = (&verdict.scenario, seconds(verdict.took_ns));
        let _ = writeln!(out, "{word:<10}  {name:<28} {took:>6.1} s  {}", verdict.title);
        if !verdict.why_not.is_empty() {
            let _ = writeln!(out, "            {}", verdict.why_not);
        }
        for finding in &verdict.findings {
            let _ = writeln!(out, "    {:>8.3} s  {}: {}", seconds(finding.at_ns), finding.rule, finding.text);
        }
        for (name, _, broken) in verdict.rules.iter().filter(|(.., broken)| *broken > 0) {
            if let Some(rule) = rule(name) {
                let _ =
                    writeln!(out, "    {name}, broken {broken} times: {}\n        source: {}", rule.about, rule.source);
            }
        }
        if !verdict.last.is_empty() {
            let _ = writeln!(out, "    the last {} messages (seed {}):", verdict.last.len(), verdict.seed);
        }
        for passed in &verdict.last {
            let _ = writeln!(out, "{}", line_of(passed, verdict.under_test));
            for line in shown(dump(&passed.message)).lines() {
                let _ = writeln!(out, "        {line}");
            }
        }
        if let Some(recording) = &verdict.recording {
            let _ = writeln!(out, "    recorded: {recording}");
        }
    }
    let count = |outcome: Outcome| verdicts.iter().filter(|verdict| verdict.outcome == outcome).count();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let _ = writeln!(out, "{passed} passed, {failed} failed, {} not judged", count(Outcome::NotJudged));
    out
}

/// The beginning of a message's text: a dictionary has thousands of lines, and a recording has all of them.
fn shown(text: String) -> String {
    let more = text.lines().count().saturating_sub(LINES_MAX);
    if more == 0 {
        return text;
    }
    let mut lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    let rest = format!("... and {more} lines more");
    lines.push(&rest);
    lines.join("\n")
}

fn line_of(passed: &Passed, under_test: &str) -> String {
    let way = if passed.from_client { format!("{under_test} ->") } else { format!("-> {under_test}") };
    format!("    {:>8.3} s  {way}  connection {}", seconds(passed.at_ns), passed.conn)
}

/// `JUnit` XML, as CI systems read it: a test suite of scenarios.
///
/// # Errors
/// None that memory does not have.
pub fn junit(verdicts: &[Verdict], dump: &dyn Fn(&[u8]) -> String) -> std::io::Result<Vec<u8>> {
    let mut writer = quick_xml::Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let count = |outcome: Outcome| verdicts.iter().filter(|v| v.outcome == outcome).count().to_string();
    let total = format!("{:.3}", seconds(verdicts.iter().map(|verdict| verdict.took_ns).sum()));
    let suite = BytesStart::new("testsuite").with_attributes([
        ("name", "quoteway scenario"),
        ("tests", verdicts.len().to_string().as_str()),
        ("failures", count(Outcome::Failed).as_str()),
        ("errors", "0"),
        ("skipped", count(Outcome::NotJudged).as_str()),
        ("time", total.as_str()),
    ]);
    writer.write_event(Event::Start(suite))?;
    for verdict in verdicts {
        let took = format!("{:.3}", seconds(verdict.took_ns));
        let case = BytesStart::new("testcase").with_attributes([
            ("classname", "quoteway.scenario"),
            ("name", verdict.scenario.as_str()),
            ("time", took.as_str()),
        ]);
        writer.write_event(Event::Start(case))?;
        match verdict.outcome {
            Outcome::Passed => {}
            Outcome::NotJudged => {
                let skipped =
                    BytesStart::new("skipped").with_attributes([("message", clean(&verdict.why_not).as_str())]);
                writer.write_event(Event::Empty(skipped))?;
            }
            Outcome::Failed => {
                let first = verdict.findings.first();
                let (kind, message) = first.map_or(("", ""), |finding| (finding.rule, finding.text.as_str()));
                let failure =
                    BytesStart::new("failure").with_attributes([("type", kind), ("message", clean(message).as_str())]);
                writer.write_event(Event::Start(failure))?;
                let text = clean(&self::text(std::slice::from_ref(verdict), dump));
                writer.write_event(Event::Text(BytesText::new(&text)))?;
                writer.write_event(Event::End(BytesEnd::new("failure")))?;
            }
        }
        writer.write_event(Event::End(BytesEnd::new("testcase")))?;
    }
    writer.write_event(Event::End(BytesEnd::new("testsuite")))?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

/// Text without what XML 1.0 has no place for.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !['\n', '\t'].contains(&c) { '?' } else { c }).collect()
}

/// JSON: one object, all that the text has.
pub fn json(verdicts: &[Verdict], dump: &dyn Fn(&[u8]) -> String) -> Value {
    let finding =
        |finding: &Finding| json!({"rule": finding.rule, "at_s": seconds(finding.at_ns), "text": finding.text});
    let message = |passed: &Passed, under_test: &str| {
        let from = if passed.from_client { under_test } else { "quoteway" };
        json!({
            "at_s": seconds(passed.at_ns), "connection": passed.conn,
            "from": from,
            "text": shown(dump(&passed.message)),
        })
    };
    let one = |verdict: &Verdict| {
        let last: Vec<Value> = verdict.last.iter().map(|passed| message(passed, verdict.under_test)).collect();
        let outcome = match verdict.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "failed",
            Outcome::NotJudged => "not judged",
        };
        let rules: Vec<Value> = verdict
            .rules
            .iter()
            .map(|(name, occasions, broken)| json!({"rule": name, "occasions": occasions, "broken": broken}))
            .collect();
        json!({
            "scenario": verdict.scenario,
            "title": verdict.title,
            "outcome": outcome,
            "why_not": verdict.why_not,
            "seed": verdict.seed,
            "took_s": seconds(verdict.took_ns),
            "findings": verdict.findings.iter().map(finding).collect::<Vec<_>>(),
            "rules": rules,
            "last_messages": last,
            "recording": verdict.recording,
        })
    };
    json!({ "scenarios": verdicts.iter().map(one).collect::<Vec<_>>() })
}
