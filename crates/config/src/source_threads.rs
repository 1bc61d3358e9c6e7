//! The threads of a Source Distributor's process, each a Source Distributor of its own: which of them has which routes.

use super::{Config, Route};

/// The threads of a process; at least one.
pub fn source_threads(config: &Config) -> u16 {
    config.source_distributor.source_thread_count.max(1)
}

/// Routes that have to be in one thread, since they have a service in common, by name or by a service group.
struct Together<'a> {
    services: Vec<&'a str>,
    /// Places among the routes that are dialled.
    routes: Vec<usize>,
    /// The thread that routes of it ask for, counted from 1.
    thread: Option<u16>,
}

/// The routes that are dialled, in parts that have no service in common. A route that takes all services is with the others of its kind.
fn parts(config: &Config) -> Vec<Together<'_>> {
    let groups = &config.source_distributor.service_group_list.0;
    let mut parts: Vec<Together<'_>> = Vec::new();
    for (place, route) in config.dialled_routes().enumerate() {
        let mut part = Together { services: services_of(route), routes: vec![place], thread: None };
        for group in groups {
            if group.members.iter().any(|member| part.services.contains(&member.as_str())) {
                part.services.extend(group.members.iter().map(String::as_str));
            }
        }
        part.thread = Some(route.source_thread).filter(|thread| *thread > 0);
        // Parts that have a service in common with it are one with it, in the place of the first.
        let is_met = |known: &Together<'_>| known.services.iter().any(|service| part.services.contains(service));
        match parts.iter().position(is_met) {
            None => parts.push(part),
            Some(first) => {
                let met: Vec<_> = parts.extract_if(first.., |known| is_met(known)).collect();
                let mut whole = Together { services: Vec::new(), routes: Vec::new(), thread: None };
                for one in met.into_iter().chain([part]) {
                    whole.services.extend(one.services);
                    whole.routes.extend(one.routes);
                    whole.thread = whole.thread.or(one.thread);
                }
                parts.insert(first, whole);
            }
        }
    }
    parts
}

/// The services that a route takes; `""` stands for all.
fn services_of(route: &Route) -> Vec<&str> {
    if route.service_list.is_empty() { vec![""] } else { route.service_list.iter().map(String::as_str).collect() }
}

/// The thread of each route that is dialled, counted from 0. Routes that have a service in common are in one thread: the one that one of them asks for
/// (`source_thread`), else parts of them go round the threads in their order; routes without a `service_list` are in the first.
fn threads_of_routes(config: &Config) -> Vec<u16> {
    let count = source_threads(config);
    let mut threads = vec![0; config.dialled_routes().count()];
    let mut next = 0;
    for part in parts(config) {
        let thread = match part.thread {
            Some(thread) => (thread - 1).min(count - 1),
            None if part.services.contains(&"") => 0,
            None => {
                next += 1;
                (next - 1) % count
            }
        };
        part.routes.iter().for_each(|place| threads[*place] = thread);
    }
    threads
}

/// The configuration of one thread, counted from 0: its routes, the port of its hub (those of further threads are the next ones), its processors. Non-interactive
/// providers and what is held of them are the first one's.
pub fn of_source_thread(config: &Config, thread: u16) -> Config {
    if source_threads(config) == 1 {
        return config.clone();
    }
    let threads = threads_of_routes(config);
    let mut own = config.clone();
    let dialled = config.dialled_routes().zip(&threads).filter(|(_, of)| **of == thread);
    own.routes = dialled.map(|(route, _)| route.clone()).collect();
    let (sd, hub) = (&mut own.source_distributor, &mut own.hub);
    if let Some(cpus) = sd.bind_source_threads.get(usize::from(thread)).filter(|cpus| !cpus.is_empty()) {
        sd.bind_main_thread.clone_from(cpus);
    }
    if thread > 0 {
        hub.port = if hub.port == 0 { 0 } else { hub.port.saturating_add(thread) };
        if !hub.instance.is_empty() {
            hub.instance = format!("{}-{}", hub.instance, thread + 1);
        }
        (sd.enable_nip_server, sd.support_persistent_cache) = (false, false);
        sd.cache_resiliency_hosts.clear();
    }
    own
}

/// The key that is at fault, its section, and what it must be.
pub(super) fn fault(config: &Config) -> Option<(&'static str, &'static str, &'static str)> {
    let count = source_threads(config);
    let asked = || config.dialled_routes().map(|route| route.source_thread);
    if asked().any(|thread| thread > count) {
        return Some(("route", "source_thread", "must be at most source_distributor.source_thread_count"));
    }
    let last = u32::from(config.hub.port) + u32::from(count) - 1;
    if last > 65_535 {
        return Some(("hub", "port", "must leave a port for each of source_distributor.source_thread_count threads"));
    }
    let asked: Vec<u16> = asked().collect();
    let is_at_odds = |part: &Together<'_>| {
        let mut threads = part.routes.iter().map(|place| asked[*place]).filter(|thread| *thread > 0);
        let first = threads.next();
        threads.any(|thread| Some(thread) != first)
    };
    parts(config).iter().any(is_at_odds).then_some((
        "route",
        "source_thread",
        "must be the same for all routes that have a service in common",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse("test.toml", text).expect("a configuration")
    }

    fn routes(services: &[&str]) -> String {
        let route = |list: &&str| format!("[[route]]\nhost_list = [\"h:1\"]\nservice_list = [{list}]\n");
        services.iter().map(route).collect()
    }

    #[test]
    fn routes_of_one_service_are_in_one_thread_and_the_others_go_round() {
        let of = |head: &str, services: &[&str]| threads_of_routes(&parse(&(head.to_owned() + &routes(services))));
        let two = "[source_distributor]\nsource_thread_count = 2\n";
        assert_eq!(of("", &["\"A\"", "\"B\""]), [0, 0]);
        assert_eq!(of(two, &["\"A\"", "\"B\"", "\"A\"", "\"C\"", ""]), [0, 1, 0, 0, 0]);
        // The last one brings the first two together.
        assert_eq!(of(two, &["\"A\"", "\"B\"", "\"C\"", "\"A\", \"B\""]), [0, 0, 1, 0]);
        let grouped = format!("{two}service_group_list = [\"G=A|C\"]\n");
        assert_eq!(of(&grouped, &["\"A\"", "\"B\"", "\"C\""]), [0, 1, 0]);
        let asked =
            parse(&format!("{two}{}source_thread = 2\n{}", routes(&["\"A\""]), routes(&["\"B\"", "\"A\"", "\"C\""])));
        assert_eq!(threads_of_routes(&asked), [1, 0, 1, 1]);
    }

    #[test]
    fn each_thread_has_its_routes_and_a_port_and_the_first_one_the_rest() {
        let head = "[hub]\nport = 15000\ninstance = \"sd\"\n[source_distributor]\nsource_thread_count = 2\nbind_source_threads = [\"\", \"3\"]\nbind_main_thread = \"1\"\n";
        let config = parse(&format!("{head}{}", routes(&["\"A\"", "\"B\""])));
        let [first, second] = [0, 1].map(|thread| of_source_thread(&config, thread));
        let of = |config: &Config| {
            let (sd, hub) = (&config.source_distributor, &config.hub);
            let services: Vec<_> = config.routes.iter().flat_map(|route| route.service_list.clone()).collect();
            (services.join(","), hub.port, hub.instance.clone(), sd.enable_nip_server, sd.bind_main_thread.clone())
        };
        assert_eq!(of(&first), ("A".into(), 15_000, "sd".into(), true, "1".into()));
        assert_eq!(of(&second), ("B".into(), 15_001, "sd-2".into(), false, "3".into()));
        assert_eq!(of_source_thread(&Config::default(), 0), Config::default());
    }

    #[test]
    fn what_cannot_be_divided_is_a_fault() {
        let why = |text: &str| Config::parse("t.toml", text).expect_err("a fault").to_string();
        let two = "[source_distributor]\nsource_thread_count = 2\n";
        let a = routes(&["\"A\""]);
        assert!(why(&format!("{two}{a}source_thread = 3\n")).contains("source_thread must be at most"));
        let odds = format!("{two}{a}source_thread = 1\n{a}source_thread = 2\n");
        assert!(why(&odds).contains("must be the same for all routes that have a service in common"));
        assert!(why(&format!("{two}[hub]\nport = 65535\n")).contains("must leave a port"));
        assert!(why("[source_distributor]\nsource_thread_count = 65\n").contains("must be at most 64"));
    }
}
