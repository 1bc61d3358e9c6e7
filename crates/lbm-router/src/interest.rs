//! Interest of domains and routers: topics and patterns, at which places, and by which routers that was heard.

use std::collections::{BTreeMap, BTreeSet};

use lbm::wire::lbmr::PatternKind;
use regex_lite::{Regex, RegexBuilder};

use crate::ids::{PATH_MAX, Path, PortalId, RouterId};

/// Bytes that a pattern may take when it is made ready.
const PATTERN_BYTES_MAX: usize = 32_768;

/// A topic, or a pattern of topics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interest {
    /// 0 a topic, 1 PCRE, 2 POSIX.
    kind: u8,
    name: Box<str>,
}

impl Interest {
    /// Of a topic, or of a pattern.
    pub fn new(pattern: Option<PatternKind>, name: &str) -> Self {
        let kind = match pattern {
            None => 0,
            Some(PatternKind::Regex) => 2,
            Some(_) => 1,
        };
        Self { kind, name: name.into() }
    }

    /// How the name is to be understood; `None`: it is a topic.
    pub fn pattern(&self) -> Option<PatternKind> {
        match self.kind {
            0 => None,
            2 => Some(PatternKind::Regex),
            _ => Some(PatternKind::Pcre),
        }
    }

    /// Topic or pattern.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl core::fmt::Display for Interest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.kind == 0 { "topic " } else { "pattern " })?;
        f.write_str(&self.name)
    }
}

/// Where interest is: a domain at a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The router that heard it in its domain.
    pub router: RouterId,
    /// The domain.
    pub domain: u32,
}

/// How interest of a place has come here, and whom it was told.
#[derive(Debug, Default)]
struct Reach {
    /// Heard in a domain of this router.
    here: bool,
    /// By peer portal: the routers that it has passed.
    by: BTreeMap<PortalId, Path>,
    /// Told to peer portals, with these routers.
    told: BTreeMap<PortalId, Path>,
}

#[derive(Debug, Default)]
struct Wanted {
    places: BTreeMap<Place, Reach>,
    pattern: Option<Regex>,
}

/// A peer to whom interest is told.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    /// The portal that leads there.
    pub portal: PortalId,
    /// The router there.
    pub router: RouterId,
}

/// News for a neighbour: the path to be told, or none any more.
#[derive(Debug, PartialEq, Eq)]
pub struct News {
    /// To whom.
    pub portal: PortalId,
    /// Where the interest is.
    pub place: Place,
    /// By which routers; `None`: not any more.
    pub path: Option<Path>,
}

/// All interest that a router knows.
#[derive(Debug)]
pub struct Interests {
    router: RouterId,
    all: BTreeMap<Interest, Wanted>,
    patterns: BTreeSet<Interest>,
    /// Entries of peer portals, for their bounds.
    count: BTreeMap<PortalId, usize>,
}

impl Interests {
    /// Nobody wants anything.
    pub fn new(router: RouterId) -> Self {
        Self { router, all: BTreeMap::new(), patterns: BTreeSet::new(), count: BTreeMap::new() }
    }

    /// How many topics and patterns are wanted.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many entries a peer portal has brought.
    pub fn count_of(&self, portal: PortalId) -> usize {
        self.count.get(&portal).copied().unwrap_or(0)
    }

    /// The topics and patterns that are wanted.
    pub fn iter(&self) -> impl Iterator<Item = &Interest> {
        self.all.keys()
    }

    /// The entry of an interest. `None`: it is a pattern that cannot be used.
    fn wanted(&mut self, interest: &Interest) -> Option<&mut Wanted> {
        if !self.all.contains_key(interest) {
            let mut wanted = Wanted::default();
            if interest.pattern().is_some() {
                let regex = RegexBuilder::new(interest.name()).size_limit(PATTERN_BYTES_MAX).build().ok()?;
                wanted.pattern = Some(regex);
                self.patterns.insert(interest.clone());
            }
            self.all.insert(interest.clone(), wanted);
        }
        self.all.get_mut(interest)
    }

    /// Somebody in a domain of this router wants it, or nobody does any more. False: nothing has changed, or it is no pattern.
    pub fn set_here(&mut self, interest: &Interest, domain: u32, on: bool) -> bool {
        let place = Place { router: self.router, domain };
        if !on && !self.all.contains_key(interest) {
            return false;
        }
        let Some(wanted) = self.wanted(interest) else { return false };
        let reach = wanted.places.entry(place).or_default();
        let changed = reach.here != on;
        reach.here = on;
        changed
    }

    /// A neighbour tells of interest: `Some(path)`, or of its end. False: nothing has changed. A path that names this router is the
    /// same as none: what the neighbour knows came from here.
    pub fn set_by(&mut self, portal: PortalId, interest: &Interest, place: Place, path: Option<Path>) -> bool {
        let path = path.filter(|path| !path.contains(&self.router) && place.router != self.router);
        if path.is_none() && !self.all.contains_key(interest) {
            return false;
        }
        let Some(wanted) = self.wanted(interest) else { return false };
        let reach = wanted.places.entry(place).or_default();
        let same = reach.by.get(&portal) == path.as_ref();
        let (had, has) = (reach.by.contains_key(&portal), path.is_some());
        match path {
            Some(path) => drop(reach.by.insert(portal, path)),
            None => drop(reach.by.remove(&portal)),
        }
        let count = self.count.entry(portal).or_default();
        *count = *count + usize::from(has) - usize::from(had);
        !same
    }

    /// The connection of a portal is over: all that it has brought, and been told, is forgotten. Returns what has changed.
    pub fn forget(&mut self, portal: PortalId) -> Vec<Interest> {
        let mut changed = Vec::new();
        for (interest, wanted) in &mut self.all {
            let mut any = false;
            for reach in wanted.places.values_mut() {
                any |= reach.by.remove(&portal).is_some();
                reach.told.remove(&portal);
            }
            if any {
                changed.push(interest.clone());
            }
        }
        self.count.remove(&portal);
        changed
    }

    /// News for neighbours of an interest that has changed; they count as told. Forgets the interest if nobody wants it.
    pub fn tell(&mut self, interest: &Interest, neighbours: &[Neighbour], mut each: impl FnMut(News)) {
        let router = self.router;
        let Some(wanted) = self.all.get_mut(interest) else { return };
        wanted.places.retain(|place, reach| {
            for neighbour in neighbours {
                let path = reach.path_for(router, *neighbour);
                if reach.told.get(&neighbour.portal) == path.as_ref() {
                    continue;
                }
                match &path {
                    Some(path) => drop(reach.told.insert(neighbour.portal, path.clone())),
                    None => drop(reach.told.remove(&neighbour.portal)),
                }
                each(News { portal: neighbour.portal, place: *place, path });
            }
            reach.here || !reach.by.is_empty()
        });
        if wanted.places.is_empty() {
            self.all.remove(interest);
            self.patterns.remove(interest);
        }
    }

    /// Whether a source of the interest in a domain would be wanted anywhere.
    pub fn is_wanted_outside(&self, interest: &Interest, domain: u32) -> bool {
        self.all.get(interest).is_some_and(|wanted| {
            wanted.places.iter().any(|(place, reach)| place.domain != domain && (reach.here || !reach.by.is_empty()))
        })
    }

    /// Whether an interest is for the topic.
    pub fn matches(&self, interest: &Interest, topic: &str) -> bool {
        match self.all.get(interest).and_then(|wanted| wanted.pattern.as_ref()) {
            Some(pattern) => pattern.is_match(topic),
            None => interest.name() == topic,
        }
    }

    /// Whether somebody in a domain of this router wants the topic.
    pub fn wants_here(&self, topic: &str, domain: u32) -> bool {
        let place = Place { router: self.router, domain };
        self.any(topic, |wanted| wanted.places.get(&place).is_some_and(|reach| reach.here))
    }

    /// Whether somebody beyond a peer portal, outside of a domain, wants the topic.
    pub fn wants_by(&self, topic: &str, portal: PortalId, domain: u32) -> bool {
        self.any(topic, |wanted| {
            wanted.places.iter().any(|(place, reach)| place.domain != domain && reach.by.contains_key(&portal))
        })
    }

    fn any(&self, topic: &str, mut of: impl FnMut(&Wanted) -> bool) -> bool {
        if self.all.get(&Interest::new(None, topic)).is_some_and(&mut of) {
            return true;
        }
        self.patterns
            .iter()
            .filter_map(|interest| self.all.get(interest))
            .any(|wanted| wanted.pattern.as_ref().is_some_and(|pattern| pattern.is_match(topic)) && of(wanted))
    }

    /// Asserts what holds between calls: for simulations.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        for (interest, wanted) in &self.all {
            for (place, reach) in &wanted.places {
                for (portal, path) in &reach.by {
                    let mut routers = path.clone();
                    routers.sort_unstable();
                    routers.dedup();
                    assert_eq!(routers.len(), path.len(), "{interest}: a circle by {portal:?}: {path:?}");
                    assert!(!path.contains(&self.router), "{interest}: by ourselves");
                    assert_eq!(path.last(), Some(&place.router), "{interest}: a path that ends elsewhere");
                }
            }
        }
    }
}

impl Reach {
    /// The path that a neighbour is told: this router and the shortest way from here that the neighbour is not a part of.
    fn path_for(&self, router: RouterId, neighbour: Neighbour) -> Option<Path> {
        if self.here {
            return Some(vec![router]);
        }
        let ways = self.by.iter().filter(|(portal, path)| {
            **portal != neighbour.portal && !path.contains(&neighbour.router) && path.len() < PATH_MAX
        });
        let best = ways.map(|(_, path)| path).min_by(|a, b| (a.len(), a).cmp(&(b.len(), b)))?;
        Some(core::iter::once(router).chain(best.iter().copied()).collect())
    }
}
