//! A scenario's settings, as the configuration of the processes that run it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use sim::conformance::{Scenario, Step, Variant};

use super::fence::service_of;

/// The sections of a configuration, each with its lines.
#[derive(Debug)]
pub(super) struct Setup {
    sections: BTreeMap<&'static str, Vec<String>>,
    /// Names of blocked items, by service.
    blocked: Option<(String, String)>,
    /// A field that items are selected by: numbers of the scripts are unsigned, whatever the built-in dictionary says of it.
    selects_by: Option<String>,
    /// What single services have for themselves, a line each.
    of_services: BTreeMap<String, Vec<String>>,
    /// Services that are published later, each with its lines but the one of its journal.
    delayed: BTreeMap<String, Vec<String>>,
    /// Of each route but that of the fence.
    of_routes: Vec<String>,
    pub(super) two_processes: bool,
    pub(super) distributors: usize,
    /// Each has another one that stands by for it; what the P2PS is to know of that.
    pair: Option<bool>,
    /// The Source Distributors that dial the providers of routes, by the number of the route, all from 0.
    pub(super) dialled_by: BTreeMap<usize, usize>,
    /// Something is expected to happen in time, or not to have happened yet.
    pub(super) has_time: bool,
}

impl Setup {
    /// What a scenario sets, in a variant. The error says why it cannot be run over sockets.
    pub(super) fn of(scenario: &Scenario, variant: Variant) -> Result<Self, String> {
        if let Some(why) = scenario.steps.iter().find_map(not_here) {
            return Err(why);
        }
        let passes = passes(scenario);
        if passes > LONGEST {
            return Err(format!("{} s pass", passes.as_secs()));
        }
        let has_time = !passes.is_zero() || scenario.settings.iter().any(|(key, _)| key.ends_with("conflate-ms"));
        let (sections, two_processes) = (BTreeMap::new(), variant == Variant::Network);
        let mut setup = Self {
            sections,
            blocked: None,
            selects_by: None,
            of_services: BTreeMap::new(),
            delayed: BTreeMap::new(),
            of_routes: Vec::new(),
            two_processes,
            distributors: 1,
            pair: None,
            dialled_by: scenario.steps.iter().filter_map(dialled).collect(),
            has_time,
        };
        setup.add("source_distributor", "recovery_interval_ms = 20");
        match variant {
            Variant::Plain => {}
            Variant::DistributorCache => setup.add("source_distributor", "cache_location = \"ssl\""),
            Variant::P2psCache => setup.add("p2ps", "enable_cache = true"),
            Variant::Network => {
                setup.add("hub", "transport = \"tcp\"");
                setup.add("hub", "use_point_to_point_data = true");
            }
        }
        for (key, value) in &scenario.settings {
            setup.set(key, value).map_err(|why| format!("{key}={value}: {why}"))?;
        }
        let ends = scenario.steps.iter().any(|step| step.words.first().is_some_and(|word| word == "distributor"));
        if !two_processes && (ends || setup.distributors > 1) {
            return Err("Source Distributors of their own".to_owned());
        }
        Ok(setup)
    }

    fn add(&mut self, section: &'static str, line: impl Into<String>) {
        self.sections.entry(section).or_default().push(line.into());
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let of_service = || value.split_once('/').ok_or_else(|| "SERVICE/ and what of it".to_owned());
        let number = || value.parse::<u64>().map_err(|_| "no number".to_owned());
        let listed = |key: &str| of_service().map(|(service, what)| format!("{key} = [\"{service}:{what}\"]"));
        let (section, line) = match key {
            "distributors" => {
                self.distributors = number()? as usize;
                return Ok(());
            }
            "distributor-pair" => {
                self.pair = Some(number()? != 0);
                return Ok(());
            }
            "provider-choice" => ("source_distributor", format!("provider_choice = \"{value}\"")),
            "sequence-numbers" => ("source_distributor", format!("provides_sequence_numbers = {}", value != "0")),
            "service-group" => {
                ("source_distributor", format!("service_group_list = [\"{}\"]", value.replace('/', "=")))
            }
            "rtds-status-texts" => ("hub", format!("rtds_status_texts = {}", value != "0")),
            "max-cache" => {
                self.of_routes.push(format!("max_cache = {}", number()?));
                return Ok(());
            }
            "named-there" => {
                let (here, there) = of_service()?;
                self.of_routes.push(format!("app_service_name = [\"{here}={there}\"]"));
                return Ok(());
            }
            "locked" => ("source_distributor", format!("locked_item_list = [\"{}\"]", of_service()?.1)),
            "standby-pair" => ("source_distributor", format!("active_standby_pairs = [\"{value}\"]")),
            "consumer-age-unwatched-s" => ("p2ps", format!("consumer_age_unwatched_item_time_s = {}", number()?)),
            "pause-resume" => ("p2ps", format!("support_pause_resume = {}", value != "0")),
            "preemption" => ("source_distributor", format!("preemption = {}", value != "0")),
            "takeover-on-suspect" => ("source_distributor", format!("takeover_on_suspect = {}", value != "0")),
            "max-mounts-per-user" => ("p2ps", format!("max_mounts_per_user = {}", number()?)),
            "item-limit" => ("p2ps", format!("item_limit = {}", number()?)),
            "items-per-user" => ("p2ps", format!("aggregate_item_limit = {}", number()?)),
            "max-posts-per-client" => ("p2ps", format!("max_posts_per_client = {}", number()?)),
            "open-window" => ("p2ps", format!("minimum_open_window = {}", number()?)),
            "open-window-for-polls" => ("p2ps", format!("open_window_for_poll_requests = {}", number()?)),
            "of-service" => {
                let (service, what) = of_service()?;
                let (key, number) = what.split_once(':').ok_or("SERVICE/KEY:NUMBER")?;
                let line = match key {
                    "recover-on-close" => format!("recover_items_on_close = {}", number != "0"),
                    "retry-limit" => format!("retry_limit = {number}"),
                    "stale-retry-s" => format!("stale_recovery_retry_time_s = {number}"),
                    "include-unwatched" => format!("include_unwatched_items_in_load = {}", number != "0"),
                    "restart-s" => format!("service_restart_time_s = {number}"),
                    "failback-s" => format!("failback_s = {number}"),
                    "age-unwatched-s" => format!("age_unwatched_item_time_s = {number}"),
                    "request-timeout-s" => format!("request_timeout_s = {number}"),
                    "post-flush-ms" => format!("insert_flush_interval_ms = {number}"),
                    "max-pending-posts" => format!("max_pending_out_insert = {number}"),
                    "forward-priority" => format!("forward_item_priority_to_src_app = {}", number != "0"),
                    "point-to-point" => format!("use_point_to_point_data = {}", number != "0"),
                    "post-timeout-s" => format!("post_timeout_s = {number}"),
                    "discourage-on-outage" => format!("discourage_requests_on_outage = {}", number != "0"),
                    _ => return Err(format!("nothing of a service is called {key}")),
                };
                self.of_services.entry(service.to_owned()).or_default().push(line);
                return Ok(());
            }
            "recover-on-close" => ("source_distributor", format!("recover_items_on_close = {}", value != "0")),
            "retry-limit" => ("source_distributor", format!("retry_limit = {}", number()?)),
            "stale-retry-s" => ("source_distributor", format!("stale_recovery_retry_time_s = {}", number()?)),
            "supports-snapshots" => ("source_distributor", listed("supports_snapshots")?),
            "service-items" => ("p2ps", listed("service_item_limit")?),
            "contrib-fields" => ("source_distributor", listed("contrib_field_list")?),
            "contrib-exchange-fields" => ("source_distributor", listed("contrib_exchange_field_list")?),
            "contrib-rtl" => ("source_distributor", listed("contrib_insert_rtl")?),
            "contrib-services" => ("source_distributor", format!("contrib_service_list = [\"{value}\"]")),
            "service-qos" => {
                let (service, qos) = of_service()?;
                let (timeliness, rate) = qos.split_once('/').ok_or("TIMELINESS/RATE")?;
                let (timeliness, seconds) = timeliness.split_once(':').unwrap_or((timeliness, "0"));
                self.add("source_distributor", format!("qos_timeliness = [\"{service}:{}\"]", upper(timeliness)));
                self.add("source_distributor", format!("qos_time_info = [\"{service}:{seconds}\"]"));
                ("source_distributor", format!("qos_rate = [\"{service}:{}\"]", upper(rate)))
            }
            // The fence's route is one, too.
            "total-items" => ("p2ps", format!("total_item_limit = {}", number()? + 1)),
            "max-views-per-item" => ("p2ps", format!("max_views_per_item = {}", number()?)),
            "warm-standby" => ("p2ps", format!("support_warm_standby = {}", value != "0")),
            "service-id" => ("p2ps", format!("service_ids = [\"{}\"]", value.replace('/', "="))),
            "distributor-without" => ("filters", listed("remove_fields")?),
            "p2ps-without" => ("filters", listed("p2ps_remove_fields")?),
            "p2ps-only" => ("filters", listed("p2ps_pass_fields")?),
            "p2ps-headlines" => {
                let (service, what) = of_service()?;
                self.add("p2ps", format!("news_service_item_pair_list = [\"{service}:N2_*\"]"));
                ("p2ps", format!("headline_permission_field = [\"{service}:{}\"]", what.replace(':', "=")))
            }
            "distributor-where" => {
                let (service, what) = of_service()?;
                let (field, number) = what.split_once(':').ok_or("SERVICE/FIELD:NUMBER")?;
                self.selects_by = Some(field.to_owned());
                self.add("filters", format!("filter_field = [\"{service}:{field}\"]"));
                ("filters", format!("filter_field_values = [\"{service}:{number}\"]"))
            }
            "distributor-withholds" => ("filters", listed("withhold_updates")?.replace("Quote", "quote")),
            "not-cached" => {
                let line = format!("cached_services = [\"{}\"]", service_of(0));
                self.add("p2ps", line.clone());
                ("source_distributor", line)
            }
            "failback-s" => ("source_distributor", format!("failback_s = {}", number()?)),
            "interruption-s" => {
                self.of_routes.push("interruption_detection = true".to_owned());
                self.of_routes.push(format!("interruption_duration_ms = {}", number()? * 1_000));
                return Ok(());
            }
            "traffic-window-s" => {
                self.of_routes.push(format!("traffic_window_s = {}", number()?));
                return Ok(());
            }
            "login-timeout-s" => ("p2ps", format!("login_timeout_s = {}", number()?)),
            "post-timeout-s" => ("p2ps", format!("post_timeout_s = {}", number()?)),
            // A dictionary's message is a fragment without its head.
            "dictionary-part" => ("p2ps", format!("max_fragment_size = {}", number()? + 144)),
            // The fence's updates are to come at once.
            "conflate-ms" => {
                self.add("conflation", "update_aggregation = [\"FEED\"]");
                ("conflation", format!("aggregation_interval_ms = [\"FEED:{}\"]", number()?))
            }
            "distributor-conflate-ms" => {
                self.add("source_conflation", "update_aggregation = [\"FEED\"]");
                ("source_conflation", format!("aggregation_interval_ms = [\"FEED:{}\"]", number()?))
            }
            // NAME/SERVICE:SECONDS:FIELD, of which the field is kept back.
            "delay" => {
                let (name, what) = of_service()?;
                let [service, seconds, field] = what.split(':').collect::<Vec<_>>()[..] else {
                    return Err("NAME/SERVICE:SECONDS:FIELD".to_owned());
                };
                let lines = self.delayed.entry(name.to_owned()).or_default();
                lines.push(format!("delayed_service = \"{service}\"\ndelay_s = {seconds}\nfee_fields = [\"{field}\"]"));
                return Ok(());
            }
            "conflation-offered-ms" => ("conflation", format!("offered_interval_ms = [\"FEED:{}\"]", number()?)),
            "blocked" => {
                let (service, item) = of_service()?;
                self.blocked = Some((service.to_owned(), item.to_owned()));
                return Ok(());
            }
            _ => return Err("set in memory alone".to_owned()),
        };
        self.add(section, line);
        Ok(())
    }

    /// The configuration of a process: its routes, of which the last one is the fence's, and the hub's Source Distributors, if it has them, and files that it names in `folder`.
    pub(super) fn text(&self, routes: &[SocketAddr], hub: &[String], folder: &std::path::Path) -> String {
        let mut sections = self.sections.clone();
        let mut add = |section, line| sections.entry(section).or_default().push(line);
        if !hub.is_empty() {
            add("hub", format!("source_distributors = {hub:?}"));
        }
        if let (Some(alike), [one, other]) = (self.pair, hub) {
            add("p2ps", format!("source_distributor_order = {hub:?}"));
            add("p2ps", format!("source_distributor_pairs = [\"{one}|{other}\"]"));
            add("p2ps", format!("source_distributor_sequence_numbers = {alike}"));
        }
        if let Some((service, item)) = &self.blocked {
            let file = folder.join("blocked");
            std::fs::write(&file, format!("{item}\n")).expect("written");
            let line = format!("blocked_items_file = [\"{service}:{}\"]", file.display());
            sections.entry("p2ps").or_default().push(line);
        }
        if let Some(field) = &self.selects_by {
            let file = folder.join("fields");
            std::fs::write(&file, format!("SELECTOR \"SELECTOR\" {field} NULL INTEGER 5 UINT64 8\n")).expect("written");
            sections.entry("dictionary").or_default().push(format!("field_file = \"{}\"", file.display()));
        }
        let sections = sections.iter().map(|(name, lines)| format!("[{name}]\n{}\n", lines.join("\n")));
        let of_routes = format!("{}\n", self.of_routes.join("\n"));
        let fence = routes.len().saturating_sub(1);
        let of_route = |number: usize| if number == fence { "" } else { of_routes.as_str() };
        let routes = routes.iter().enumerate();
        let route = |(number, at): (usize, &SocketAddr)| {
            format!("[[route]]\nhost_list = [\"{at}\"]\nserver_id = \"{}\"\n{}", number + 1, of_route(number))
        };
        let routes = routes.map(route);
        let of_services = self.of_services.iter();
        let services = of_services.map(|(name, lines)| format!("[service.{name}]\n{}\n", lines.join("\n")));
        let delayed = self.delayed.iter().map(|(name, lines)| {
            let journal = folder.join(name);
            format!("[delay.{name}]\n{}\ndelay_journal = \"{}\"\n", lines.join("\n"), journal.display())
        });
        sections.chain(services).chain(delayed).chain(routes).collect::<Vec<_>>().concat()
    }
}

/// A name of the usage guide as the configuration has it: `TICK_BY_TICK` of `TickByTick`.
fn upper(name: &str) -> String {
    let mut written = String::new();
    for (at, letter) in name.chars().enumerate() {
        if at > 0 && letter.is_uppercase() {
            written.push('_');
        }
        written.extend(letter.to_uppercase());
    }
    written
}

/// Time that may pass in a scenario: here it has to be waited for.
const LONGEST: Duration = Duration::from_secs(12);

/// The time that passes in a scenario, as its steps say.
pub(super) fn passes(scenario: &Scenario) -> Duration {
    let of = |step: &Step| match step.words.as_slice() {
        [after, seconds, ..] if after == "after" => seconds.parse().ok().map(Duration::from_secs_f64),
        _ => None,
    };
    scenario.steps.iter().filter_map(of).sum()
}

/// The route of a provider that comes up, and the Source Distributor that dials it.
fn dialled(step: &Step) -> Option<(usize, usize)> {
    let [name, comes, ..] = step.words.as_slice() else { return None };
    let number = |text: &str| text.parse::<usize>().ok()?.checked_sub(1);
    let route = number(name.strip_prefix('P')?).filter(|_| comes == "comes")?;
    let at = step.words.iter().find_map(|word| number(word.strip_prefix("at=")?));
    Some((route, at.unwrap_or(0)))
}

/// Why a step is for the simulated world alone, if it is.
fn not_here(step: &Step) -> Option<String> {
    let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
    let why = match words.as_slice() {
        [_, "is", "behind", ..] => "a connection that takes nothing",
        [_, "connects" | "logs", ..] if words.iter().any(|word| word.starts_with("at=")) => "several P2PSs",
        _ => return None,
    };
    Some(why.to_owned())
}
