//! Lists of numbers by service: `SERVICE:NUMBER`, or `NUMBER` for all others.

use std::collections::BTreeMap;

use super::filters::parts;
use super::value::Entries;

/// What a rule says of such a list.
pub(super) const FORM: &str = "must be numbers, SERVICE:NUMBER or NUMBER for all other services";

/// The numbers by service; that of the empty name is of all others. `None` where an entry is no number.
pub(super) fn service_numbers(list: &Entries) -> Option<BTreeMap<String, u32>> {
    let entry = |entry: &String| {
        let (service, number) = parts(entry);
        Some((service.unwrap_or_default().to_owned(), number.trim().parse().ok()?))
    };
    list.0.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, p2ps_limits};

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
