//! Which parameters a kind of scenario reads, so that `--set` never changes what nothing asks for.

use crate::scenario::{Kind, Scenario, ScenarioError};

/// Parameters that every scenario has.
const OF_ALL: [&str; 5] = ["title", "about", "goals", "group", "on_request"];
const OF_IMAGES: [&str; 12] = [
    "items",
    "size",
    "data_size",
    "rates",
    "seconds",
    "warmup",
    "socket_buffer",
    "server_toml",
    "priority",
    "idle",
    "shuffle",
    "order",
];
const OF_LATE: [&str; 9] =
    ["items", "size", "data_size", "rates", "warmup", "socket_buffer", "server_toml", "split", "idle"];
const OF_SEEN: [&str; 11] = [
    "items",
    "size",
    "data_size",
    "rates",
    "seconds",
    "warmup",
    "mounts",
    "common",
    "stamp_every",
    "socket_buffer",
    "server_toml",
];
const OF_MEMORY: [&str; 8] =
    ["clients", "items", "size", "data_size", "mounts", "socket_buffer", "server_toml", "variant"];
const OF_LOAD: [&str; 10] =
    ["load", "items", "size", "data_size", "mounts", "rates", "seconds", "warmup", "socket_buffer", "server_toml"];
const OF_CONFLATION: [&str; 9] =
    ["items", "size", "data_size", "mounts", "rates", "seconds", "warmup", "socket_buffer", "server_toml"];
const OF_STAGES: [&str; 6] = ["items", "size", "mounts", "common", "batches", "instructions"];
const OF_LBM: [&str; 8] =
    ["seconds", "warmup", "original_seconds", "max_latency_us", "originals", "quick_rates", "lbm", "mean_latency_us"];
const OF_TRANSPORTS: [&str; 12] = [
    "transports",
    "losses",
    "items",
    "size",
    "data_size",
    "rates",
    "seconds",
    "warmup",
    "stamp_every",
    "socket_buffer",
    "server_toml",
    "idle",
];
const NOT_OF_FLOW: [&str; 5] = ["batches", "instructions", "lbm", "transports", "losses"];

impl Scenario {
    /// Whether a parameter has an effect on this scenario.
    fn reads(&self, key: &str) -> bool {
        let own = match self.kind {
            Kind::Codec => false,
            Kind::Images => OF_IMAGES.contains(&key),
            Kind::Late => OF_LATE.contains(&key),
            Kind::Seen => OF_SEEN.contains(&key),
            Kind::Memory => OF_MEMORY.contains(&key),
            Kind::Load => OF_LOAD.contains(&key),
            Kind::Conflation => OF_CONFLATION.contains(&key),
            Kind::Stages => OF_STAGES.contains(&key),
            Kind::Lbm => OF_LBM.contains(&key) || self.lbm.as_ref().is_some_and(|grid| grid.has(key)),
            Kind::Transports => OF_TRANSPORTS.contains(&key),
            Kind::Flow => !NOT_OF_FLOW.contains(&key),
        };
        own || OF_ALL.contains(&key)
    }
}

/// A scenario, and what to say of a change that does not apply to it.
pub type LeftOut = (String, String);

/// Changes the chosen scenarios by `KEY=VALUE`. Gives what to say of those to which a change does not apply; they run without it.
///
/// # Errors
/// A line that is no change, or one that applies to none of the scenarios: nothing is to be run then.
pub fn set(chosen: &mut [Scenario], lines: &[String]) -> Result<Vec<LeftOut>, ScenarioError> {
    let mut left_out = Vec::new();
    for line in lines {
        let key = line.split('=').next().unwrap_or_default().trim();
        let mut faults = Vec::new();
        for scenario in chosen.iter_mut() {
            let mut changed = scenario.clone();
            let result = changed.set(std::slice::from_ref(line));
            match result {
                Ok(()) if scenario.reads(key) => *scenario = changed,
                Ok(()) => faults.push((scenario.name.clone(), None)),
                Err(why) => faults.push((scenario.name.clone(), Some(why))),
            }
        }
        if faults.len() == chosen.len() {
            let first = faults.into_iter().find_map(|(_, why)| why);
            return Err(first.unwrap_or_else(|| ScenarioError::Unread { line: line.clone() }));
        }
        left_out.extend(faults.into_iter().map(|(name, why)| {
            let why = why.map_or_else(|| format!("{key} is no parameter of this kind"), |why| why.to_string());
            (name, format!("--set {line} does not apply here, and the scenario runs without: {why}"))
        }));
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{BUILT_IN, read};

    fn of(names: &[&str]) -> Vec<Scenario> {
        read(BUILT_IN).unwrap().into_iter().filter(|s| names.contains(&s.name.as_str())).collect()
    }

    fn changed(names: &[&str], lines: &[&str]) -> Result<(Vec<Scenario>, Vec<LeftOut>), ScenarioError> {
        let mut chosen = of(names);
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        set(&mut chosen, &lines).map(|said| (chosen, said))
    }

    #[test]
    fn a_change_that_does_not_apply_is_said_and_the_others_are_made() {
        let (chosen, said) = changed(&["chain", "images", "codec"], &["rates=max"]).unwrap();
        let find = |name: &str| chosen.iter().find(|s| s.name == name).unwrap();
        assert_eq!((find("chain").rates.as_str(), find("images").rates.as_str()), ("max", "100k"));
        let said: Vec<&str> = said.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(said, ["codec", "images"]);
    }

    #[test]
    fn a_change_that_applies_to_nothing_fails_before_anything_runs() {
        for (names, line, part) in [
            (&["images"][..], "rates=max", "one rate"),
            (&["codec", "memory"], "bursts=7", "none of the chosen"),
            (&["chain", "images"], "colour=red", "colour"),
            (&["chain"], "rates=fast", "fast"),
            (&["chain"], "items", "KEY=VALUE"),
        ] {
            let error = changed(names, &[line]).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn what_the_processes_of_images_are_started_with_is_changed() {
        let lines = ["priority=source:5 client:10", "idle=block", "shuffle=false"];
        let (chosen, said) = changed(&["images"], &lines).unwrap();
        assert_eq!((chosen[0].priority_of("client"), chosen[0].idle.as_str()), (Some(10), "block"));
        assert!(!chosen[0].shuffle && said.is_empty(), "{said:?}");
        let order = "the source in random order";
        let [before, after] = [&of(&["images"])[0], &chosen[0]].map(|scenario| crate::conditions::of(scenario, None));
        assert!(before.contains(order) && !after.contains(order));
    }

    #[test]
    fn the_grid_of_lbm_is_changed_where_it_is() {
        let (chosen, said) = changed(&["cisco-lbm-1to1-latency", "chain"], &["payloads=64", "seconds=1"]).unwrap();
        let grid = |name: &str| chosen.iter().find(|s| s.name == name).and_then(|s| s.lbm.as_ref());
        assert_eq!(grid("cisco-lbm-1to1-latency").map(|g| g.payloads.as_str()), Some("64"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].0 == "chain" && chosen.iter().all(|s| (s.seconds - 1.0).abs() < 1e-9));
    }
}
