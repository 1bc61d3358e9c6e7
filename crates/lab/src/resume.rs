//! Results of an earlier call, so that a long one that was cut off goes on where it ended.
//!
//! A run is taken over if scenario, conditions, row, side and number are the same, and so are both programs' files and the machine; the file of
//! results has them all.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::environment::Environment;
use crate::error::FileError;
use crate::results::{Metrics, Observed};

/// Runs and found rates of the file of results.
#[derive(Debug, Default)]
pub struct Earlier {
    runs: HashMap<Key, Metrics>,
    found: HashMap<(String, String, String, String), f64>,
    /// Runs of another build, or of another machine: those are measured again.
    others: usize,
}

/// Scenario, conditions, row, side, number of the run.
type Key = (String, String, String, String, u64);

impl Earlier {
    /// Reads a file of results: what this build of the lab has measured of this build of the product on this machine. A file that is not there is empty, and
    /// lines that were cut off are passed over.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub fn read(path: &Path, here: &Environment) -> Result<Self, FileError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::of(&text, here)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(FileError::of("results", path)(e)),
        }
    }

    fn of(text: &str, here: &Environment) -> Self {
        let (mut all, mut is_same) = (Self::default(), true);
        for record in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let word = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            let [scenario, conditions, row, side] = ["scenario", "conditions", "row", "side"].map(word);
            let key = |pair| (scenario.clone(), conditions.clone(), row.clone(), side.clone(), pair);
            match (record["record"].as_str(), record["pair"].as_u64()) {
                (Some("environment"), _) => is_same = here.is_same_build(&record["environment"]),
                (Some("run"), _) if !is_same => all.others += 1,
                _ if !is_same => {}
                (Some("run"), Some(pair)) => {
                    let figures = record["figures"].as_object().into_iter().flatten();
                    let metrics = figures.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
                    all.runs.insert(key(pair), metrics);
                }
                (Some("observed"), Some(pair)) => {
                    let observed: Option<Observed> = serde_json::from_value(record["observed"].clone()).ok();
                    if let Some(run) = all.runs.get_mut(&key(pair)) {
                        run.observed = observed;
                    }
                }
                (Some("found"), _) => {
                    if let Some(rate) = record["rate"].as_f64() {
                        all.found.insert((scenario, conditions, row, side), rate);
                    }
                }
                _ => {}
            }
        }
        all
    }

    /// The results that are taken over, for the user.
    pub fn about(&self) -> String {
        let runs = self.runs.len();
        let others = match self.others {
            0 => String::new(),
            others => format!("; {others} run(s) of another build or machine are not taken over"),
        };
        format!("{runs} run(s) of an earlier call are taken over, as far as this call asks for the same{others}")
    }

    /// Takes a run, if it was made.
    pub fn run(&mut self, (scenario, conditions): (&str, &str), row: &str, side: &str, pair: u32) -> Option<Metrics> {
        let [scenario, conditions, row, side] = [scenario, conditions, row, side].map(str::to_owned);
        self.runs.remove(&(scenario, conditions, row, side, u64::from(pair)))
    }

    /// The rate that a search has found.
    pub fn found(&self, (scenario, conditions): (&str, &str), row: &str, side: &str) -> Option<f64> {
        let [scenario, conditions, row, side] = [scenario, conditions, row, side].map(str::to_owned);
        self.found.get(&(scenario, conditions, row, side)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_of_the_same_conditions_are_taken_once() {
        let observed = Observed { discarded_s: 0.25, is_steady: true, ..Observed::default() };
        let common = json!({"scenario": "s", "conditions": "c", "row": "1k", "side": "ours", "pair": 2});
        let with = |more: Value| {
            let mut record = common.clone();
            record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            record.to_string()
        };
        let text = [
            with(json!({"record": "run", "figures": {"rate": 5.0, "p50_us": null}})),
            with(json!({"record": "observed", "observed": observed})),
            with(json!({"record": "found", "rate": 7.5})),
            "{\"record\": \"run\", \"scen".to_owned(),
        ]
        .join("\n");
        let mut earlier = Earlier::of(&text, &Environment::default());
        assert_eq!(earlier.run(("s", "other"), "1k", "ours", 2), None);
        let run = earlier.run(("s", "c"), "1k", "ours", 2).unwrap();
        assert_eq!((run.get("rate"), run.get("p50_us"), run.observed), (Some(5.0), None, Some(observed)));
        assert_eq!(earlier.run(("s", "c"), "1k", "ours", 2), None, "each run counts once");
        assert_eq!(
            (earlier.found(("s", "c"), "1k", "ours"), earlier.found(("s", "c"), "2k", "ours")),
            (Some(7.5), None)
        );
    }

    #[test]
    fn runs_of_another_build_or_machine_are_measured_again() {
        let here = Environment {
            program: "lab, commit abc+".to_owned(),
            lab: "/bin/lab, 7 bytes".to_owned(),
            product: "/bin/quoteway, 9 bytes".to_owned(),
            host: "h".to_owned(),
            at: "now".to_owned(),
            ..Environment::default()
        };
        let other = || "another".to_owned();
        let environments = [
            Environment { at: other(), command: other(), ..here.clone() },
            Environment { program: other(), ..here.clone() },
            // Of one commit, and yet not the same.
            Environment { lab: other(), ..here.clone() },
            Environment { product: other(), ..here.clone() },
            Environment { host: other(), ..here.clone() },
        ];
        let mut lines = Vec::new();
        for (pair, environment) in (1..).zip(&environments) {
            lines.push(json!({"record": "environment", "environment": environment.json()}).to_string());
            let run = json!({"record": "run", "scenario": "s", "conditions": "c", "row": "1k", "side": "ours", "pair": pair, "figures": {"rate": 5.0}});
            lines.push(run.to_string());
        }
        // A file of before says nothing of the product.
        lines.push(json!({"record": "environment", "environment": {"program": here.program, "host": "h"}}).to_string());
        lines.push(lines[1].replace("\"pair\":1", "\"pair\":6"));
        let mut earlier = Earlier::of(&lines.join("\n"), &here);
        assert!(earlier.about().starts_with("1 run(s)") && earlier.about().contains("5 run(s) of another"));
        let taken = [1, 2, 3, 4, 5, 6].map(|pair| earlier.run(("s", "c"), "1k", "ours", pair).is_some());
        assert_eq!(taken, [true, false, false, false, false, false]);
    }

    #[test]
    fn a_file_that_is_not_there_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Earlier::read(&folder.path().join("none"), &Environment::default()).unwrap().runs.is_empty());
        assert!(Earlier::read(folder.path(), &Environment::default()).is_err());
    }
}
