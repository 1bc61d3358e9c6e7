//! Qualities of services whose providers state none: four lists, as RMDS has four parameters of a service.

use std::collections::{BTreeMap, BTreeSet};

use rwf::{Qos, Rate, Timeliness};

use super::SourceDistributor;
use super::filters::parts;
use super::value::Entries;

/// The quality by service, out of the lists; that of the empty name is of all others.
pub(super) fn service_qos(c: &SourceDistributor) -> BTreeMap<String, Qos> {
    let lists = [&c.qos_timeliness, &c.qos_time_info, &c.qos_rate, &c.qos_rate_info];
    let names: BTreeSet<&str> =
        lists.iter().flat_map(|list| &list.0).map(|entry| parts(entry).0.unwrap_or_default()).collect();
    let qos = |name: &str| {
        let timeliness = said(&c.qos_timeliness, name).and_then(timeliness).unwrap_or(Timeliness::REALTIME);
        let rate = said(&c.qos_rate, name).and_then(rate).unwrap_or(Rate::TICK_BY_TICK);
        let figure = |list, has: bool| said(list, name).filter(|_| has).and_then(|word| word.parse().ok()).unwrap_or(0);
        Qos {
            time_info: figure(&c.qos_time_info, timeliness == Timeliness::DELAYED),
            rate_info: figure(&c.qos_rate_info, rate == Rate::TIME_CONFLATED),
            ..Qos::new(timeliness, rate)
        }
    };
    names.into_iter().map(|name| (name.to_owned(), qos(name))).collect()
}

/// Faults of the lists: the key and the end of a sentence that begins with it.
pub(super) fn fault(c: &SourceDistributor) -> Option<(&'static str, &'static str)> {
    const TIMELINESS: &str = "must be REALTIME, DELAYED or DELAYED_UNKNOWN, or SERVICE: and one of them";
    const RATE: &str = "must be TICK_BY_TICK, TIME_CONFLATED or JIT_CONFLATED, or SERVICE: and one of them";
    const NUMBER: &str = "must be a number up to 65535, or SERVICE:NUMBER";
    let all = |list: &Entries, good: &dyn Fn(&str) -> bool| list.0.iter().all(|entry| good(parts(entry).1.trim()));
    let number = |word: &str| word.parse::<u16>().is_ok();
    [
        ("qos_timeliness", all(&c.qos_timeliness, &|word| timeliness(word).is_some()), TIMELINESS),
        ("qos_time_info", all(&c.qos_time_info, &number), NUMBER),
        ("qos_rate", all(&c.qos_rate, &|word| rate(word).is_some()), RATE),
        ("qos_rate_info", all(&c.qos_rate_info, &number), NUMBER),
    ]
    .into_iter()
    .find_map(|(key, good, what)| (!good).then_some((key, what)))
}

/// A list's entry for a service, or else for all.
fn said<'a>(list: &'a Entries, service: &str) -> Option<&'a str> {
    let of = |name: &str| list.0.iter().map(|entry| parts(entry)).find(|(of, _)| of.unwrap_or_default() == name);
    of(service).or_else(|| of("")).map(|(_, word)| word.trim())
}

fn timeliness(word: &str) -> Option<Timeliness> {
    Timeliness::from_name(&word.to_ascii_uppercase()).filter(|&known| known != Timeliness::UNSPECIFIED)
}

fn rate(word: &str) -> Option<Rate> {
    Rate::from_name(&word.to_ascii_uppercase()).filter(|&known| known != Rate::UNSPECIFIED)
}

#[cfg(test)]
mod tests {
    use super::service_qos;
    use crate::{Config, Selection, load};
    use rwf::{Qos, Rate, Timeliness};

    #[test]
    fn an_rmds_cnf_has_them_by_service() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        let text = "*FEED*qosTimeliness : DELAYED\n*FEED*qosTimeInfo : 900\n*ADH*SLOW*qosRate : TIME_CONFLATED\n*FEED*blockedServerList : a, b\n*ADH*feed.route*serverId : a\n*ADH*feed.route*hostList : host\n*ADH*feed.route*maxCache : 7\n*ADH*feed.route*serverCost : 3\n*FEED*itemPriorityFile : /dev/null\n";
        std::fs::write(&cnf, text).unwrap();
        let config = load(&cnf, &Selection::default()).expect("no fault").config;
        let found = service_qos(&config.source_distributor);
        assert_eq!(found["FEED"], Qos { time_info: 900, ..Qos::new(Timeliness::DELAYED, Rate::TICK_BY_TICK) });
        assert_eq!(found["SLOW"], Qos::new(Timeliness::REALTIME, Rate::TIME_CONFLATED));
        let feed = &config.routes[0];
        assert_eq!((feed.server_id.as_str(), feed.max_cache, feed.server_cost), ("a", 7, 3));
        let route = &crate::distributor_config(&config).routes[0];
        assert_eq!(route.blocked_services, ["FEED"]);
        std::fs::write(&cnf, "*FEED*qosRate : quick\n").unwrap();
        assert!(load(&cnf, &Selection::default()).is_err());
    }

    #[test]
    fn pairs_are_of_routes_that_are_there() {
        let with = |routes: &str| {
            let text =
                format!("[source_distributor]\nprovider_choice = \"hot\"\nactive_standby_pairs = [\"a|b\"]\n{routes}");
            Config::parse("test.toml", &text)
        };
        let route = |id: &str| format!("[[route]]\nhost_list = [\"h:1\"]\nserver_id = \"{id}\"\n");
        assert!(with(&[route("a"), route("b")].concat()).is_ok());
        assert!(with("").is_ok(), "a P2PS has the same file without the routes");
        let fault = with(&[route("a"), route("c")].concat()).unwrap_err().to_string();
        assert!(fault.contains("active_standby_pairs"), "{fault}");
    }

    #[test]
    fn four_lists_make_one_quality_a_service() {
        let text = "[source_distributor]\nqos_timeliness = [\"FEED:delayed\", \"DELAYED_UNKNOWN\"]\nqos_time_info = \"FEED:900\"\nqos_rate = \"SLOW:TIME_CONFLATED\"\nqos_rate_info = \"500\"\n";
        let found = service_qos(&Config::parse("test.toml", text).expect("a configuration").source_distributor);
        let delayed = Qos { time_info: 900, ..Qos::new(Timeliness::DELAYED, Rate::TICK_BY_TICK) };
        assert_eq!(found["FEED"], delayed);
        let slow = Qos { rate_info: 500, ..Qos::new(Timeliness::DELAYED_UNKNOWN, Rate::TIME_CONFLATED) };
        assert_eq!(found["SLOW"], slow);
        assert_eq!(found[""], Qos::new(Timeliness::DELAYED_UNKNOWN, Rate::TICK_BY_TICK));
        assert!(service_qos(&Config::default().source_distributor).is_empty());
        for wrong in ["qos_rate = \"fast\"", "qos_time_info = \"FEED:x\"", "qos_timeliness = \"FEED:UNSPECIFIED\""] {
            assert!(Config::parse("test.toml", &format!("[source_distributor]\n{wrong}\n")).is_err(), "{wrong}");
        }
    }
}
