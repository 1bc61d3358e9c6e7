//! Values of one service: a table `[service.NAME]`, over what other sections say for all.

use std::collections::BTreeMap;

use hub::{distributor, p2ps};

use super::patterns::{PATTERNS, are_patterns};
use super::section::section;
use super::value::{CacheLocation, Parameter, Raw};
use super::{Config, DictionaryFiles, Route};

const SECOND: u64 = 1_000_000_000;

section! {
    /// What one service has for itself, a table [service.NAME] for each (docs/operating/configuration.md). What is not here is for it as for all.
    Service = "service", "SERVICE";
    age_unwatched_item_time_s: Option<u32> = None, "ageUnwatchedItemTime" in "SERVICE", "As source_distributor.age_unwatched_item_time_s, seconds.";
    request_timeout_s: Option<u32> = None, "retryTimer" in "SERVICE", "As source_distributor.request_timeout_s, seconds.";
    normal_retry_time_s: Option<u32> = None, "normalRetryTime" in "SERVICE", "As source_distributor.normal_retry_time_s, seconds.";
    retry_limit: Option<u32> = None, "retryLimit" in "SERVICE", "As source_distributor.retry_limit.";
    recover_items_on_close: Option<bool> = None, "recoverItemsOnClose" in "SERVICE", "As source_distributor.recover_items_on_close.";
    non_recoverable_polling: Option<bool> = None, "nonRecoverablePolling" in "SERVICE", "As source_distributor.non_recoverable_polling.";
    max_load_level: Option<u32> = None, "maxLoadLevel" in "SERVICE", "As source_distributor.max_load_level.";
    include_unwatched_items_in_load: Option<bool> = None, "includeUnwatchedItemsInLoad" in "SERVICE", "As source_distributor.include_unwatched_items_in_load.";
    recognition_time_s: Option<u32> = None, "recognitionTime" in "SERVICE", "As source_distributor.recognition_time_s, seconds.";
    forward_item_priority_to_src_app: Option<bool> = None, "forwardItemPriorityToSrcApp" in "SERVICE", "As source_distributor.forward_item_priority_to_src_app.";
    stale_recovery_retry_time_s: Option<u32> = None, "staleRecoveryRetryTime" in "SERVICE", "As source_distributor.stale_recovery_retry_time_s, seconds.";
    service_restart_time_s: Option<u32> = None, "serviceRestartTime" in "SERVICE", "As source_distributor.service_restart_time_s, seconds.";
    failback_s: Option<u32> = None, "decisionTime" in "SERVICE*HSAutoFailback", "As source_distributor.failback_s, seconds.";
    auto_failback: Option<bool> = None, "enable" in "SERVICE*HSAutoFailback", "As source_distributor.auto_failback.";
    preemption_retry_s: Option<u32> = None, "preemptionRetryTime" in "SERVICE", "As source_distributor.preemption_retry_s, seconds.";
    max_pending_out_insert: Option<u32> = None, "maxPendingOutInsert" in "SERVICE", "Posts to this service that may await the acks of its providers, within source_distributor.max_pending_out_insert of all; a further one gets a NAK.";
    cache_location: Option<CacheLocation> = None, "cacheLocation" in "SERVICE", "As source_distributor.cache_location, whatever source_distributor.cached_services says.";
    non_caching_item_list: Option<Vec<String>> = None, "nonCachingItemList" in "SERVICE", "As source_distributor.non_caching_item_list, in its place.";
    persistent_restore_as_stale: Option<bool> = None, "persistentRestoreAsStale" in "SERVICE", "As source_distributor.persistent_restore_as_stale.";
    convert_mfeed_data_to_rwf: Option<bool> = None, "convertMfeedDataToRWF" in "SERVICE", "As source_distributor.convert_mfeed_data_to_rwf, whatever a route says.";
    connect_retry_interval_s: Option<u32> = None, "connectRetryInterval" in "SERVICE", "First pause before a lost route whose service_list has this service is dialled again, seconds, in place of source_distributor.recovery_interval_ms; the shortest of its services counts. Doubles up to ten times as much.";
    post_timeout_s: Option<u32> = None, "insertTimeout" in "SERVICE", "As p2ps.post_timeout_s, seconds.";
    insert_flush_interval_ms: Option<u32> = None, "insertFlushInterval" in "SERVICE", "As source_distributor.insert_flush_interval_ms, milliseconds.";
    log_non_recoverable_opens: Option<bool> = None, "logNonRecoverableOpens" in "SERVICE", "As p2ps.log_non_recoverable_opens.";
    discourage_requests_on_outage: Option<bool> = None, "discourageRequestsOnOutage" in "SERVICE", "As p2ps.discourage_requests_on_outage.";
    expanded_enum_fields: Option<bool> = None, "expandedEnumFields" in "SERVICE", "As p2ps.expanded_enum_fields.";
    seq_num_follows_marketfeed_rules: Option<bool> = None, "seqNumFollowsMarketfeedRules" in "SERVICE", "As p2ps.seq_num_follows_marketfeed_rules.";
    convert_to_idn_style: Option<bool> = None, "convertToIDNStyle" in "SERVICE", "As p2ps.convert_to_idn_style.";
    use_template_number: Option<bool> = None, "useTemplateNumber" in "SERVICE", "As p2ps.use_template_number.";
    use_point_to_point_data: Option<bool> = None, "usePointToPointData" in "SERVICE", "As hub.use_point_to_point_data.";
    field_file: Option<String> = None, "fieldDictionary" in "SERVICE", "RDMFieldDictionary file of this service. Servers have one dictionary for all clients: it gets what this file has beyond dictionary.field_file, and says in the log what is another field in both.";
    enum_file: Option<String> = None, "enumFile" in "SERVICE", "enumtype.def file of this service, likewise.";
}

/// A value that may be left to what is said for all: the empty text.
impl<T: Parameter> Parameter for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        if *raw == Raw::Text("") { Ok(None) } else { T::read(raw).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "\"\"".to_owned(), T::show)
    }
}

impl Service {
    /// The dictionary files of this service; empty names where it has none of its own.
    pub(super) fn dictionary(&self) -> DictionaryFiles {
        let name = |file: &Option<String>| file.clone().unwrap_or_default();
        DictionaryFiles { field_file: name(&self.field_file), enum_file: name(&self.enum_file) }
    }

    /// The key that is at fault, and what it must be.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str)> {
        let names = self.non_caching_item_list.iter().flatten().map(String::as_str);
        let rules = [
            (self.retry_limit.is_none_or(|limit| limit <= 255), "retry_limit", "must be at most 255"),
            (are_patterns(names), "non_caching_item_list", PATTERNS),
        ];
        let broken = rules.into_iter().find(|&(holds, ..)| !holds);
        broken.map(|(_, key, what)| (key, what))
    }
}

/// Declares what a reload applies of a service, as that of other sections.
macro_rules! at_once {
    ($($key:ident)+) => {
        /// Keys of which another value counts with a reload.
        pub(super) const AT_ONCE: &[&str] = &[$(stringify!($key)),+];

        impl Service {
            fn take_at_once(&mut self, from: &Self) {
                $(self.$key.clone_from(&from.$key);)+
            }
        }
    };
}

at_once! {
    age_unwatched_item_time_s request_timeout_s normal_retry_time_s retry_limit recover_items_on_close forward_item_priority_to_src_app stale_recovery_retry_time_s
    preemption_retry_s max_pending_out_insert post_timeout_s insert_flush_interval_ms log_non_recoverable_opens non_recoverable_polling max_load_level include_unwatched_items_in_load recognition_time_s service_restart_time_s failback_s auto_failback
}

/// Takes over what counts with a reload, also of services of which nothing was said, or nothing is said any more.
pub(super) fn take_at_once(from: &BTreeMap<String, Service>, to: &mut BTreeMap<String, Service>) {
    for name in from.keys() {
        to.entry(name.clone()).or_default();
    }
    let nothing = Service::default();
    for (name, service) in to.iter_mut() {
        service.take_at_once(from.get(name).unwrap_or(&nothing));
    }
    to.retain(|_, service| *service != nothing);
}

fn seconds(of: Option<u32>) -> Option<u64> {
    of.map(|seconds| u64::from(seconds) * SECOND)
}

/// Settings of single services at a Source Distributor.
pub(super) fn of_distributor(config: &Config) -> BTreeMap<String, distributor::ServiceConfig> {
    let of = |own: &Service| distributor::ServiceConfig {
        age_unwatched: seconds(own.age_unwatched_item_time_s),
        failback: failback(config, own),
        restart: seconds(own.service_restart_time_s),
        request_timeout: seconds(own.request_timeout_s),
        retry_max_interval: seconds(own.normal_retry_time_s.map(|seconds| seconds.max(1))),
        retry_limit: own.retry_limit,
        recover_on_close: own.recover_items_on_close,
        poll_refused: own.non_recoverable_polling,
        max_load: own.max_load_level,
        counts_unwatched: own.include_unwatched_items_in_load,
        recognition: seconds(own.recognition_time_s),
        forward_priority: own.forward_item_priority_to_src_app,
        stale_recovery_retry: seconds(own.stale_recovery_retry_time_s),
        post_timeout: seconds(own.post_timeout_s),
        post_flush: own.insert_flush_interval_ms.map(|milliseconds| u64::from(milliseconds) * 1_000_000),
        preemption_retry: seconds(own.preemption_retry_s),
        // Within one process nothing is between the two halves.
        point_to_point: None,
        max_pending_posts: own.max_pending_out_insert.map(|posts| posts as usize),
    };
    config.services.iter().map(|(name, own)| (name.clone(), of(own))).collect()
}

/// When items of a service go back to its first provider, if it says something of that for itself.
fn failback(config: &Config, own: &Service) -> Option<u64> {
    own.auto_failback.or(own.failback_s.map(|_| config.source_distributor.auto_failback)).map(|goes_back| {
        let time = own.failback_s.unwrap_or(config.source_distributor.failback_s);
        if goes_back { u64::from(time) * SECOND } else { 0 }
    })
}

/// Settings of single services at a P2PS.
pub(super) fn of_p2ps(config: &Config) -> BTreeMap<String, p2ps::ServiceConfig> {
    let of = |own: &Service| p2ps::ServiceConfig {
        post_timeout: seconds(own.post_timeout_s),
        recovery_delay_max: seconds(own.normal_retry_time_s.map(|seconds| seconds.max(1))),
        discourage_on_outage: own.discourage_requests_on_outage,
        refused_opens: own.log_non_recoverable_opens,
    };
    config.services.iter().map(|(name, own)| (name.clone(), of(own))).collect()
}

/// The first pause before a route is dialled again, milliseconds.
pub fn recovery_interval_ms(config: &Config, route: &Route) -> u32 {
    let of_service = |name: &String| config.services.get(name).and_then(|own| own.connect_retry_interval_s);
    let of_services =
        route.service_list.iter().filter_map(of_service).min().map(|seconds| seconds.saturating_mul(1_000));
    route.recovery_interval_ms.or(of_services).unwrap_or(config.source_distributor.recovery_interval_ms).max(1)
}

#[cfg(test)]
mod tests {
    use super::SECOND;
    use crate::{Config, distributor_config, p2ps_limits};

    fn parse(text: &str) -> Config {
        Config::parse("test.toml", text).expect("a configuration")
    }

    #[test]
    fn a_service_has_what_it_says_and_else_what_is_said_for_all() {
        let config = parse(
            "[source_distributor]\nrequest_timeout_s = 20\n[p2ps]\npost_timeout_s = 9\n[service.FEED]\nretry_limit = 3\npost_timeout_s = 4\ndiscourage_requests_on_outage = true\n[service.\"A B\"]\ncache_location = \"ssl\"\n",
        );
        let sd = distributor_config(&config);
        let feed = &sd.services["FEED"];
        assert_eq!((feed.retry_limit, feed.post_timeout, feed.request_timeout), (Some(3), Some(4 * SECOND), None));
        assert_eq!((sd.request_timeout, sd.post_timeout), (20 * SECOND, 9 * SECOND));
        let p2ps = p2ps_limits(&config);
        assert_eq!(p2ps.services["FEED"].discourage_on_outage, Some(true));
        let cached = |service| sd.cache.covers(service, rwf::msg::Domain::MARKET_PRICE, b"X");
        assert_eq!(["A B", "FEED", "OTHER"].map(cached), [true, false, false]);
        let printed = parse(&config.changes());
        assert_eq!(printed, config, "{}", config.changes());
        assert_eq!(parse(&config.document()), config);
    }

    #[test]
    fn a_route_is_dialled_again_as_it_or_its_services_say() {
        let text = "[source_distributor]\nrecovery_interval_ms = 700\n[service.A]\nconnect_retry_interval_s = 9\n[service.B]\nconnect_retry_interval_s = 3\n[[route]]\nhost_list = [\"h:1\"]\nservice_list = [\"A\", \"B\"]\n[[route]]\nhost_list = [\"h:2\"]\nservice_list = [\"A\"]\nrecovery_interval_ms = 40\n[[route]]\nhost_list = [\"h:3\"]\n";
        let config = parse(text);
        let pauses = config.routes.iter().map(|route| super::recovery_interval_ms(&config, route));
        assert_eq!(pauses.collect::<Vec<_>>(), [3_000, 40, 700]);
    }

    #[test]
    fn fail_back_and_restart_are_said_by_service_in_an_rmds_cnf_too() {
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        let text = "*HSAutoFailback*decisionTime : 60\n*FEED*HSAutoFailback*decisionTime : 20\n*OLD*HSAutoFailback*enable : False\n\
                    *adh*NEW*HSAutoFailback*enable : True\n*serviceRestartTime : 600\n*FEED*serviceRestartTime : 30\n\
                    *FEED*retryLimit : 2\n";
        std::fs::write(&cnf, text).unwrap();
        let loaded = crate::load(&cnf, &crate::Selection::default()).expect("no fault");
        assert!(loaded.notes.iter().all(|note| !note.text.contains("no effect")), "{:?}", loaded.notes);
        let sd = distributor_config(&loaded.config);
        assert_eq!((sd.failback, sd.restart), (60 * SECOND, 600 * SECOND));
        let of = |name: &str| (sd.services[name].failback, sd.services[name].restart);
        assert_eq!(of("FEED"), (Some(20 * SECOND), Some(30 * SECOND)));
        assert_eq!((of("OLD"), of("NEW")), ((Some(0), None), (Some(60 * SECOND), None)));
        assert_eq!(sd.services.len(), 3, "no level is a service: {:?}", sd.services.keys());
        std::fs::write(&cnf, "*hotStandby*enable : False\n").unwrap();
        let fault = crate::load(&cnf, &crate::Selection::default()).unwrap_err().to_string();
        assert!(fault.contains("*SERVICE*HSAutoFailback*enable"), "{fault}");
    }

    #[test]
    fn rules_of_all_are_those_of_one() {
        for (line, wrong) in [
            ("retry_limit = 256", "must be at most 255"),
            ("non_caching_item_list = [\"^(\"]", "must be names"),
            ("retry_limits = 2", "the nearest is retry_limit"),
            ("cache_location = \"here\"", "expected"),
            ("maxUpdateRate = 1", "there is no key"),
        ] {
            let fault = Config::parse("t.toml", &format!("[service.FEED]\n{line}\n")).unwrap_err().to_string();
            assert!(fault.contains("t.toml:2:") && fault.contains(wrong), "{fault}");
        }
        let fault = Config::parse("t.toml", "[service]\nretry_limit = 2\n").unwrap_err().to_string();
        assert!(fault.contains("[service.NAME]"), "{fault}");
    }
}
