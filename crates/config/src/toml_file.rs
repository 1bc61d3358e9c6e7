//! TOML files.

use toml::de::{DeTable, DeValue};

use super::{
    AnySection, Config, ConfigError, Delay, Feed, Hub, Loaded, Note, P2ps, Raw, Replay, Route, Section, Service,
    SourceDistributor, Weight, delay, effect, nearest, replay, rules,
};

/// Reads TOML text; `name` stands for the file in messages.
///
/// # Errors
/// Every fault of the text, each with its line.
pub(super) fn parse(name: &str, text: &str) -> Result<Loaded, ConfigError> {
    let mut reader = Reader { name, text, faults: Vec::new(), notes: Vec::new(), set: Vec::new() };
    let (document, errors) = DeTable::parse_recoverable(text);
    for e in errors {
        reader.add(e.span().map_or(0, |s| s.start), e.message());
    }
    let mut config = Config::default();
    if reader.faults.is_empty() {
        for (key, value) in document.get_ref() {
            reader.section(&mut config, key.get_ref(), key.span().start, value.get_ref());
        }
        for rule in rules::broken(&config) {
            reader.add_key(rule.section, rule.key, rule.what);
        }
        reader.idle(&config);
    }
    let Reader { mut faults, notes, .. } = reader;
    faults.sort_by_key(|f| f.0);
    if faults.is_empty() {
        Ok(Loaded { config, notes })
    } else {
        Err(ConfigError { faults: faults.into_iter().map(|f| f.1).collect() })
    }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    /// Each with its line.
    faults: Vec<(usize, String)>,
    notes: Vec<Note>,
    /// Section and key of what the file sets, each with its place.
    set: Vec<(&'static str, &'static str, usize)>,
}

impl Reader<'_> {
    fn section(&mut self, config: &mut Config, name: &str, at: usize, value: &DeValue<'_>) {
        if name == Route::NAME {
            return self.routes(config, at, value);
        }
        if name == Feed::NAME {
            return self.feeds(config, at, value);
        }
        if name == Replay::NAME {
            return self.replays(config, at, value);
        }
        if name == Delay::NAME {
            return self.delays(config, at, value);
        }
        if name == Service::NAME {
            return self.services(config, at, value);
        }
        let mut sections = config.sections_mut();
        match (sections.iter_mut().find(|s| s.name() == name), value) {
            (Some(section), DeValue::Table(t)) => self.fill(*section, t),
            (Some(_), DeValue::Array(_)) => {
                self.add(at, &format!("{name} is a section: write [{name}] once, with one pair of brackets"));
            }
            (Some(_), _) => self.add(at, &format!("{name} is a section: write [{name}] and its keys below")),
            (None, _) => {
                let tables = [Route::NAME, Feed::NAME, Replay::NAME, Delay::NAME, Service::NAME];
                let names = sections.iter().map(|s| s.name()).chain(tables);
                let hint = match sections.iter().find(|s| s.infos().iter().any(|p| p.key == name)) {
                    Some(owner) => format!(": {name} is a key of [{}]", owner.name()),
                    None if let Some(ours) = rmds_name(name) => format!(": {name} is [{ours}] here"),
                    None => nearest(name, names).map_or(String::new(), |k| format!(": the nearest is {k}")),
                };
                self.add(at, &format!("there is no section called {name}{hint}"));
            }
        }
    }

    fn routes(&mut self, config: &mut Config, at: usize, value: &DeValue<'_>) {
        let DeValue::Array(list) = value else {
            return self.add(at, "routes are written [[route]], with two brackets");
        };
        for entry in list {
            let mut route = Route::default();
            match entry.get_ref() {
                DeValue::Table(t) => {
                    let (faults, keys) = (self.faults.len(), self.set.len());
                    self.fill(&mut route, t);
                    self.rules_of_route(&route, keys, entry.span().start);
                    // A host_list that cannot be read has its own message.
                    if route.host_list.is_empty() && (faults == self.faults.len() || !t.contains_key("host_list")) {
                        let what = "a route needs host_list, such as host_list = [\"localhost:14010\"]";
                        self.add(entry.span().start, what);
                    }
                }
                _ => self.add(entry.span().start, "a route is a table: write [[route]] and its keys below"),
            }
            config.routes.push(route);
        }
    }

    fn feeds(&mut self, config: &mut Config, at: usize, value: &DeValue<'_>) {
        let DeValue::Table(table) = value else {
            return self.add(at, "feeds are written [feed.NAME], each with a name of its own");
        };
        for (name, entry) in table {
            let DeValue::Table(keys) = entry.get_ref() else {
                self.add(name.span().start, "a feed has a name: write [feed.NAME] and its keys below");
                continue;
            };
            let (mut feed, faults) = (Feed::default(), self.faults.len());
            self.fill(&mut feed, keys);
            if feed.source.is_empty() && faults == self.faults.len() {
                let what = "a feed needs source, such as source = \"mold:233.54.12.111:26477,233.49.196.111:26477\"";
                self.add(name.span().start, what);
            }
            config.feeds.insert(name.get_ref().to_string(), feed);
        }
    }

    fn replays(&mut self, config: &mut Config, at: usize, value: &DeValue<'_>) {
        let DeValue::Table(table) = value else {
            return self.add(at, "replays are written [replay.NAME], each with a name of its own");
        };
        for (name, entry) in table {
            let DeValue::Table(keys) = entry.get_ref() else {
                self.add(name.span().start, "a replay has a name: write [replay.NAME] and its keys below");
                continue;
            };
            let (mut replay, faults) = (Replay::default(), self.faults.len());
            self.fill(&mut replay, keys);
            if let Some((key, what)) = replay::fault(&replay).filter(|_| faults == self.faults.len()) {
                let place = keys.iter().find(|(known, _)| known.get_ref() == key).map_or(name, |(known, _)| known);
                self.add(place.span().start, &format!("replay.{}.{key} {what}", name.get_ref()));
            }
            config.replays.insert(name.get_ref().to_string(), replay);
        }
    }

    fn delays(&mut self, config: &mut Config, at: usize, value: &DeValue<'_>) {
        let DeValue::Table(table) = value else {
            return self.add(at, "delayed services are written [delay.NAME], each with a name of its own");
        };
        for (name, entry) in table {
            let DeValue::Table(keys) = entry.get_ref() else {
                self.add(name.span().start, "a delayed service has a name: write [delay.NAME] and its keys below");
                continue;
            };
            let (mut delay, faults) = (Delay::default(), self.faults.len());
            self.fill(&mut delay, keys);
            let fault = delay::fault(name.get_ref(), &delay);
            if let Some((key, what)) = fault.filter(|_| faults == self.faults.len()) {
                let place = keys.iter().find(|(known, _)| known.get_ref() == key).map_or(name, |(known, _)| known);
                self.add(place.span().start, &format!("delay.{}.{key} {what}", name.get_ref()));
            }
            config.delays.insert(name.get_ref().to_string(), delay);
        }
    }

    fn services(&mut self, config: &mut Config, at: usize, value: &DeValue<'_>) {
        let DeValue::Table(table) = value else {
            return self.add(at, "services are written [service.NAME], each with the name of the service");
        };
        for (name, entry) in table {
            let DeValue::Table(keys) = entry.get_ref() else {
                let what = "a service has a name: write [service.NAME] and its keys below";
                self.add(name.span().start, what);
                continue;
            };
            let (mut service, known) = (Service::default(), self.set.len());
            self.fill(&mut service, keys);
            if let Some((key, what)) = service.fault() {
                let at = self.set[known..].iter().find(|(_, set, _)| *set == key).map_or(at, |of| of.2);
                self.add(at, &format!("service.{}.{key} {what}", name.get_ref()));
            }
            config.services.insert(name.get_ref().to_string(), service);
        }
    }

    /// Faults and idle parameters in a route that begins at `at`, and has set the keys behind the first `keys`.
    fn rules_of_route(&mut self, route: &Route, keys: usize, at: usize) {
        let place = |set: &[(_, &str, usize)], key| set[keys..].iter().find(|(_, k, _)| *k == key).map(|known| known.2);
        if let Some(rule) = rules::of_route(route) {
            let at = place(&self.set, rule.key).unwrap_or(at);
            self.add(at, &format!("{}.{} {}", rule.section, rule.key, rule.what));
        }
        for idle in rules::idle_of_route(route) {
            if let Some(at) = place(&self.set, idle.key)
                && let Some(text) = idle.sentence(route, &format!("{}.{}", idle.section, idle.key))
            {
                let line = self.line(at);
                self.notes.push(Note { line, file: self.name.to_owned(), weight: Weight::Information, text });
            }
        }
    }

    fn fill(&mut self, section: &mut dyn AnySection, table: &DeTable<'_>) {
        let infos = section.infos();
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            if let Some(index) = infos.iter().position(|p| p.key == name) {
                self.set.push((section.name(), infos[index].key, at));
                if let Err(e) = section.set(index, &raw(value.get_ref())) {
                    self.add(value.span().start, &format!("{}.{name}: {e}", section.name()));
                }
            } else if let Some(known) = effect::of_key(section.rmds(), name) {
                let text = format!("{}.{name} has no effect here: {}", section.name(), known.why());
                let line = self.line(at);
                self.notes.push(Note { line, file: self.name.to_owned(), weight: Weight::Warning, text });
            } else {
                self.unknown(section, name, at);
            }
        }
    }

    /// Parameters that are set and have no effect because of something else.
    fn idle(&mut self, config: &Config) {
        let sections = config.sections();
        for idle in rules::idle(config) {
            let Some(&(.., at)) = self.set.iter().find(|(s, k, _)| *s == idle.section && *k == idle.key) else {
                continue;
            };
            let section = sections.iter().find(|s| s.name() == idle.section).expect("its section");
            if let Some(text) = idle.sentence(*section, &format!("{}.{}", idle.section, idle.key)) {
                let line = self.line(at);
                self.notes.push(Note { line, file: self.name.to_owned(), weight: Weight::Information, text });
            }
        }
    }

    fn unknown(&mut self, section: &dyn AnySection, name: &str, at: usize) {
        let infos = section.infos();
        let defaults = Config::default();
        let (route, feed) = (Route::default(), Feed::default());
        let (replay, delay, service) = (Replay::default(), Delay::default(), Service::default());
        let tables = [&route as &dyn AnySection, &feed, &replay, &delay, &service];
        let owner = (defaults.sections().into_iter().chain(tables)).find(|s| s.infos().iter().any(|p| p.key == name));
        let hint = match owner {
            Some(owner) => format!(": it belongs to [{}]", owner.name()),
            None => {
                nearest(name, infos.iter().map(|p| p.key)).map_or(String::new(), |k| format!(": the nearest is {k}"))
            }
        };
        self.add(at, &format!("there is no key in [{}] called {name}{hint}", section.name()));
    }

    fn line(&self, offset: usize) -> usize {
        self.text.get(..offset).unwrap_or(self.text).matches('\n').count() + 1
    }

    fn add(&mut self, offset: usize, what: &str) {
        let line = self.line(offset);
        self.faults.push((line, format!("{}:{line}: {what}", self.name)));
    }

    /// For a rule between parameters: points at the key's line where the file has it, else at the section's.
    fn add_key(&mut self, section: &str, key: &str, what: &str) {
        let start = self.text.find(&format!("[{section}]")).unwrap_or(0);
        let at = self.text[start..].find(key).map_or(start, |o| start + o);
        self.add(at, &format!("{section}.{key} {what}"));
    }
}

/// Our section for a component's name in RMDS.
fn rmds_name(name: &str) -> Option<&'static str> {
    match name.to_lowercase().as_str() {
        "ads" => Some(P2ps::NAME),
        "adh" | "src_dist" => Some(SourceDistributor::NAME),
        "rrcp" | "rrcpd" => Some(Hub::NAME),
        _ => None,
    }
}

fn raw<'a>(value: &'a DeValue<'_>) -> Raw<'a> {
    match value {
        DeValue::Boolean(b) => Raw::Bool(*b),
        DeValue::String(s) => Raw::Text(s),
        DeValue::Integer(i) => {
            i64::from_str_radix(i.as_str(), i.radix()).map_or(Raw::Other("a number out of range"), Raw::Int)
        }
        DeValue::Array(list) => list
            .iter()
            .map(|v| v.get_ref().as_str())
            .collect::<Option<Vec<_>>>()
            .map_or(Raw::Other("a list of something else than texts"), Raw::List),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
