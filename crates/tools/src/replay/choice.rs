//! The part of recordings that is served, and its names.

use anyhow::anyhow;
use permissions::rights::Pattern;
use record::{Folder, Item, Recording};
use rwf::msg::Domain;
use std::collections::BTreeSet;

/// Another name for items: a name, or what is around a `*`, and the same of the new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming {
    from: Shape,
    to: Shape,
}

/// A name, or what is before and behind a `*` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Name(String),
    Around(String, String),
}

impl Shape {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('*') {
            None => (!text.is_empty()).then(|| Self::Name(text.to_owned())),
            Some((_, rest)) if rest.contains('*') => None,
            Some((before, behind)) => Some(Self::Around(before.to_owned(), behind.to_owned())),
        }
    }
}

impl Renaming {
    /// `FROM=TO`.
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let refused = || {
            anyhow!(
                "write FROM=TO: IBM.N=IBM.XX for a name, *.N=*.XX or *=TEST.* for many; each side has one * or none"
            )
        };
        let (from, to) = text.split_once('=').ok_or_else(refused)?;
        match (Shape::parse(from), Shape::parse(to)) {
            (Some(from @ Shape::Name(_)), Some(to @ Shape::Name(_)))
            | (Some(from @ Shape::Around(..)), Some(to @ Shape::Around(..))) => Ok(Self { from, to }),
            _ => Err(refused()),
        }
    }

    fn apply(&self, name: &str) -> Option<String> {
        match (&self.from, &self.to) {
            (Shape::Name(from), Shape::Name(to)) => (name == from).then(|| to.clone()),
            (Shape::Around(before, behind), Shape::Around(new_before, new_behind)) => {
                let star = name.strip_prefix(before.as_str())?.strip_suffix(behind.as_str())?;
                Some(format!("{new_before}{star}{new_behind}"))
            }
            _ => None,
        }
    }
}

/// What is chosen.
#[derive(Debug)]
pub(super) struct Choice {
    /// Recorded services, and the names under which they are served.
    services: Vec<(String, String)>,
    domains: Vec<u8>,
    patterns: Vec<Pattern>,
    renamings: Vec<Renaming>,
}

impl Choice {
    /// Chosen among what recordings have: services (all without), their new names, domains and patterns (all without), other names of items.
    ///
    /// # Errors
    /// A text for the user.
    pub(super) fn new(args: &super::Args, recordings: &[Recording<Folder>]) -> anyhow::Result<Self> {
        let of_items = |item: &&Item| is_item(item);
        let known: BTreeSet<&str> =
            recordings.iter().flat_map(Recording::items).filter(of_items).map(|item| &*item.service).collect();
        let all = || known.iter().copied().collect::<Vec<_>>().join(", ");
        if let Some(name) = args.services.iter().find(|name| !known.contains(name.as_str())) {
            return Err(anyhow!("the recording has no service {name}; it has {}", all()));
        }
        let is_chosen = |name: &str| args.services.is_empty() || args.services.iter().any(|chosen| chosen == name);
        let mut services: Vec<(String, String)> =
            known.iter().filter(|name| is_chosen(name)).map(|name| ((*name).to_owned(), (*name).to_owned())).collect();
        if services.is_empty() {
            return Err(anyhow!("the recording has no items"));
        }
        for text in &args.served_as {
            match (text.split_once('='), &mut services[..]) {
                (None, [(_, served)]) => text.clone_into(served),
                (None, _) => {
                    return Err(anyhow!(
                        "there are several services, {}: write --as OLD=NEW, or choose with --service",
                        all()
                    ));
                }
                (Some((old, new)), services) => match services.iter_mut().find(|(recorded, _)| recorded == old) {
                    Some((_, served)) => new.clone_into(served),
                    None => {
                        return Err(anyhow!("--as {text}: no service {old} is replayed; the recording has {}", all()));
                    }
                },
            }
        }
        let patterns = args.items.iter().map(|text| Pattern::parse(text).map_err(|e| anyhow!("--item: {e}")));
        Ok(Self {
            services,
            domains: args.domains.clone(),
            patterns: patterns.collect::<anyhow::Result<_>>()?,
            renamings: args.renamings.clone(),
        })
    }

    /// Names of the services that are served.
    pub(super) fn names(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.services.iter().map(|(_, served)| served).collect();
        names.into_iter().cloned().collect()
    }

    /// The recorded services that are one of these.
    pub(super) fn recorded<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s str> {
        self.services.iter().filter(move |(_, served)| served == name).map(|(recorded, _)| recorded.as_str())
    }

    /// Under which item a recorded one is served; `None` if it is not.
    pub(super) fn serve(&self, item: &Item) -> Option<Item> {
        let (_, service) = self.services.iter().find(|(recorded, _)| **recorded == *item.service)?;
        let is_wanted = is_item(item)
            && (self.domains.is_empty() || self.domains.contains(&item.domain))
            && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(&*item.name)));
        let name = self.renamings.iter().find_map(|renaming| renaming.apply(&item.name));
        let name = name.map_or_else(|| item.name.clone(), Into::into);
        is_wanted.then(|| Item { service: service.as_str().into(), domain: item.domain, name })
    }
}

/// What is recorded of the service itself is no item.
fn is_item(item: &Item) -> bool {
    ![Domain::SOURCE, Domain::DICTIONARY].contains(&Domain(item.domain)) && !item.name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_whole_or_around_a_star() {
        let of = |text: &str, name: &str| Renaming::parse(text).expect("a renaming").apply(name);
        assert_eq!(of("IBM.N=X", "IBM.N"), Some("X".to_owned()));
        assert_eq!(of("IBM.N=X", "IBM.NY"), None);
        assert_eq!(of("*.N=*.XX", "IBM.N"), Some("IBM.XX".to_owned()));
        assert_eq!(of("*=TEST.*", "IBM.N"), Some("TEST.IBM.N".to_owned()));
        // The parts before and behind the star must not share characters.
        assert_eq!(of("AB*BC=*", "ABC"), None);
        for wrong in ["", "=", "A", "A=", "=B", "*=B", "A=*", "*.*=*", "*=**"] {
            assert!(Renaming::parse(wrong).is_err(), "{wrong}");
        }
    }
}
