//! `quoteway lbmstat`: what the LBM contexts of this host are doing.
//!
//! Every context (of `lbmpub`, `lbmsub`, the hub's processes, programs of the C library) answers on a Unix socket of its own with
//! its counters ([`reports`](super::reports)); what changed is shown.

use anyhow::anyhow;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Parser;
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue, style::Print};
use serde_json::{Value, json};

use super::hubstat;
use super::output::Output;
use super::reports::{Report, Thing, ask_all};
use super::table::{self, Column};

/// Shows the LBM sessions of this host: rates, NAKs, retransmissions, losses.
#[derive(Clone, Debug, Parser)]
#[allow(clippy::doc_markdown, reason = "the comments are the help text, where backticks would show")]
#[command(name = "lbmstat", after_help = EXAMPLES)]
pub struct Args {
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub interval: f64,

    /// Look so often, then end; 0 goes on
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub count: u64,

    /// Look once and show totals instead of rates
    #[arg(long)]
    pub once: bool,

    /// Show the topics of each session
    #[arg(long)]
    pub topics: bool,

    /// Only this process
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,

    /// One JSON object a look, with all counters
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  quoteway lbmstat                     live, q ends it; lines when the output is no terminal
  quoteway lbmstat --once --topics     totals since each context began
  quoteway lbmstat --json --count 10 | jq '.sessions[] | select(.lost > 0)'

naks: numbers asked for (sending: by receivers, receiving: by this context). repairs: datagrams sent again, or that came \
after they were missed. refused: NAKs that were not answered, since they came within the ignore interval, for datagrams that have left \
the window, or past the retransmission rate. lost: topic sequence numbers that were given up. dropped: datagrams that the \
kernel dropped because a receive buffer was full (docs/operating/lbm.md says what to do).

Source Distributors, P2PSs and rrcpds are listed below. waiting: what LBM has not taken, or a P2PS
not read. held: times that providers (rrcpd:
blocks) had to wait. lost: P2PSs that were lost, messages that were.

A context with the option `context statistics 0` is not seen.";

const COLUMNS: &[Column] = &[
    ("pid", 7),
    ("", 4),
    ("datagrams/s", 12),
    ("Mbit/s", 9),
    ("naks/s", 8),
    ("repairs/s", 10),
    ("refused/s", 10),
    ("lost", 8),
    ("blocked", 8),
    ("dropped", 8),
];

/// Everything as lines of text. Without `earlier` totals stand where rates would.
pub fn lines(reports: &[Report], earlier: Option<(&[Report], f64)>, topics: bool) -> Vec<String> {
    let per = if earlier.is_some() { "/s" } else { "" };
    let heading = table::heading(COLUMNS).replace("/s ", if per.is_empty() { "   " } else { "/s " });
    let mut lines = vec![format!("{heading}  session")];
    for report in reports {
        let dropped = report.things.iter().find(|t| t.kind == "context").map_or(0, |t| t.get("dropped"));
        for (session, thing) in report.sessions() {
            let before = earlier.and_then(|(all, _)| report.before(all, session, thing));
            let seconds = earlier.map_or(1.0, |(_, s)| s.max(0.001));
            let rate = |names: &[&str]| -> f64 {
                let sum = |t: &Thing| names.iter().map(|n| t.get(n)).sum::<u64>();
                let was = if earlier.is_some() { before.map_or(0, sum) } else { 0 };
                sum(thing).saturating_sub(was) as f64 / seconds
            };
            let cells = match thing.kind.as_str() {
                "sending" => sending_cells(report, thing, &rate),
                "receiving" => receiving_cells(report, thing, &rate, dropped),
                "source" | "receiver" if topics => {
                    let lost =
                        if thing.kind == "source" { String::new() } else { format!(", {} lost", thing.get("lost")) };
                    let (name, messages) = (&thing.name, rate(&["messages"]));
                    lines.push(format!("{:>12}  {name}: {messages:.0} messages{per}{lost}", ""));
                    continue;
                }
                "failover" => {
                    let (name, sources) = (&thing.name, thing.get("sources"));
                    let (messages, copies) = (rate(&["messages"]), rate(&["duplicates"]));
                    let (differing, lost) = (thing.get("differing"), thing.get("lost"));
                    lines.push(format!(
                        "{:>12}  {name}: hot failover of {sources}, {messages:.0} messages{per}, {copies:.0} copies{per}, \
                         {differing} differing, {lost} lost",
                        ""
                    ));
                    continue;
                }
                _ => continue,
            };
            lines.push(format!("{}  {session}", table::row(COLUMNS, cells)));
        }
    }
    if lines.len() == 1 {
        lines.push("no LBM sessions on this host".to_owned());
    }
    let hub = hubstat::lines(reports, earlier);
    if !hub.is_empty() {
        lines.push(String::new());
        lines.extend(hub);
    }
    lines
}

/// The row of a session that sends; `rate` is the sum of counters a second.
fn sending_cells(report: &Report, thing: &Thing, rate: &dyn Fn(&[&str]) -> f64) -> [String; COLUMNS.len()] {
    let show = |names: &[&str]| format!("{:.0}", rate(names));
    let refused = ["naks_ignored", "naks_outside_window", "naks_over_budget", "naks_delayed", "naks_shed"];
    [
        report.pid().to_string(),
        "out".to_owned(),
        show(&["datagrams"]),
        format!("{:.1}", rate(&["bytes"]) * 8.0 / 1e6),
        show(&["naks"]),
        show(&["retransmissions"]),
        show(&refused),
        "-".to_owned(),
        thing.get("would_block").to_string(),
        "-".to_owned(),
    ]
}

/// The row of a session that receives; `dropped` is its context's.
fn receiving_cells(
    report: &Report,
    thing: &Thing,
    rate: &dyn Fn(&[&str]) -> f64,
    dropped: u64,
) -> [String; COLUMNS.len()] {
    let show = |names: &[&str]| format!("{:.0}", rate(names));
    [
        report.pid().to_string(),
        "in".to_owned(),
        show(&["datagrams"]),
        "-".to_owned(),
        show(&["naks"]),
        show(&["repaired"]),
        show(&["ncfs"]),
        thing.get("lost_messages").to_string(),
        "-".to_owned(),
        dropped.to_string(),
    ]
}

fn as_json(reports: &[Report]) -> Value {
    let mut sessions = Vec::new();
    for report in reports {
        for (session, thing) in report.sessions() {
            let mut object = json!(thing.counters);
            object["pid"] = report.pid().into();
            object["kind"] = thing.kind.clone().into();
            object["name"] = thing.name.clone().into();
            object["session"] = session.into();
            sessions.push(object);
        }
    }
    json!({ "time": net::clock::wall() / 1_000_000_000, "sessions": sessions })
}

/// Looks and shows until it is told to stop.
///
/// # Errors
/// The terminal refuses.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install()?;
    let is_live = std::io::stdout().is_terminal() && !args.json && !args.once;
    if is_live {
        return live(args).map_err(|e| anyhow!("the terminal: {e}"));
    }
    let mut out = Output::default();
    let mut earlier = ask_all(args.pid);
    let tell = |reports: &[Report], earlier: Option<(&[Report], f64)>, out: &mut Output| {
        if args.json {
            out.line(&as_json(reports).to_string());
        } else {
            for line in lines(reports, earlier, args.topics) {
                out.line(&line);
            }
        }
    };
    if args.once {
        tell(&earlier, None, &mut out);
        return Ok(());
    }
    let mut looks = 0;
    while (args.count == 0 || looks < args.count) && !out.is_gone() {
        let seconds = pause(args.interval, &mut |left| {
            std::thread::sleep(left);
            Ok(net::signal::stop_requested() > 0)
        })?;
        let Some(seconds) = seconds else { return Ok(()) };
        let reports = ask_all(args.pid);
        tell(&reports, Some((&earlier, seconds)), &mut out);
        earlier = reports;
        looks += 1;
    }
    Ok(())
}

/// Waits in pieces; `None` if it is to stop. Gives how long it was.
fn pause(seconds: f64, wait: &mut dyn FnMut(Duration) -> anyhow::Result<bool>) -> anyhow::Result<Option<f64>> {
    let began = net::clock::now();
    let until = began + (seconds.max(0.05) * 1e9) as u64;
    loop {
        let left = until.saturating_sub(net::clock::now());
        if left == 0 {
            return Ok(Some((net::clock::now() - began) as f64 / 1e9));
        }
        if wait(Duration::from_nanos(left.min(100_000_000)))? || net::signal::stop_requested() > 0 {
            return Ok(None);
        }
    }
}

/// Gives the terminal back, however it ends.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(std::io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

fn live(args: &Args) -> std::io::Result<()> {
    terminal::enable_raw_mode()?;
    let _screen = Screen;
    let mut out = std::io::stdout();
    execute!(out, EnterAlternateScreen, cursor::Hide)?;
    let mut earlier = ask_all(args.pid);
    let mut shown = lines(&earlier, None, args.topics);
    let mut looks = 0;
    loop {
        let (width, height) = terminal::size()?;
        queue!(out, cursor::MoveTo(0, 0))?;
        let title = "quoteway lbmstat: LBM sessions of this host (q ends it)".to_owned();
        for line in std::iter::once(&title).chain(&shown).take(usize::from(height)) {
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(out, Print(line), Clear(ClearType::UntilNewLine), cursor::MoveToNextLine(1))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()?;
        if args.count > 0 && looks >= args.count {
            return Ok(());
        }
        let seconds = pause(args.interval, &mut |left| is_quit(left).map_err(anyhow::Error::from));
        let Some(seconds) = seconds.map_err(std::io::Error::other)? else { return Ok(()) };
        let reports = ask_all(args.pid);
        shown = lines(&reports, Some((&earlier, seconds)), args.topics);
        earlier = reports;
        looks += 1;
    }
}

/// Waits for a key; whether it was one that ends the tool.
fn is_quit(wait: Duration) -> std::io::Result<bool> {
    if !event::poll(wait)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(key) => {
            let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            is_control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "context\t\tpid=7\tdropped=3\n\
        sending\tLBTRM:10.1.1.10:14390:5e551d01:224.10.10.10:14400\tdatagrams=1000\tbytes=250000\tnaks=50\tretransmissions=40\tnaks_ignored=8\tnaks_shed=2\ttopics=1\n\
        source\tmd.ibm\tmessages=900\n\
        receiving\tTCP:10.1.1.20:14371\tdatagrams=5\tlost_messages=1\n\
        receiver\tx\tmessages=5\tlost=1\nend\n";

    #[test]
    fn a_report_is_shown_as_totals_and_as_rates() {
        let report = Report::parse("quoteway-lbm/7/0", TEXT).expect("whole");
        let totals = lines(std::slice::from_ref(&report), None, true);
        assert!(totals[1].contains("out         1000") && totals[1].ends_with("224.10.10.10:14400"), "{totals:#?}");
        assert!(
            totals[2].ends_with("md.ibm: 900 messages") && totals[4].ends_with("x: 5 messages, 1 lost"),
            "{totals:#?}"
        );
        let mut earlier = report.clone();
        earlier.things[1].counters.insert("datagrams".into(), 600);
        let rates = lines(std::slice::from_ref(&report), Some((std::slice::from_ref(&earlier), 2.0)), false);
        assert!(rates.len() == 3 && rates[1].contains("out          200"), "{rates:#?}");
        assert_eq!(Report::parse("quoteway-lbm/7/0", &TEXT[..TEXT.len() - 2]), None, "cut off");
        assert_eq!(as_json(&[report])["sessions"][1]["naks"], 50);
    }
}
