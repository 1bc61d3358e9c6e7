//! How delayed services of the process stand (`[delay.NAME]`): told by the threads that publish them, each second, and shown from here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};

use record_io::delay::Standing;
use serde::Serialize;

use super::answer::{Answer, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use super::families::{escaped, head};

/// A delayed service and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Delay {
    /// Its name in the configuration (`[delay.NAME]`), which is that of the service.
    pub name: String,
    /// The service that it is of.
    pub delayed_service: String,
    /// How it stands now.
    #[serde(flatten)]
    pub standing: Standing,
}

/// The delayed services of a process. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Delays(Arc<Mutex<BTreeMap<String, Delay>>>);

impl Delays {
    /// Says how one stands.
    pub fn tell(&self, delay: Delay) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(delay.name.clone(), delay);
    }

    /// All of them by name.
    pub fn all(&self) -> Vec<Delay> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

pub(super) fn delays(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    ready(Answer::of(&api.about.delays.all()))
}

type Figure = (&'static str, &'static str, fn(&Standing) -> u64);

const COUNTERS: [Figure; 4] = [
    ("refused", "Requests that were refused since there were too many items.", |d| d.refused),
    ("written", "Messages that were written down.", |d| d.written),
    ("published", "Messages that were published when they were due, each stream counted.", |d| d.published),
    ("removed", "Messages that went before they were published, since the journal was full.", |d| d.removed),
];
const GAUGES: [Figure; 4] = [
    ("up", "1 while the journal can be read and written.", |d| d.is_up as u64),
    ("items", "Items that are written down, and those of which something is still to be said.", |d| d.items),
    ("watched", "Items that somebody watches.", |d| d.watched),
    ("held_bytes", "Bytes of the journal's files.", |d| d.held_bytes),
];

/// The families of all delayed services; nothing where there are none.
pub(super) fn metrics(out: &mut String, delays: &[Delay]) {
    if delays.is_empty() {
        return;
    }
    for (kind, ending, figures) in [("counter", "_total", &COUNTERS[..]), ("gauge", "", &GAUGES[..])] {
        for (name, help, value) in figures {
            let family = format!("quoteway_delay_{name}");
            head(out, &family, kind, help);
            for delay in delays {
                let _ =
                    writeln!(out, "{family}{ending}{{delay=\"{}\"}} {}", escaped(&delay.name), value(&delay.standing));
            }
        }
    }
    let family = "quoteway_delay_oldest_seconds";
    head(out, family, "gauge", "How long ago the oldest message came that is to be published; 0 if there is none.");
    for delay in delays {
        let seconds = delay.standing.oldest_ns as f64 / 1e9;
        let _ = writeln!(out, "{family}{{delay=\"{}\"}} {seconds}", escaped(&delay.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delayed_service_has_its_samples() {
        let delays = Delays::default();
        let mut text = String::new();
        metrics(&mut text, &delays.all());
        assert_eq!(text, "");
        delays.tell(Delay { name: "LATE".into(), ..Delay::default() });
        let standing = Standing {
            is_up: true,
            items: 3,
            held_bytes: 4096,
            oldest_ns: 1_500_000_000,
            removed: 2,
            ..Standing::default()
        };
        delays.clone().tell(Delay { name: "LATE".into(), standing, ..Delay::default() });
        delays.tell(Delay { name: "a\"b".into(), ..Delay::default() });
        metrics(&mut text, &delays.all());
        for sample in [
            "quoteway_delay_up{delay=\"LATE\"} 1",
            "quoteway_delay_up{delay=\"a\\\"b\"} 0",
            "quoteway_delay_items{delay=\"LATE\"} 3",
            "quoteway_delay_held_bytes{delay=\"LATE\"} 4096",
            "quoteway_delay_removed_total{delay=\"LATE\"} 2",
            "quoteway_delay_oldest_seconds{delay=\"LATE\"} 1.5",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
        assert_eq!(families, COUNTERS.len() + GAUGES.len() + 1);
    }
}
