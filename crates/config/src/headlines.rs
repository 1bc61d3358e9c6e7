//! Services whose headlines have their permission codes in a field.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::headlines::HeadlineRule;

use super::SourceDistributor;
use super::filters::{parts, words};
use super::patterns::{are_patterns, patterns};

/// The name of headlines where nothing says so.
const USUAL: &str = "N2_*";

/// The rules by service.
pub(super) fn headlines(c: &SourceDistributor) -> BTreeMap<String, Arc<HeadlineRule>> {
    let rule = |entry: &String| {
        // Entries that are none are a fault of the file (`rules`).
        let (service, fid, lock_service) = entry_of(entry)?;
        let names = c.news_name_list.0.iter().map(|entry| parts(entry));
        let own: Vec<&str> =
            names.filter(|(of, _)| of.is_none_or(|of| of == service)).flat_map(|(_, n)| words(n)).collect();
        let names = patterns(if own.is_empty() { vec![USUAL] } else { own });
        Some((service.to_owned(), Arc::new(HeadlineRule { fid, lock_service, names })))
    };
    c.headline_permission_field.0.iter().filter_map(rule).collect()
}

/// `SERVICE:FIELD=NUMBER`.
fn entry_of(entry: &str) -> Option<(&str, i16, u16)> {
    let (service, what) = parts(entry);
    let (fid, lock_service) = what.split_once('=')?;
    let service = service.filter(|service| !service.is_empty())?;
    Some((service, fid.trim().parse().ok()?, lock_service.trim().parse().ok()?))
}

/// Faults of the lists: the key and the end of a sentence that begins with it.
pub(super) fn fault(c: &SourceDistributor) -> Option<(&'static str, &'static str)> {
    let names = |entry: &String| are_patterns(words(parts(entry).1));
    if !c.headline_permission_field.0.iter().all(|entry| entry_of(entry).is_some()) {
        return Some(("headline_permission_field", "must be SERVICE:FIELD=NUMBER, such as NEWS:1=257"));
    }
    (!c.news_name_list.0.iter().all(names)).then_some(("news_name_list", super::patterns::PATTERNS))
}

#[cfg(test)]
mod tests {
    use super::headlines;
    use crate::{Config, Selection, load};

    #[test]
    fn headlines_have_a_field_and_a_service_in_locks_and_names() {
        let text = "[source_distributor]\nheadline_permission_field = [\"NEWS:1=257\", \"OTHER:-5=3\"]\nnews_name_list = [\"NEWS:N2_UBMS, ^NX\"]\n";
        let rules = headlines(&Config::parse("test.toml", text).expect("a configuration").source_distributor);
        let (news, other) = (&rules["NEWS"], &rules["OTHER"]);
        assert_eq!((news.fid, news.lock_service, other.fid, other.lock_service), (1, 257, -5, 3));
        let about = |name: &str| (news.is_about(name.as_bytes()), other.is_about(name.as_bytes()));
        assert_eq!(["N2_UBMS", "N2_X", "NXA"].map(about), [(true, true), (false, true), (true, false)]);
        for wrong in [
            "headline_permission_field = \"NEWS:1\"",
            "headline_permission_field = \"1=257\"",
            "news_name_list = \"^[\"",
        ] {
            assert!(Config::parse("test.toml", &format!("[source_distributor]\n{wrong}\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_rmds_cnf_names_headlines() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        std::fs::write(&cnf, "*NEWS*newsNameList : N2_UBMS, N2_X\n").unwrap();
        let mut config = load(&cnf, &Selection::default()).expect("no fault").config;
        config.source_distributor.headline_permission_field.0.push("NEWS:1=257".to_owned());
        let rules = headlines(&config.source_distributor);
        assert!(rules["NEWS"].is_about(b"N2_X") && !rules["NEWS"].is_about(b"N2_Y"));
    }
}
