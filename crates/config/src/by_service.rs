//! Lists of numbers or of yes and no by service: `SERVICE:VALUE`, or `VALUE` for all others.

use std::collections::BTreeMap;

use super::filters::parts;
use super::value::Entries;

/// A rule on a list of numbers.
pub(super) const NUMBERS: &str = "must be numbers, SERVICE:NUMBER or NUMBER for all other services";

/// A rule on a list of yes and no.
pub(super) const FLAGS: &str = "must be true or false, SERVICE: and one of them, or one of them for all other services";

/// The numbers by service; that of the empty name is of all others. `None` where an entry is no number.
pub(super) fn numbers(list: &Entries) -> Option<BTreeMap<String, u32>> {
    by_service(list, |number| number.parse().ok())
}

/// As [`numbers`], of true and false in any case, as RMDS writes them.
pub(super) fn flags(list: &Entries) -> Option<BTreeMap<String, bool>> {
    by_service(list, |word| word.to_ascii_lowercase().parse().ok())
}

fn by_service<T>(list: &Entries, read: impl Fn(&str) -> Option<T>) -> Option<BTreeMap<String, T>> {
    let entry = |entry: &String| {
        let (service, value) = parts(entry);
        Some((service.unwrap_or_default().to_owned(), read(value.trim())?))
    };
    list.0.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Config, Selection, distributor_config, load, p2ps_limits};

    #[test]
    fn snapshots_are_said_by_service_in_an_rmds_cnf_too() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        std::fs::write(&cnf, "*FEED*supportsSnapshots : False\n*FEED*supportsOutofBandSnapshots : True\n").unwrap();
        let config = distributor_config(&load(&cnf, &Selection::default()).expect("no fault").config);
        assert_eq!(config.supports_snapshots, [("FEED".to_owned(), false)].into());
        assert_eq!(config.out_of_band_snapshots, [("FEED".to_owned(), true)].into());
        let wrong = "[source_distributor]\nsupports_snapshots = \"FEED:perhaps\"\n";
        let fault = Config::parse("test.toml", wrong).unwrap_err().to_string();
        assert!(fault.contains("must be true or false"), "{fault}");
    }

    #[test]
    fn limits_of_services_are_numbers_by_name() {
        let text = "[p2ps]\nservice_item_limit = [\"FEED: 5\", \"100\"]\nservice_open_window = \"FEED:7\"\n";
        let limits = p2ps_limits(&Config::parse("test.toml", text).expect("a configuration"));
        let numbers: Vec<_> =
            limits.service_item_limits.iter().map(|(name, &number)| (name.as_str(), number)).collect();
        assert_eq!(numbers, [("", 100), ("FEED", 5)]);
        assert_eq!(limits.service_open_windows["FEED"], 7);
        for wrong in ["service_item_limit = \"FEED:x\"", "service_open_window = [\"-1\"]"] {
            let fault = Config::parse("test.toml", &format!("[p2ps]\n{wrong}\n")).unwrap_err().to_string();
            assert!(fault.contains("must be numbers"), "{fault}");
        }
    }
}
