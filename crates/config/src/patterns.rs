//! Lists of names with patterns: `*` and `?`, or a regular expression that begins with `^`.

use hub::cache::rules::NamePattern;

/// A rule on such a list.
pub(super) const PATTERNS: &str =
    "must be names, with * and ?, or regular expressions that begin with ^, each of at most 1000 bytes";

/// Whether each entry is a pattern.
pub(super) fn are_patterns<'a>(list: impl IntoIterator<Item = &'a str>) -> bool {
    list.into_iter().all(|text| NamePattern::parse(text).is_ok())
}

/// The patterns of a list. Entries that are none are a fault of the file (`rules`).
pub(super) fn patterns<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<NamePattern> {
    list.into_iter().filter_map(|text| NamePattern::parse(text).ok()).collect()
}

/// RMDS's regular expression, which fits a name anywhere, as a pattern.
pub(super) fn of_rmds(expression: &str) -> String {
    if expression.starts_with('^') { expression.to_owned() } else { format!("^.*(?:{expression})") }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Selection, distributor_config, load};

    #[test]
    fn lists_of_names_take_regular_expressions() {
        let text = "[source_distributor]\nlocked_item_list = [\"^[A-C]{2}$\", \"X*\"]\nnon_caching_item_list = [\"^Z\"]\n[[route]]\nhost_list = [\"h:1\"]\nserver_partition_list = [\"^[A-N]\"]\nserver_partition_negation_list = [\"^B\"]\n";
        let config = distributor_config(&Config::parse("test.toml", text).expect("a configuration"));
        let locked = |name: &str| config.locked_items.iter().any(|pattern| pattern.matches(name));
        assert_eq!(["AB", "ABC", "XY"].map(locked), [true, false, true]);
        let route = &config.routes[0];
        assert_eq!((route.partitions.len(), route.not_partitions.len()), (1, 1));
        for (section, wrong) in [
            ("[source_distributor]", "locked_item_list"),
            ("[source_distributor]", "non_caching_item_list"),
            ("[conflation]", "disable_aggregation_item_list"),
            ("[source_conflation]", "disable_aggregation_item_list"),
            ("[[route]]\nhost_list = [\"h:1\"]", "server_partition_list"),
            ("[[route]]\nhost_list = [\"h:1\"]", "server_partition_negation_list"),
        ] {
            let fault =
                Config::parse("test.toml", &format!("{section}\n{wrong} = [\"^[A\"]\n")).unwrap_err().to_string();
            assert!(fault.contains(wrong) && fault.contains("regular expressions"), "{fault}");
        }
    }

    #[test]
    fn the_lists_of_an_rmds_cnf_are_regular_expressions() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        let text = "*ADH*feed.route*hostList : host\n*ADH*feed.route*serverPartitionList : ^[A-N], \\.X$\n*ADH*feed.route*serverPartitionNegationList : ^B\n";
        std::fs::write(&cnf, text).unwrap();
        let config = distributor_config(&load(&cnf, &Selection::default()).expect("no fault").config);
        let has = |name: &str| config.routes[0].partitions.iter().any(|pattern| pattern.matches(name));
        assert_eq!(["IBM.N", "TRI.N", "TRI.X", "TRI.XY"].map(has), [true, false, true, false]);
        assert!(config.routes[0].not_partitions[0].matches("BP.L"));
    }
}
