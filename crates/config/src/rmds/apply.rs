//! From the lines of an `rmds.cnf` to a configuration.

use super::catalogue::{Catalogue, Given, Mapped, Meaning};
use super::lookup::{Place, Weight};
use super::route_services;
use super::syntax::{self, Line, Word};
use crate::patterns::of_rmds;
use crate::syslog::level_of_selector;
use crate::{
    AnySection, Config, ConfigError, Loaded, Note, P2ps, Raw, Route, Section, Service, Weight as Gravity, rules,
};
use std::collections::BTreeSet;

/// An `rmds.cnf` as it is for one host.
pub(crate) struct Reading {
    /// The configuration that it amounts to.
    pub(crate) loaded: Loaded,
    /// Where the values come from.
    pub(crate) origins: Vec<Origin>,
    /// The file's lines.
    pub(crate) lines: Vec<Line>,
}

/// A parameter that a line has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The section.
    pub(crate) section: &'static str,
    /// Which of several routes, or of the services in their order.
    pub(crate) route: usize,
    /// The index of the parameter within the section.
    pub(crate) index: usize,
    /// The line's number.
    pub(crate) line: usize,
}

/// Reads the text of an `rmds.cnf`; `name` stands for the file in messages.
///
/// # Errors
/// Every fault of the text, each with its line, also in lines for other hosts.
pub(crate) fn read(name: &str, text: &str, place: &Place) -> Result<Reading, ConfigError> {
    let catalogue = Catalogue::new();
    let (mut lines, faults) = syntax::parse(text);
    let taken = route_services::take_out(&mut lines, &catalogue);
    let mut reader = Reader {
        catalogue: &catalogue,
        lines: &lines,
        place,
        name,
        faults: faults.into_iter().map(|f| (f.line, f.what)).collect(),
        notes: Vec::new(),
        origins: Vec::new(),
    };
    for line in &lines {
        reader.check(line);
    }
    for taken in taken.iter().filter(|taken| taken.services > 1) {
        let text = format!(
            "{} counts for all {} services of its route: a route has one value here",
            taken.key, taken.services
        );
        reader.note(taken.line, Gravity::Warning, text);
    }
    let mut config = Config::default();
    if reader.faults.is_empty() {
        reader.fill(&mut config);
    }
    let Reader { mut faults, mut notes, origins, .. } = reader;
    if !faults.is_empty() {
        faults.sort();
        return Err(ConfigError { faults: faults.into_iter().map(|(line, what)| at(name, line, &what)).collect() });
    }
    notes.sort_by_key(|n| n.line);
    Ok(Reading { loaded: Loaded { config, notes }, origins, lines })
}

fn at(name: &str, line: usize, what: &str) -> String {
    if line == 0 { format!("{name}: {what}") } else { format!("{name}:{line}: {what}") }
}

struct Reader<'a> {
    catalogue: &'a Catalogue,
    lines: &'a [Line],
    place: &'a Place,
    name: &'a str,
    faults: Vec<(usize, String)>,
    notes: Vec<Note>,
    origins: Vec<Origin>,
}

impl<'a> Reader<'a> {
    fn note(&mut self, line: usize, weight: Gravity, text: String) {
        self.notes.push(Note { line, file: self.name.to_owned(), weight, text });
    }

    /// Checks a line for itself: its key, its value.
    fn check(&mut self, line: &Line) {
        let here = self.place.host_weight(&line.key).is_some();
        for left in line.placeholders.iter().filter(|_| here) {
            let text = format!("{left} is a placeholder of a manual and is read as any name");
            self.note(line.number, Gravity::Warning, text);
        }
        match self.catalogue.meaning(&line.key) {
            Err(what) => self.faults.push((line.number, what)),
            Ok(Meaning::Mapped(parameters)) => {
                let wrong = parameters.iter().find_map(|p| try_value(p, &line.value).err().map(|e| (p.name, e)));
                if let Some((name, e)) = wrong {
                    self.faults.push((line.number, format!("{name}: {e}")));
                }
            }
            Ok(Meaning::NoEffect(entry, name)) if here => {
                let (gravity, text) = if entry.is_as_asked(name, &line.value) {
                    (Gravity::Information, format!("{} is always so here: {}", line.key, entry.why()))
                } else {
                    (Gravity::Warning, format!("{} has no effect here: {}", line.key, entry.why()))
                };
                self.note(line.number, gravity, text);
            }
            Ok(Meaning::BindWriteThread(n)) => {
                if let Some(e) = rules::cpu_list_fault(&line.value) {
                    self.faults.push((line.number, format!("bindWriteThread.{n}: {e}")));
                }
            }
            Ok(Meaning::NoEffect(..) | Meaning::RouteList) => {}
        }
    }

    fn fill(&mut self, config: &mut Config) {
        let given = self.fill_sections(config);
        self.fill_writer_threads(config);
        self.fill_by_service(config);
        self.fill_services(config);
        self.fill_routes(config);
        self.repeated();
        self.elsewhere();
        self.other_ports(&given);
        self.idle(config);
        for rule in rules::broken(config) {
            let sections = config.sections();
            let section = sections.iter().find(|s| s.name() == rule.section);
            let index = section.and_then(|s| s.infos().iter().position(|p| p.key == rule.key));
            let origin = self.origins.iter().find(|o| o.section == rule.section && Some(o.index) == index);
            self.faults.push((origin.map_or(0, |o| o.line), format!("{}.{} {}", rule.section, rule.key, rule.what)));
        }
    }

    /// Parameters that are set and have no effect because of something else.
    fn idle(&mut self, config: &Config) {
        let sections = config.sections();
        for idle in rules::idle(config) {
            let section = sections.iter().find(|s| s.name() == idle.section).expect("its section");
            let index = section.infos().iter().position(|p| p.key == idle.key);
            let origin = self.origins.iter().find(|o| o.section == idle.section && Some(o.index) == index);
            let line = origin.and_then(|o| self.lines.iter().find(|l| l.number == o.line));
            if let Some(line) = line
                && let Some(text) = idle.sentence(*section, &line.key.to_string())
            {
                self.note(line.number, Gravity::Information, text);
            }
        }
    }

    /// All but the routes. Returns the port of the P2PS, which is a level of its parameters.
    fn fill_sections(&mut self, config: &mut Config) -> String {
        let catalogue = self.catalogue;
        let (ports, others): (Vec<&Mapped>, Vec<&Mapped>) = (catalogue.mapped().iter())
            .filter(|m| m.section != Route::NAME && m.section != Service::NAME && !m.is_by_service())
            .partition(|m| m.name == "rsslPort");
        for mapped in ports {
            self.set(config, mapped, Given::default());
        }
        let port = config.p2ps.rssl_port.to_string();
        for mapped in others {
            self.set(config, mapped, Given { port: Some(&port), route: None });
        }
        port
    }

    fn set(&mut self, config: &mut Config, mapped: &Mapped, given: Given<'_>) {
        let mut sections = config.sections_mut();
        let section = sections.iter_mut().find(|s| s.name() == mapped.section).expect("its section");
        // Of two names for one parameter the first counts.
        if self.origins.iter().any(|o| o.section == mapped.section && o.index == mapped.index) {
            return;
        }
        let Some(line) = self.choose(mapped, given) else { return };
        if put(*section, mapped, &line.value).is_ok() {
            self.origins.push(Origin { section: mapped.section, route: 0, index: mapped.index, line: line.number });
        }
        self.one_for_all(mapped, given, line);
    }

    /// The line that counts for a parameter.
    fn choose(&self, mapped: &Mapped, given: Given<'_>) -> Option<&'a Line> {
        let fits = |line: &'a Line| {
            let is_of_one = mapped.is_of_services() && mapped.service_of(&line.key).is_some()
                || mapped.is_of_routes && route_name(line).is_some();
            if is_of_one {
                return None;
            }
            let host = self.place.host_weight(&line.key)?;
            Some((line, Weight::new(host, mapped.weigh(&line.key, given)?)))
        };
        let lines = self.lines;
        lines.iter().filter_map(fits).reduce(|best, next| if next.1 >= best.1 { next } else { best }).map(|(l, _)| l)
    }

    /// Parameters that are set for one route although there is one value for all.
    fn one_for_all(&mut self, mapped: &Mapped, given: Given<'_>, chosen: &Line) {
        if !mapped.is_shared() || mapped.is_of_routes {
            return;
        }
        let lines = self.lines;
        for line in lines.iter().filter(|l| l.number != chosen.number && l.value != chosen.value) {
            let fits = self.place.host_weight(&line.key).is_some() && mapped.weigh(&line.key, given).is_some();
            if fits && line.key.words.len() > 1 {
                let text = format!(
                    "{} has no effect here: there is one {} for all, and line {} sets it",
                    line.key, mapped.name, chosen.number
                );
                self.note(line.number, Gravity::Warning, text);
            }
        }
    }

    fn fill_writer_threads(&mut self, config: &mut Config) {
        let mut threads: Vec<(Weight, usize, &Line)> = Vec::new();
        for line in self.lines {
            let (Some(host), Ok(Meaning::BindWriteThread(n))) =
                (self.place.host_weight(&line.key), self.catalogue.meaning(&line.key))
            else {
                continue;
            };
            // The levels are the same for all: host, then the order in the file.
            let weight = Weight::new(host, Vec::new());
            match threads.iter_mut().find(|t| t.1 == n) {
                Some(known) if known.0 <= weight => *known = (weight, n, line),
                Some(_) => {}
                None => threads.push((weight, n, line)),
            }
        }
        let section = &mut config.p2ps;
        let index = P2ps::params().iter().position(|p| p.info.key == "bind_writer_threads").expect("a parameter");
        for (_, n, line) in threads {
            if section.bind_writer_threads.len() < n {
                section.bind_writer_threads.resize(n, String::new());
            }
            section.bind_writer_threads[n - 1].clone_from(&line.value);
            self.origins.push(Origin { section: P2ps::NAME, route: 0, index, line: line.number });
        }
    }

    /// Lists with an entry for each service that a line names.
    fn fill_by_service(&mut self, config: &mut Config) {
        let catalogue = self.catalogue;
        for mapped in catalogue.mapped().iter().filter(|m| m.is_by_service()) {
            // The line that counts for each service, in the order in which the file has them.
            let mut chosen: Vec<(Option<&str>, Weight, &Line)> = Vec::new();
            for line in self.lines {
                let (Some(host), Some(levels)) =
                    (self.place.host_weight(&line.key), mapped.weigh(&line.key, Given::default()))
                else {
                    continue;
                };
                let (service, weight) = (mapped.service_of(&line.key), Weight::new(host, levels));
                match chosen.iter_mut().find(|(of, ..)| *of == service) {
                    Some(known) if known.1 > weight => {}
                    Some(known) => (known.1, known.2) = (weight, line),
                    None => chosen.push((service, weight, line)),
                }
            }
            if chosen.is_empty() {
                continue;
            }
            let entries: Vec<String> =
                chosen.iter().filter_map(|(of, _, line)| entry(mapped, *of, &line.value)).collect();
            let mut sections = config.sections_mut();
            let section = sections.iter_mut().find(|s| s.name() == mapped.section).expect("its section");
            let origin =
                |line: &Line| Origin { section: mapped.section, route: 0, index: mapped.index, line: line.number };
            match section.set(mapped.index, &Raw::List(entries.iter().map(String::as_str).collect())) {
                Ok(()) => self.origins.extend(chosen.iter().map(|(.., line)| origin(line))),
                // Each line is right for itself: they do not go together.
                Err(what) => self.faults.push((chosen[chosen.len() - 1].2.number, format!("{}: {what}", mapped.name))),
            }
        }
    }

    /// What single services have for themselves. A line for all that goes before, by its host, counts for them too.
    fn fill_services(&mut self, config: &mut Config) {
        let (catalogue, lines) = (self.catalogue, self.lines);
        let of_services = || catalogue.mapped().iter().filter(|m| m.section == Service::NAME);
        let named = |line: &'a Line| {
            let is_here = self.place.host_weight(&line.key).is_some() && !line.value.is_empty();
            let mut mapped = of_services().filter(|m| is_here && m.weigh(&line.key, Given::default()).is_some());
            mapped.find_map(|m| m.service_of(&line.key))
        };
        let names: BTreeSet<&str> = lines.iter().filter_map(named).collect();
        for (route, &name) in names.iter().enumerate() {
            let mut service = Service::default();
            for mapped in of_services() {
                let Some(line) = self.choose_for(mapped, name) else { continue };
                if put(&mut service, mapped, &line.value).is_ok() {
                    let (section, index, line) = (Service::NAME, mapped.index, line.number);
                    self.origins.push(Origin { section, route, index, line });
                }
            }
            if let Some((key, what)) = service.fault() {
                let index = service.infos().iter().position(|info| info.key == key);
                let is_it = |o: &&Origin| (o.section, o.route, Some(o.index)) == (Service::NAME, route, index);
                let line = self.origins.iter().find(is_it).map_or(0, |origin| origin.line);
                self.faults.push((line, format!("service.{name}.{key} {what}")));
            }
            config.services.insert(name.to_owned(), service);
        }
    }

    /// The line that counts for a parameter of a service, if it is one for that service.
    fn choose_for(&mut self, mapped: &Mapped, service: &str) -> Option<&'a Line> {
        let lines = self.lines;
        let weigh = |line: &'a Line| {
            let of = mapped.service_of(&line.key);
            let host = self.place.host_weight(&line.key).filter(|_| of.is_none_or(|of| of == service))?;
            let weight = Weight::new(host, mapped.weigh(&line.key, Given::default())?);
            (!line.value.is_empty()).then_some((weight, of.is_some(), line))
        };
        let fitting: Vec<_> = lines.iter().filter_map(weigh).collect();
        let best = fitting.iter().cloned().reduce(|best, next| if next.0 >= best.0 { next } else { best });
        let (_, is_own, line) = best?;
        if is_own {
            return Some(line);
        }
        for (_, _, own) in fitting.iter().filter(|(_, is_own, _)| *is_own) {
            let text = format!("{} has no effect: line {} is for this host, and counts", own.key, line.number);
            self.note(own.number, Gravity::Warning, text);
        }
        None
    }

    fn fill_routes(&mut self, config: &mut Config) {
        let catalogue = self.catalogue;
        for (route, (name, listed)) in self.route_names().into_iter().enumerate() {
            let mut section = Route::default();
            let given = Given { port: None, route: name.as_deref() };
            for mapped in catalogue.mapped().iter().filter(|m| m.section == Route::NAME) {
                let Some(line) = self.choose(mapped, given) else { continue };
                if put(&mut section, mapped, &line.value).is_ok() {
                    let (section, index, line) = (Route::NAME, mapped.index, line.number);
                    self.origins.push(Origin { section, route, index, line });
                }
            }
            if section.host_list.is_empty() {
                let name = name.as_deref().unwrap_or("NAME");
                self.faults.push((listed, format!("route {name} has no host: write *Src_Dist*{name}.route*hostList")));
            }
            self.rules_of_route(&section, route);
            config.routes.push(section);
        }
    }

    /// Faults and idle parameters in the route of this number.
    fn rules_of_route(&mut self, section: &Route, route: usize) {
        let infos = section.infos();
        let line_of = |origins: &[Origin], key: &str| {
            let index = infos.iter().position(|info| info.key == key)?;
            let is_it = |o: &&Origin| o.section == Route::NAME && o.route == route && o.index == index;
            origins.iter().find(is_it).map(|origin| origin.line)
        };
        if let Some(rule) = rules::of_route(section) {
            let line = line_of(&self.origins, rule.key).unwrap_or(0);
            self.faults.push((line, format!("{}.{} {}", rule.section, rule.key, rule.what)));
        }
        for idle in rules::idle_of_route(section) {
            let line = line_of(&self.origins, idle.key).and_then(|of| self.lines.iter().find(|l| l.number == of));
            if let Some(line) = line
                && let Some(text) = idle.sentence(section, &line.key.to_string())
            {
                self.note(line.number, Gravity::Information, text);
            }
        }
    }

    /// The routes of this host, each with the line that names it: those of `routeList`, else all that a line names. A
    /// route without a name is there if only `*route*hostList` is.
    fn route_names(&mut self) -> Vec<(Option<String>, usize)> {
        let mut listed: Option<(u8, &Line)> = None;
        let mut named: Vec<(Option<String>, usize)> = Vec::new();
        let mut unnamed = None;
        for line in self.lines {
            let Some(host) = self.place.host_weight(&line.key) else { continue };
            match self.catalogue.meaning(&line.key) {
                Ok(Meaning::RouteList) if listed.is_none_or(|(h, _)| h <= host) => listed = Some((host, line)),
                Ok(Meaning::Mapped(m)) if m.iter().any(|m| m.section == Route::NAME) => match route_name(line) {
                    Some(name) => {
                        let known = |n: &Option<String>| n.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(&name));
                        if !named.iter().any(|(n, _)| known(n)) {
                            named.push((Some(name), line.number));
                        }
                    }
                    None => {
                        if m.iter().any(|m| m.key == "host_list") && !line.value.is_empty() {
                            unnamed = Some(line.number);
                        }
                    }
                },
                _ => {}
            }
        }
        let Some((_, list)) = listed else {
            return match (named.is_empty(), unnamed) {
                (true, Some(line)) => vec![(None, line)],
                _ => named,
            };
        };
        let names: Vec<String> = words(&list.value).map(str::to_owned).collect();
        for (name, line) in &named {
            let name = name.as_deref().unwrap_or("");
            if !names.iter().any(|n| n.eq_ignore_ascii_case(name)) {
                let text = format!("route {name} has no effect: it is not in the routeList of line {}", list.number);
                self.note(*line, Gravity::Warning, text);
            }
        }
        names.into_iter().map(|n| (Some(n), list.number)).collect()
    }

    /// The same key twice with different values: the operator may not know.
    fn repeated(&mut self) {
        let lines = self.lines;
        for (i, line) in lines.iter().enumerate() {
            let same = |other: &&Line| other.key.to_string().eq_ignore_ascii_case(&line.key.to_string());
            let Some(later) = lines[i + 1..].iter().find(same) else { continue };
            if later.value != line.value && self.place.host_weight(&line.key).is_some() {
                let text = format!("{} has no effect: line {} sets it again", line.key, later.number);
                self.note(line.number, Gravity::Warning, text);
            }
        }
    }

    /// How many lines are for others.
    fn elsewhere(&mut self) {
        let mut hosts: Vec<&str> = Vec::new();
        let mut count = 0;
        for line in self.lines.iter().filter(|l| self.place.host_weight(&l.key).is_none()) {
            count += 1;
            let host = line.key.host.as_deref().unwrap_or("");
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        if count > 0 {
            let text = format!(
                "this is host {}, instance {}: {count} of {} lines are for others ({})",
                self.place.host,
                self.place.instance,
                self.lines.len(),
                hosts.join(", ")
            );
            self.note(0, Gravity::Information, text);
        }
    }

    /// Lines for a port or user that this P2PS does not have.
    fn other_ports(&mut self, port: &str) {
        let lines = self.lines;
        let given = Given { port: Some(port), route: None };
        for line in lines.iter().filter(|l| self.place.host_weight(&l.key).is_some()) {
            let Ok(Meaning::Mapped(m)) = self.catalogue.meaning(&line.key) else { continue };
            if m.iter().all(|m| m.section == P2ps::NAME && m.weigh(&line.key, given).is_none()) {
                let text = format!(
                    "{} has no effect here: the only level of its own is the RSSL port, {port}; {} is one for all users",
                    line.key, m[0].name
                );
                self.note(line.number, Gravity::Warning, text);
            }
        }
    }
}

/// The entry of a list by service that a line makes, if any: a switch is the name of what it is on for.
fn entry(mapped: &Mapped, service: Option<&str>, value: &str) -> Option<String> {
    if FLAGS.contains(&mapped.name) && !value.is_empty() {
        return Some(service.map_or_else(|| value.to_owned(), |service| format!("{service}:{value}")));
    }
    match value.to_ascii_lowercase().as_str() {
        "" | "false" => None,
        "true" => Some(service.unwrap_or("*").to_owned()),
        _ if SWITCHES.contains(&mapped.name) => None,
        _ => Some(service.map_or_else(|| value.to_owned(), |service| format!("{service}:{value}"))),
    }
}

/// Parameters whose lines are True or False, and say as much when they are False.
const FLAGS: [&str; 3] = ["contribInsertRTL", "supportsSnapshots", "supportsOutofBandSnapshots"];
/// Lists of regular expressions.
const EXPRESSIONS: [&str; 2] = ["serverPartitionList", "serverPartitionNegationList"];
/// The lists by service whose lines are True or False, and that have those services for which they are True.
const SWITCHES: [&str; 2] = ["updateAggregation", "dismountOnOutage"];
/// Parameters whose lines are texts: names of files and servers, words that the rules look at.
const TEXTS: [&str; 11] = [
    "aggregationFields",
    "blockedItemsFile",
    "blockedServerList",
    "contribFieldList",
    "contribNegativeTemplateIdList",
    "contribPositiveTemplateIdList",
    "disableAggregationItemList",
    "itemPriorityFile",
    "newsNameList",
    "qosRate",
    "qosTimeliness",
];

/// The fault of a line of a list by service.
fn entry_fault(mapped: &Mapped, value: &str) -> Result<(), String> {
    let is_switch = value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false");
    match (SWITCHES.contains(&mapped.name) || FLAGS.contains(&mapped.name), value) {
        (_, "") => Ok(()),
        _ if TEXTS.contains(&mapped.name) => Ok(()),
        _ if FLAGS.contains(&mapped.name) && is_switch => Ok(()),
        (true, _) if !is_switch => Err(format!("expected True or False, found {value:?}")),
        (false, _) if value.parse::<u32>().is_err() => Err(format!("expected a whole number, found {value:?}")),
        _ => Ok(()),
    }
}

/// The word before `route`, if it is no component.
fn route_name(line: &Line) -> Option<String> {
    let words = &line.key.words;
    let at = words.iter().position(|(_, w)| matches!(w, Word::Name(n) if n.eq_ignore_ascii_case("route")))?;
    match words.get(at.checked_sub(1)?)? {
        (_, Word::Name(name)) if !super::components::is_component(name) => Some(name.clone()),
        _ => None,
    }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(|c: char| c == ',' || c.is_whitespace()).filter(|w| !w.is_empty())
}

/// Whether the value is one for the parameter.
fn try_value(mapped: &Mapped, value: &str) -> Result<(), String> {
    if mapped.is_by_service() {
        return entry_fault(mapped, value);
    }
    let mut config = Config::default();
    if mapped.section == Route::NAME {
        return put(&mut Route::default(), mapped, value);
    }
    if mapped.section == Service::NAME {
        return put(&mut Service::default(), mapped, value);
    }
    let mut sections = config.sections_mut();
    let section = sections.iter_mut().find(|s| s.name() == mapped.section).expect("its section");
    put(*section, mapped, value)
}

/// Sets a parameter; an empty value leaves the default.
fn put(section: &mut dyn AnySection, mapped: &Mapped, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    if mapped.name == "selector" {
        return section.set(mapped.index, &Raw::Text(level_of_selector(value)?));
    }
    let number = value.parse::<i64>().ok();
    if number.is_none()
        && ["rsslPort", "listenPort", "port"].contains(&mapped.name)
        && let Some(port) = port_of_service(value, &std::fs::read_to_string("/etc/services").unwrap_or_default())
    {
        return section.set(mapped.index, &Raw::Int(i64::from(port)));
    }
    let number = number.and_then(|n| n.checked_mul(mapped.factor));
    let result = match number {
        Some(n) if mapped.factor != 1 => section.set(mapped.index, &Raw::Int(n)),
        _ => {
            let word = |word: &str| if EXPRESSIONS.contains(&mapped.name) { of_rmds(word) } else { word.to_owned() };
            let list: Vec<String> = words(value).map(word).collect();
            match section.set(mapped.index, &Raw::Text(value)) {
                Ok(()) if section.infos()[mapped.index].kind == LIST => {
                    section.set(mapped.index, &Raw::List(list.iter().map(String::as_str).collect()))
                }
                other => other,
            }
        }
    };
    result.map_err(|e| {
        let comment = value.contains(" #") || value.contains(" !");
        if comment { format!("{e} (a comment has a line of its own)") } else { e }
    })
}

/// The port that a name stands for: RMDS's own, else those of the text of an `/etc/services`.
pub(super) fn port_of_service(name: &str, services: &str) -> Option<u16> {
    match name {
        "rmds_rssl_sink" => return Some(14002),
        "rmds_rssl_source" => return Some(14003),
        _ => {}
    }
    services.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let (first, port) = (words.next()?, words.next()?);
        let is_it = first == name || words.any(|alias| alias == name);
        if is_it { port.strip_suffix("/tcp")?.parse().ok() } else { None }
    })
}

/// [`Parameter::KIND`](crate::Parameter::KIND) of lists.
const LIST: &str = <Vec<String> as crate::Parameter>::KIND;
