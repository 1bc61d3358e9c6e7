//! Lines that name a service below its route: `*Src_Dist*ROUTE.route*SERVICE*parameter`, as site files of an ADH 3.2 have them (LSEG-API-Samples,
//! Example.WebSocketAPI.Posting.TRCC, `rmds_trcc.cnf`).
//!
//! A route here has one value for all of its services. So the service is taken out of the key, if the route's `serviceList` has it; a name that is not there stays, and
//! is a level that nobody knows.

use super::catalogue::Catalogue;
use super::components::{SRC_DIST, is_component};
use super::lookup::{Level, level_weights};
use super::syntax::{Line, Word};
use std::collections::BTreeSet;

/// A line of which the service was taken out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The line's number.
    pub(super) line: usize,
    /// The key as it stands in the file.
    pub(super) key: String,
    /// Services of the route, this one among them.
    pub(super) services: usize,
}

/// Services that a file says a route has, by the route's name.
struct Listed<'a> {
    route: &'a str,
    services: Vec<&'a str>,
}

/// Takes the services of routes out of the keys that mean something without them, and nothing with them. Such lines go behind all others: of two that are alike but for
/// the service, the one that names it counts.
pub(super) fn take_out(lines: &mut [Line], catalogue: &Catalogue) -> Vec<Taken> {
    let listed: Vec<(String, Vec<String>)> = lines.iter().filter_map(list_of).map(Listed::owned).collect();
    let mut all = Vec::new();
    for line in &mut *lines {
        let Some((at, services)) = service_at(line, &listed) else { continue };
        if catalogue.meaning(&line.key).is_ok() {
            continue;
        }
        let mut key = line.key.clone();
        let (binding, _) = key.words.remove(at);
        // The level that was the next below the service is some level below the route.
        key.words[at].0 = binding;
        if catalogue.meaning(&key).is_ok() {
            let before = std::mem::replace(&mut line.key, key);
            all.push(Taken { line: line.number, key: before.to_string(), services });
        }
    }
    let taken: BTreeSet<usize> = all.iter().map(|taken: &Taken| taken.line).collect();
    lines.sort_by_key(|line| taken.contains(&line.number));
    all
}

impl Listed<'_> {
    fn owned(self) -> (String, Vec<String>) {
        (self.route.to_owned(), self.services.into_iter().map(str::to_owned).collect())
    }
}

/// The services that a line lists of one route.
fn list_of(line: &Line) -> Option<Listed<'_>> {
    let levels = [Level::Named(SRC_DIST), Level::Free, Level::Is("route"), Level::Is("serviceList")];
    level_weights(&line.key.words, &levels)?;
    let (at, _) = route_word(line)?;
    let Word::Name(route) = &line.key.words[at].1 else { return None };
    let services = line.value.split([',', ' ', '\t']).filter(|name| !name.is_empty()).collect();
    Some(Listed { route, services })
}

/// Where a line names its route, and the word behind `route`.
fn route_word(line: &Line) -> Option<(usize, usize)> {
    let words = &line.key.words;
    let is_route = |word: &Word| matches!(word, Word::Name(name) if name.eq_ignore_ascii_case("route"));
    let at = words.iter().position(|(_, word)| is_route(word))?;
    Some((at.checked_sub(1)?, at + 1))
}

/// Where a line names a service of its route, with something behind it, and how many services the route has.
fn service_at(line: &Line, listed: &[(String, Vec<String>)]) -> Option<(usize, usize)> {
    let (route_at, at) = route_word(line)?;
    let words = &line.key.words;
    let (Word::Name(route), Some((_, Word::Name(service)))) = (&words[route_at].1, words.get(at)) else { return None };
    if at + 1 >= words.len() || is_component(service) {
        return None;
    }
    let of_route = listed.iter().filter(|(name, _)| name.eq_ignore_ascii_case(route));
    let has = |services: &&Vec<String>| services.iter().any(|name| name.eq_ignore_ascii_case(service));
    of_route.map(|(_, services)| services).find(has).map(|services| (at, services.len()))
}
