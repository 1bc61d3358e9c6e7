//! Services whose headlines have their permission codes in a field.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::headlines::HeadlineRule;

use super::filters::{parts, words};
use super::patterns::{are_patterns, patterns};
use super::value::Entries;
use super::{P2ps, SourceDistributor};

/// The name of headlines where nothing says so.
const USUAL: &str = "N2_*";

/// The rules by service, of a Source Distributor.
pub(super) fn headlines(c: &SourceDistributor) -> BTreeMap<String, Arc<HeadlineRule>> {
    rules(&c.headline_permission_field, &c.news_name_list.0)
}

/// The rules by service, of a P2PS.
pub(super) fn headlines_of_p2ps(c: &P2ps) -> BTreeMap<String, Arc<HeadlineRule>> {
    rules(&c.headline_permission_field, &c.news_service_item_pair_list)
}

fn rules(fields: &Entries, names: &[String]) -> BTreeMap<String, Arc<HeadlineRule>> {
    let rule = |entry: &String| {
        // Entries that are none are a fault of the file (`rules`).
        let (service, fid, lock_service) = entry_of(entry)?;
        let names = names.iter().map(|entry| parts(entry));
        let own: Vec<&str> =
            names.filter(|(of, _)| of.is_none_or(|of| of == service)).flat_map(|(_, n)| words(n)).collect();
        let names = patterns(if own.is_empty() { vec![USUAL] } else { own });
        Some((service.to_owned(), Arc::new(HeadlineRule { fid, lock_service, names })))
    };
    fields.0.iter().filter_map(rule).collect()
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
    let wrong_names =
        || (!c.news_name_list.0.iter().all(names)).then_some(("news_name_list", super::patterns::PATTERNS));
    fault_of_fields(&c.headline_permission_field).or_else(wrong_names)
}

/// The same at a P2PS.
pub(super) fn fault_of_p2ps(c: &P2ps) -> Option<(&'static str, &'static str)> {
    let is_pair = |entry: &String| {
        let (service, name) = parts(entry);
        !service.is_some_and(str::is_empty) && words(name).count() == 1 && are_patterns(words(name))
    };
    let wrong_pairs = || {
        let what = "must be SERVICE:NAME, such as NEWS:N2_UBMS, or a name alone, with * and ? or a regular expression that begins with ^";
        (!c.news_service_item_pair_list.iter().all(is_pair)).then_some(("news_service_item_pair_list", what))
    };
    fault_of_fields(&c.headline_permission_field).or_else(wrong_pairs)
}

fn fault_of_fields(fields: &Entries) -> Option<(&'static str, &'static str)> {
    let is_wrong = !fields.0.iter().all(|entry| entry_of(entry).is_some());
    is_wrong.then_some(("headline_permission_field", "must be SERVICE:FIELD=NUMBER, such as NEWS:1=257"))
}

#[cfg(test)]
mod tests {
    use super::{headlines, headlines_of_p2ps};
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

    #[test]
    fn a_p2ps_has_headlines_by_pairs_of_service_and_item() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        std::fs::write(&cnf, "*ads*newsServiceItemPairList : NEWS:N2_UBMS, OTHER:N2_X\n").unwrap();
        let mut config = load(&cnf, &Selection::default()).expect("no fault").config;
        assert!(headlines_of_p2ps(&config.p2ps).is_empty(), "where the code is, is not said");
        for entry in ["NEWS:1=257", "THIRD:2=3"] {
            config.p2ps.headline_permission_field.0.push(entry.to_owned());
        }
        let rules = headlines_of_p2ps(&config.p2ps);
        let about = |service: &str, name: &str| rules[service].is_about(name.as_bytes());
        assert_eq!((about("NEWS", "N2_UBMS"), about("NEWS", "N2_X"), about("THIRD", "N2_Y")), (true, false, true));
        for wrong in [
            "news_service_item_pair_list = [\"NEWS:\"]",
            "news_service_item_pair_list = [\"NEWS:^[\"]",
            "headline_permission_field = \"NEWS\"",
        ] {
            assert!(Config::parse("test.toml", &format!("[p2ps]\n{wrong}\n")).is_err(), "{wrong}");
        }
    }
}
