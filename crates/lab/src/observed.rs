//! `quoteway-lab observed`: what two ends wrote down, as the row of a report's table.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use measure::observer::analysis::{Analysis, Distribution, analyse};
use measure::observer::{read_received, read_sent};
use tools::lbmtest::{distribution_json, distribution_table};

/// The files of `--observe`.
#[derive(Debug, Clone, Args)]
pub struct Observed {
    /// What the sender wrote (lbmpub or sink-driven-src --observe)
    #[arg(value_name = "SENDER")]
    sender: PathBuf,
    /// What receivers wrote (lbmsub or test-client --observe)
    #[arg(value_name = "RECEIVER", required = true)]
    receivers: Vec<PathBuf>,
    /// One object of JSON
    #[arg(long)]
    json: bool,
}

impl Observed {
    /// Text for the user, in the form that was asked for.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it should be.
    pub fn show(&self) -> anyhow::Result<String> {
        let (head, sent) = read_sent(&self.sender)?;
        let mut receivers = Vec::new();
        let mut missed = head.missed;
        for path in &self.receivers {
            let (other, received) = read_received(path)?;
            if other.every != head.every {
                bail!(
                    "{}: one of {} messages was observed, at the sender one of {}",
                    path.display(),
                    other.every,
                    head.every
                );
            }
            missed += other.missed;
            receivers.push(received);
        }
        let analysis = analyse(&sent, &receivers, head.every);
        Ok(if self.json { as_json(&analysis, missed) } else { as_text(&analysis, missed) })
    }
}

/// Parts of the test that a figure can leave out must be said beside it.
fn as_text(a: &Analysis, missed: u64) -> String {
    let steady = if a.is_steady { "steady" } else { "no steady state was found: all" };
    let mut text = format!(
        "{} messages sent, {} received; {} lost, {} out of order, {} under way at the end\n\
         {steady} for {:.3} s after the first {:.3} s: {:.0} a second sent, {:.0} received\n",
        a.sent,
        a.received,
        a.lost,
        a.out_of_order,
        a.in_flight,
        a.seconds,
        a.discarded_s,
        a.sent_per_s,
        a.received_per_s
    );
    if missed > 0 {
        let _ = writeln!(text, "{missed} messages found the memory for observations full (--observe-capacity)");
    }
    let table = |what: &str, d: &Distribution| distribution_table(what, d) + "\n";
    text += &table("send to receive", &a.from_call);
    text += &table("from intended time", &a.latency);
    text + &distribution_table("sender late by", &a.lateness)
}

fn as_json(a: &Analysis, missed: u64) -> String {
    json!({
        "sent": a.sent, "received": a.received, "lost": a.lost, "out_of_order": a.out_of_order, "in_flight": a.in_flight,
        "unknown": a.unknown, "not_observed": missed, "steady": a.is_steady, "discarded_seconds": a.discarded_s,
        "seconds": a.seconds, "sent_per_s": a.sent_per_s, "received_per_s": a.received_per_s,
        "send_to_receive_us": distribution_json(&a.from_call), "from_intended_us": distribution_json(&a.latency),
        "late_us": distribution_json(&a.lateness),
    })
    .to_string()
}
