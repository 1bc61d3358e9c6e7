//! Which parameters there are, at which levels they stand, and what a line's key means.

use super::components::{ANY_COMPONENT, P2PS, RRCP, SRC_DIST, is_component, near_component};
use super::lookup::{Level, level_weights};
use super::syntax::{Binding, Key, Word};
use crate::effect::{Kind, NoEffect, TABLE};
use crate::{AnySection, Config, Route, Section, Service, SourceConflation, nearest};

/// The scope of a list with an entry for each service.
const SERVICES: &str = "SERVICES";

/// A parameter of ours, as it stands in an `rmds.cnf`.
#[derive(Debug, Clone)]
pub(crate) struct Mapped {
    /// The section in our configuration.
    pub(crate) section: &'static str,
    /// The index of the parameter within it.
    pub(crate) index: usize,
    /// The parameter's key.
    pub(crate) key: &'static str,
    /// RMDS's name.
    pub(crate) name: &'static str,
    /// The factor from RMDS's unit to ours.
    pub(crate) factor: i64,
    components: &'static [&'static str],
    scope: &'static str,
    /// A value for all, of which a route may have its own.
    pub(crate) is_of_routes: bool,
}

/// Names that levels have when a parameter is looked up; without one, any name fits there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    /// The port on which the P2PS listens.
    pub(crate) port: Option<&'a str>,
    /// The route.
    pub(crate) route: Option<&'a str>,
}

impl Mapped {
    /// The levels at which the parameter stands, with and without (`None`) those that may be left out.
    fn shapes<'a>(&'a self, given: Given<'a>) -> Vec<Vec<Option<Level<'a>>>> {
        let mut shapes = vec![vec![Some(Level::Named(self.components))]];
        let is = |name: Option<&'a str>| name.map_or(Level::Free, Level::Is);
        for part in self.scope.split('*').filter(|p| !p.is_empty()) {
            let (level, optional) = match part {
                "PORT" => (is(given.port), true),
                "ROUTE" => (is(given.route), true),
                "SERVICE" | SERVICES => (Level::Free, true),
                name => (Level::Is(name), self.is_shared()),
            };
            let without = if optional { shapes.clone() } else { Vec::new() };
            let with = shapes.into_iter().map(|s| (s, Some(level)));
            shapes = with
                .chain(without.into_iter().map(|s| (s, None)))
                .map(|(mut shape, level)| {
                    shape.push(level);
                    shape
                })
                .collect();
        }
        for shape in &mut shapes {
            shape.push(Some(Level::Is(self.name)));
        }
        shapes
    }

    /// How specifically a key names this parameter, a number a level; `None` if it does not.
    pub(crate) fn weigh(&self, key: &Key, given: Given<'_>) -> Option<Vec<u8>> {
        if !self.has_levels_of_service(key) {
            return None;
        }
        let weigh = |shape: &Vec<Option<Level<'_>>>| {
            let levels: Vec<Level<'_>> = shape.iter().copied().flatten().collect();
            let mut weights = level_weights(&key.words, &levels)?.into_iter();
            Some(shape.iter().map(|level| if level.is_some() { weights.next().unwrap_or(0) } else { 0 }).collect())
        };
        self.shapes(given).iter().filter_map(weigh).max()
    }

    /// Whether it is a list of ours, with an entry for each service that a line names.
    pub(crate) fn is_by_service(&self) -> bool {
        self.scope == SERVICES
    }

    /// The levels between a service and the name.
    fn levels_of_service(&self) -> impl DoubleEndedIterator<Item = &'static str> {
        let levels = self.scope.strip_prefix("SERVICE*").unwrap_or_default();
        levels.split('*').filter(|level| !level.is_empty())
    }

    /// Whether a key has these levels, which no line may leave out: their names, such as `enable`, say too little without.
    fn has_levels_of_service(&self, key: &Key) -> bool {
        let mut before = key.words.iter().rev().skip(1).map(|(_, word)| word);
        self.levels_of_service().rev().all(|level| match before.next() {
            Some(Word::Name(name)) => name.eq_ignore_ascii_case(level),
            Some(Word::Any) | None => false,
        })
    }

    /// The service that a line of this parameter names: the word before its own levels and its name.
    pub(crate) fn service_of<'k>(&self, key: &'k Key) -> Option<&'k str> {
        match key.words.len().checked_sub(2 + self.levels_of_service().count()).map(|at| &key.words[at].1) {
            Some(Word::Name(name)) if !is_component(name) => Some(name),
            _ => None,
        }
    }

    /// Whether a line may be for one service: such a one is for a [`Service`], and one without a service for all.
    pub(crate) fn is_of_services(&self) -> bool {
        self.scope.split('*').next() == Some("SERVICE")
    }

    /// Whether RMDS has a value for each route and we have one for all.
    pub(crate) fn is_shared(&self) -> bool {
        self.section != Route::NAME && self.scope.starts_with("ROUTE")
    }

    /// How it is written.
    pub(crate) fn example(&self) -> String {
        match self.section {
            _ if self.is_of_services() => format!("*{}*{}", self.scope, self.name),
            _ if self.is_by_service() && self.components == ANY_COMPONENT => format!("*SERVICE*{}", self.name),
            _ if self.is_by_service() => format!("*{}*SERVICE*{}", self.components[0], self.name),
            Route::NAME => {
                let levels = self.scope.strip_prefix("ROUTE*").unwrap_or(self.scope);
                format!("*{}*NAME.{levels}*{}", self.components[0], self.name)
            }
            _ if self.scope.is_empty() || self.scope == "PORT" || self.scope.starts_with("ROUTE") => {
                format!("*{}*{}", self.components[0], self.name)
            }
            _ => format!("*{}*{}*{}", self.components[0], self.scope, self.name),
        }
    }
}

/// The meaning of a key.
pub(crate) enum Meaning<'a> {
    /// Parameters of ours; several for a key such as `*tcpNoDelay`.
    Mapped(Vec<&'a Mapped>),
    /// `routeList`: the routes that are dialled.
    RouteList,
    /// `bindWriteThread.N`: processors of the thread of this number, from 1.
    BindWriteThread(usize),
    /// A known parameter that has no effect here.
    NoEffect(&'static NoEffect, &'static str),
}

/// Every parameter that an `rmds.cnf` may name.
pub(crate) struct Catalogue {
    mapped: Vec<Mapped>,
}

impl Catalogue {
    /// All of them.
    pub(crate) fn new() -> Self {
        let config = Config::default();
        let (route, service) = (Route::default(), Service::default());
        let mut mapped = Vec::new();
        for section in config.sections().into_iter().chain([&route as &dyn AnySection, &service]) {
            for (index, info) in section.infos().into_iter().enumerate() {
                for name in info.rmds.split('|').filter(|n| !n.is_empty()) {
                    let (components, scope) = match (section.rmds(), info.scope) {
                        ("P2PS", "") if name != "rsslPort" => (P2PS, "PORT"),
                        // A P2PS has parameters of the same names.
                        _ if section.name() == SourceConflation::NAME => (SRC_DIST, info.scope),
                        (_, scope) if scope.split('*').next() == Some("SERVICE") => (ANY_COMPONENT, scope),
                        // A service has one id, whoever asks.
                        ("P2PS", SERVICES) if name == "serviceId" => (ANY_COMPONENT, SERVICES),
                        ("Src_Dist", SERVICES) => (ANY_COMPONENT, SERVICES),
                        (_, "PROCESS") => (ANY_COMPONENT, ""),
                        ("P2PS", scope) => (P2PS, scope),
                        ("route", "") => (SRC_DIST, "ROUTE*route"),
                        ("route", "datastreamMonitor") => (SRC_DIST, "ROUTE*route*datastreamMonitor"),
                        ("route", scope) => unreachable!("a route has no level {scope}"),
                        ("RRCP", scope) => (RRCP, scope),
                        (_, scope) => (SRC_DIST, scope),
                    };
                    let (section, key, factor) = (section.name(), info.key, info.factor);
                    let is_of_routes = false;
                    mapped.push(Mapped { section, index, key, name, factor, components, scope, is_of_routes });
                }
            }
        }
        let of_routes: Vec<&str> = mapped.iter().filter(|m| m.section == Route::NAME).map(|m| m.name).collect();
        for of_all in mapped.iter_mut().filter(|m| m.is_shared()) {
            of_all.is_of_routes = of_routes.contains(&of_all.name);
        }
        Self { mapped }
    }

    /// The parameters of ours, those of one section in their order.
    pub(crate) fn mapped(&self) -> &[Mapped] {
        &self.mapped
    }

    /// The meaning of a key.
    ///
    /// # Errors
    /// What is wrong with it and what to write.
    pub(crate) fn meaning(&self, key: &Key) -> Result<Meaning<'_>, String> {
        let names_component = |(_, w): &(Binding, Word)| matches!(w, Word::Name(n) if is_component(n));
        if let Some(host) = key.host.as_deref().filter(|h| is_component(h))
            && !key.words.iter().any(names_component)
        {
            return Err(format!("{host} stands where a host stands: write *{key}"));
        }
        let found: Vec<&Mapped> = self.mapped.iter().filter(|m| m.weigh(key, Given::default()).is_some()).collect();
        if !found.is_empty() {
            return Ok(Meaning::Mapped(found));
        }
        if level_weights(&key.words, &[Level::Named(SRC_DIST), Level::Is("routeList")]).is_some() {
            return Ok(Meaning::RouteList);
        }
        if let Some(number) = bind_write_thread(key)? {
            return Ok(Meaning::BindWriteThread(number));
        }
        for entry in TABLE {
            for (name, _) in entry.names() {
                if no_effect_fits(entry.kind, name, key) {
                    return Ok(Meaning::NoEffect(entry, name));
                }
            }
        }
        Err(self.what_is_wrong(key))
    }

    fn what_is_wrong(&self, key: &Key) -> String {
        let names: Vec<&str> =
            key.words.iter().map(|(_, w)| if let Word::Name(n) = w { n.as_str() } else { "?" }).collect();
        let (leaf, levels) = names.split_last().expect("a key has a word");
        let component = levels.iter().find(|w| is_component(w));
        let owners = self.owners(leaf);
        if owners.is_empty() {
            if is_component(leaf) {
                return format!("`{key}` names a component and no parameter of it");
            }
            let within = self.names_of(component.copied());
            let whose = component.map_or(String::new(), |c| format!(" of {c}"));
            return match nearest(leaf, within.into_iter()) {
                Some(near) => format!("there is no parameter{whose} called {leaf}: the nearest is {near}"),
                None => format!("there is no parameter{whose} called {leaf}: `quoteway config` shows them all"),
            };
        }
        let near = levels.iter().find_map(|w| near_component(w).map(|n| (w, n)));
        if let (None, Some((word, near))) = (component, near) {
            return format!("there is no component called {word}: the nearest is {near}");
        }
        if leaf.eq_ignore_ascii_case("bindWriteThread") {
            return format!("{leaf} needs the number of the thread: write {}", owners[0]);
        }
        let owners = owners.join(" or ");
        match component {
            Some(c) if !owners.to_lowercase().contains(&format!("*{}*", c.to_lowercase())) => {
                format!("{leaf} does not belong to {c}: write {owners}")
            }
            _ => format!("{leaf} has no level called {}: write {owners}", levels.last().unwrap_or(&"")),
        }
    }

    /// How the keys of the parameters called `leaf` are written.
    fn owners(&self, leaf: &str) -> Vec<String> {
        let mut found: Vec<String> =
            self.mapped.iter().filter(|m| m.name.eq_ignore_ascii_case(leaf)).map(Mapped::example).collect();
        if leaf.eq_ignore_ascii_case("routeList") {
            found.push("*Src_Dist*routeList".into());
        }
        if leaf.eq_ignore_ascii_case("bindWriteThread") {
            found.push("*P2PS*bindWriteThread.1".into());
        }
        for entry in TABLE {
            for (name, _) in entry.names() {
                if name.rsplit('*').next().is_some_and(|last| last.eq_ignore_ascii_case(leaf)) {
                    found.push(format!("{}{name}", entry.kind.prefix()));
                }
            }
        }
        found.dedup();
        found
    }

    /// The names of the parameters, of one component or of all.
    fn names_of(&self, component: Option<&str>) -> Vec<&'static str> {
        let is = |list: &[&str]| component.is_none_or(|c| list.iter().any(|n| n.eq_ignore_ascii_case(c)));
        let mut names: Vec<&'static str> = self.mapped.iter().filter(|m| is(m.components)).map(|m| m.name).collect();
        for entry in TABLE {
            let of = match entry.kind {
                Kind::P2ps => is(P2PS),
                Kind::SrcDist | Kind::Route => is(SRC_DIST),
                Kind::Service => is(ANY_COMPONENT),
                Kind::Rrcp => is(RRCP),
            };
            if of {
                names.extend(entry.names().filter_map(|(n, _)| n.rsplit('*').next()).filter(|n| *n != "N"));
            }
        }
        names
    }
}

fn bind_write_thread(key: &Key) -> Result<Option<usize>, String> {
    let name = Level::Is("bindWriteThread");
    if level_weights(&key.words, &[Level::Named(P2PS), name, Level::Free]).is_none() {
        return Ok(None);
    }
    let Some((Binding::Tight | Binding::Loose, Word::Name(number))) = key.words.last() else { return Ok(None) };
    if !key.words.iter().any(|(_, w)| matches!(w, Word::Name(n) if n.eq_ignore_ascii_case("bindWriteThread"))) {
        return Ok(None);
    }
    match number.parse() {
        Ok(n @ 1..=64) => Ok(Some(n)),
        _ if number.eq_ignore_ascii_case("bindWriteThread") => Ok(None),
        _ => Err(format!("bindWriteThread.{number}: the threads are numbered from 1 to 64")),
    }
}

/// Whether a key may name the parameter `name` of this kind. What has no effect may stand at any level of its component.
fn no_effect_fits(kind: Kind, name: &str, key: &Key) -> bool {
    let own: Vec<&str> = name.split('*').collect();
    let Some(levels) = key.words.len().checked_sub(own.len()) else { return false };
    let (before, words) = key.words.split_at(levels);
    let same = own.iter().zip(words).all(|(own, (_, word))| match word {
        Word::Name(w) if *own == "N" => w.parse::<u16>().is_ok(),
        Word::Name(w) => own.eq_ignore_ascii_case(w),
        Word::Any => true,
    });
    let named = |at: usize, names: &[&str]| match before.get(at) {
        Some((_, Word::Name(w))) => names.iter().any(|n| n.eq_ignore_ascii_case(w)),
        Some((_, Word::Any)) => true,
        None => false,
    };
    let route = || before.iter().any(|(_, w)| matches!(w, Word::Name(n) if n.eq_ignore_ascii_case("route")));
    same && match kind {
        _ if before.is_empty() => true,
        Kind::P2ps => named(0, P2PS),
        Kind::SrcDist => named(0, SRC_DIST) && !route(),
        Kind::Route => route() || named(0, SRC_DIST),
        Kind::Rrcp => named(0, RRCP),
        Kind::Service => {
            let backbone = matches!(&before[0].1, Word::Name(w) if RRCP.iter().any(|n| n.eq_ignore_ascii_case(w)));
            !backbone && (before.len() == 1 || before.len() == 2 && named(0, ANY_COMPONENT))
        }
    }
}
