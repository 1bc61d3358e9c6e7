//! Parameters that may change while a process runs: the table, and what differs between two configurations.

use std::collections::BTreeSet;

use super::{AnySection as _, Config, Route, Section as _, Service, service};

/// When a changed value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// With the reload.
    Reload,
    /// When the process starts again.
    Restart,
}

impl Applies {
    /// As it is shown to people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Restart => "restart",
        }
    }
}

/// Declares what a reload applies: of it come the look-up and the taking over, so that neither knows what the other does not.
macro_rules! at_reload {
    ($($section:ident: $($key:ident)+;)*) => {
        const AT_RELOAD: &[(&str, &[&str])] = &[$((stringify!($section), &[$(stringify!($key)),+])),*];

        fn take_over(from: &Config, to: &mut Config) {
            $($(to.$section.$key.clone_from(&from.$section.$key);)+)*
            to.routes.clone_from(&from.routes);
            service::take_at_once(&from.services, &mut to.services);
        }
    };
}

at_reload! {
    p2ps: max_mounts log_mount_requests log_item_error log_non_recoverable_opens log_discovery_events max_mounts_per_user item_limit aggregate_item_limit total_item_limit service_item_limit service_open_window limit_upper_percent limit_lower_percent
        open_queue_burdened open_queue_overloaded open_queue_hysteresis blocked_items_file consumer_age_unwatched_item_time_s max_unwatched_items minimum_open_window open_window_for_poll_requests disconnect_src_down disconnect_single_src_down disconnect_service_list dismount_on_outage disconnect_after_s open_rate max_incoming_bytes_per_second max_incoming_messages_per_second guaranteed_output_buffers
        max_output_buffers pool_size output_threshold_breach output_threshold_ok post_timeout_s drain_time_s redirect_text
        source_distributor_order source_distributor_failback_s source_distributor_pairs source_distributor_sequence_numbers connection_list enable_connect_config connection_order connection_standby_servers load_factor_interval_s scaling_factor;
    source_distributor: nip_max_mounts nip_max_incoming_bytes_per_second nip_max_incoming_messages_per_second provider_choice provides_sequence_numbers takeover_on_suspect failback_s auto_failback service_restart_time_s request_timeout_s retry_limit recover_items_on_close non_recoverable_polling max_load_level include_unwatched_items_in_load recognition_time_s forward_item_priority_to_src_app insert_flush_interval_ms stale_recovery_retry_time_s age_unwatched_item_time_s initial_open_limit item_priority_file;
    http: users;
    log: level format file file_mb files standard_error syslog;
}

/// When a changed value of a parameter counts. What a route says counts with a reload: routes that are the same before and after keep
/// their sessions, others are ended, and new ones dialled.
pub fn applies(section: &str, key: &str) -> Applies {
    let named = AT_RELOAD.iter().any(|(name, keys)| *name == section && keys.contains(&key));
    let of_service = section == Service::NAME && service::AT_ONCE.contains(&key);
    if named || of_service || section == Route::NAME { Applies::Reload } else { Applies::Restart }
}

/// A parameter with another value than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// In words: the parameter, its old and its new value; of passwords nothing but the parameter.
    pub what: String,
    /// When the new value counts.
    pub applies: Applies,
}

/// The difference of two configurations.
pub fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let mut found = Vec::new();
    for (before, after) in old.sections().into_iter().zip(new.sections()) {
        for (index, info) in before.infos().into_iter().enumerate() {
            let (from, to) = (before.show(index), after.show(index));
            if from == to {
                continue;
            }
            let name = format!("{}.{}", before.name(), info.key);
            let what = if info.key == "users" { name } else { format!("{name} = {to} (was {from})") };
            let mut when = applies(before.name(), info.key);
            if info.key == "users" && opens_or_closes(old, new) {
                when = Applies::Restart;
            }
            found.push(Change { what, applies: when });
        }
    }
    let names = old.feeds.keys().chain(new.feeds.keys()).collect::<BTreeSet<_>>();
    found.extend(
        names
            .into_iter()
            .filter(|name| old.feeds.get(*name) != new.feeds.get(*name))
            .map(|name| Change { what: format!("feed.{name} is another one"), applies: Applies::Restart }),
    );
    let names = old.replays.keys().chain(new.replays.keys()).collect::<BTreeSet<_>>();
    found.extend(
        names
            .into_iter()
            .filter(|name| old.replays.get(*name) != new.replays.get(*name))
            .map(|name| Change { what: format!("replay.{name} is another one"), applies: Applies::Restart }),
    );
    let names = old.delays.keys().chain(new.delays.keys()).collect::<BTreeSet<_>>();
    found.extend(
        names
            .into_iter()
            .filter(|name| old.delays.get(*name) != new.delays.get(*name))
            .map(|name| Change { what: format!("delay.{name} is another one"), applies: Applies::Restart }),
    );
    found.extend(of_services(old, new));
    let told = |route: &Route| format!("route to {}", route.host_list.join(", "));
    let (gone, come) = routes(old, new);
    found.extend(gone.iter().map(|r| Change { what: format!("{} is ended", told(r)), applies: Applies::Reload }));
    found.extend(come.iter().map(|r| Change { what: format!("{} is dialled", told(r)), applies: Applies::Reload }));
    found
}

/// Differences between the values of single services.
fn of_services(old: &Config, new: &Config) -> Vec<Change> {
    let names = old.services.keys().chain(new.services.keys()).collect::<BTreeSet<_>>();
    let (nothing, mut found) = (Service::default(), Vec::new());
    for name in names {
        let [before, after] = [old, new].map(|config| config.services.get(name).unwrap_or(&nothing));
        for (index, info) in before.infos().into_iter().enumerate() {
            let (from, to) = (before.show(index), after.show(index));
            if from != to {
                let what = format!("service.{name}.{} = {to} (was {from})", info.key);
                found.push(Change { what, applies: applies(Service::NAME, info.key) });
            }
        }
    }
    found
}

/// Whether HTTP has users at all is a matter of the start, as its interface is: a reload opens it to nobody.
fn opens_or_closes(old: &Config, new: &Config) -> bool {
    old.http.users.is_empty() != new.http.users.is_empty()
}

/// The enabled routes that are in the old configuration alone, and those that are in the new one alone.
pub fn routes(old: &Config, new: &Config) -> (Vec<Route>, Vec<Route>) {
    let beside = |these: &Config, others: &Config| {
        let mut left: Vec<&Route> = others.dialled_routes().collect();
        let is_new = |route: &&Route| match left.iter().position(|other| other == route) {
            Some(at) => {
                left.remove(at);
                false
            }
            None => true,
        };
        these.dialled_routes().filter(is_new).cloned().collect()
    };
    (beside(old, new), beside(new, old))
}

impl Config {
    /// The configuration with what a reload takes over from another.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> Self {
        let mut next = self.clone();
        take_over(new, &mut next);
        if opens_or_closes(self, new) {
            next.http.users.clone_from(&self.http.users);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse("test.toml", text).expect("a configuration")
    }

    #[test]
    fn a_reload_takes_over_what_the_table_names_and_nothing_else() {
        let old = parse("[p2ps]\nrssl_port = 1\nmax_mounts = 5\n[[route]]\nhost_list = [\"a:1\"]\n");
        let new = parse(
            "[p2ps]\nrssl_port = 2\nmax_mounts = 6\n[[route]]\nhost_list = [\"b:1\"]\n[[route]]\nhost_list = [\"a:1\"]\n",
        );
        let next = old.reloaded(&new);
        assert_eq!((next.p2ps.rssl_port, next.p2ps.max_mounts), (1, 6));
        let told: Vec<(String, Applies)> = changes(&old, &new).into_iter().map(|c| (c.what, c.applies)).collect();
        assert_eq!(
            told,
            [
                ("p2ps.rssl_port = 2 (was 1)".to_owned(), Applies::Restart),
                ("p2ps.max_mounts = 6 (was 5)".to_owned(), Applies::Reload),
                ("route to b:1 is dialled".to_owned(), Applies::Reload),
            ]
        );
        let fed = parse("[feed.a]\nsource = \"a.pcap\"\n");
        assert_eq!(changes(&Config::default(), &fed)[0].what, "feed.a is another one");
        assert_eq!(Config::default().reloaded(&fed), Config::default());
        let played = parse("[replay.a]\nfolders = [\"a\"]\n");
        assert_eq!(changes(&Config::default(), &played)[0].what, "replay.a is another one");
        let said = parse("[service.FEED]\nretry_limit = 4\ncache_location = \"ssl\"\n");
        let told: Vec<_> = changes(&Config::default(), &said).into_iter().map(|c| (c.what, c.applies)).collect();
        let limit = "service.FEED.retry_limit = 4 (was \"\")".to_owned();
        let cache = "service.FEED.cache_location = \"ssl\" (was \"\")".to_owned();
        assert_eq!(told, [(limit, Applies::Reload), (cache, Applies::Restart)]);
        let taken = Config::default().reloaded(&said);
        assert_eq!((taken.services["FEED"].retry_limit, taken.services["FEED"].cache_location), (Some(4), None));
        assert!(said.reloaded(&Config::default()).services["FEED"].retry_limit.is_none(), "it is said no more");
        assert_eq!(changes(&next, &new).len(), 1, "what needs a restart is said each time");
    }

    #[test]
    fn the_manual_has_the_table() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/running.md");
        let text = std::fs::read_to_string(file).expect("the chapter");
        for (section, keys) in AT_RELOAD {
            for key in *keys {
                assert!(
                    text.contains(&format!("`{section}.{key}`")),
                    "{section}.{key} is not in docs/operating/running.md"
                );
            }
        }
    }
}
