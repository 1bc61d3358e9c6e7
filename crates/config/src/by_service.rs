//! Lists of numbers or of yes and no by service: `SERVICE:VALUE`, or `VALUE` for all others.

use std::collections::{BTreeMap, BTreeSet};

use super::filters::{parts, words};
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

/// A rule on a list of lists of numbers.
pub(super) const SETS: &str =
    "must be numbers from 0 to 65535, SERVICE:NUMBERS or NUMBERS for all other services, such as FEED:80,81";

/// As [`numbers`], of lists of them; those of one service are together.
pub(super) fn sets(list: &Entries) -> Option<BTreeMap<String, BTreeSet<u16>>> {
    let mut found: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for entry in &list.0 {
        let (service, text) = parts(entry);
        let numbers: Option<Vec<u16>> = words(text).map(|word| word.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| !numbers.is_empty())?;
        found.entry(service.unwrap_or_default().to_owned()).or_default().extend(numbers);
    }
    Some(found)
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
    #[test]
    fn contributions_are_bounded_by_an_rmds_cnf_too() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        let text = "*FEED*contribFieldList : 22, 25\n*FEED*contribMaxUpdateRate : 5000\n*FEED*contribMinUpdateRate : 500\n\
                    *FEED*contribPositiveTemplateIdList : 80,81\n*contribNegativeTemplateIdList : 90\n*FEED*contribInsertRTL : True\n*contribInsertRTL : False\n";
        std::fs::write(&cnf, text).unwrap();
        let loaded = load(&cnf, &Selection::default()).expect("no fault");
        assert!(loaded.notes.iter().all(|note| !note.text.contains("no effect")), "{:?}", loaded.notes);
        let rules = distributor_config(&loaded.config).contributions;
        assert!(rules.fields["FEED"].has(25) && !rules.fields["FEED"].has(30));
        assert_eq!((rules.rates["FEED"], rules.least_rates["FEED"]), (5_000, 500));
        assert_eq!((&rules.templates["FEED"], &rules.not_templates[""]), (&[80, 81].into(), &[90].into()));
        assert_eq!(rules.levels, [("FEED".to_owned(), true), (String::new(), false)].into());
        for wrong in ["contrib_positive_template_id_list = \"FEED:\"", "contrib_negative_template_id_list = \"70000\""]
        {
            let fault =
                Config::parse("test.toml", &format!("[source_distributor]\n{wrong}\n")).unwrap_err().to_string();
            assert!(fault.contains("must be numbers from 0 to 65535"), "{fault}");
        }
    }
}
