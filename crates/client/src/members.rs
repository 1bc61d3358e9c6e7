//! The members of a chain or of a symbol list, followed as they change.
//!
//! A chain is records of market prices, each with the names of up to 14 members and of the next record ([`rwf::rdm::chain`]). A symbol list is one
//! map, whose keys are the names.

use rwf::rdm::chain::{self, Role};
use rwf::{DecodeError, Map, SetScope};
use std::collections::{BTreeMap, BTreeSet};

/// Records of a chain that are followed, at most: 140,000 members.
const RECORDS_MAX: usize = 10_000;

/// The place where names stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Records that are linked.
    Chain,
    /// A map by name, of the domain symbol list.
    SymbolList,
}

/// Changes that a record has brought.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Members that are new, in the order of the record.
    pub joined: Vec<String>,
    /// Members that are none any more.
    pub left: Vec<String>,
    /// Records that belong to the chain no more: their places.
    pub close: Vec<u32>,
    /// The record that comes next, which is to be opened; [`Members::opened`] says under which place.
    pub open: Option<String>,
}

#[derive(Debug, Default)]
struct Record {
    place: u32,
    name: String,
    links: Vec<String>,
    next: Option<String>,
    /// An image has come, or nothing will come any more.
    is_known: bool,
}

/// Members by name, each as often as records name it.
#[derive(Debug)]
pub struct Members {
    kind: Kind,
    records: Vec<Record>,
    /// Of [`Changes::open`], until it is told.
    unopened: Option<String>,
    named: BTreeMap<String, u32>,
}

impl Members {
    /// Nothing is known yet; the first record, or the list, is open under this place.
    pub fn new(kind: Kind, name: &str, place: u32) -> Self {
        let first = Record { place, name: name.to_owned(), ..Record::default() };
        Self { kind, records: vec![first], unopened: None, named: BTreeMap::new() }
    }

    /// The record that was to be opened has been, under this place.
    pub fn opened(&mut self, place: u32) {
        if let Some(name) = self.unopened.take() {
            self.records.push(Record { place, name, ..Record::default() });
        }
    }

    /// Whether a place is that of a record.
    pub fn is_record(&self, place: u32) -> bool {
        self.position(place).is_some()
    }

    fn position(&self, place: u32) -> Option<usize> {
        self.records.iter().position(|record| record.place == place)
    }

    /// Whether all records are known, so that all members are.
    pub fn is_complete(&self) -> bool {
        self.unopened.is_none() && self.records.iter().all(|record| record.is_known)
    }

    /// Names of the members, in order of the records; of a symbol list in that of its map. One that is named twice comes once.
    pub fn names(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let all = self.records.iter().flat_map(|record| &record.links);
        all.map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }

    /// The whole image of a record is this now.
    ///
    /// # Errors
    /// The bytes are no field list, of a symbol list no map; the members stay what they were.
    pub fn image(&mut self, place: u32, body: &[u8]) -> Result<Changes, DecodeError> {
        // A record that the chain has let go of may have sent an image before it was closed.
        let Some(at) = self.position(place) else { return Ok(Changes::default()) };
        let (links, next) = match self.kind {
            Kind::Chain => chain_record(body)?,
            Kind::SymbolList => (symbols(body)?, None),
        };
        Ok(self.change(at, links, next))
    }

    /// A record is refused, or has ended: what it named is not known any more, nor what follows it.
    pub fn ended(&mut self, place: u32) -> Changes {
        self.position(place).map_or_else(Changes::default, |at| self.change(at, Vec::new(), None))
    }

    fn change(&mut self, at: usize, links: Vec<String>, next: Option<String>) -> Changes {
        let mut changes = Changes::default();
        let mut gone: Vec<String> = Vec::new();
        // A chain that comes back to one of its records ends there.
        let is_loop = |name: &String| self.records[..=at].iter().any(|record| record.name == *name);
        let next = next.filter(|name| !is_loop(name) && at + 1 < RECORDS_MAX);
        if self.records[at].next != next {
            for record in self.records.drain(at + 1..) {
                changes.close.push(record.place);
                gone.extend(record.links);
            }
            self.unopened.clone_from(&next);
            changes.open.clone_from(&next);
        }
        let record = &mut self.records[at];
        gone.extend(std::mem::replace(&mut record.links, links.clone()));
        (record.next, record.is_known) = (next, true);
        // Counted up first: what a record goes on naming has not left.
        for name in links {
            let count = self.named.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 {
                changes.joined.push(name);
            }
        }
        for name in gone {
            let Some(count) = self.named.get_mut(&name) else {
                debug_assert!(false, "{name} was named by a record and not counted");
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.named.remove(&name);
                changes.left.push(name);
            }
        }
        changes
    }
}

/// Links of a record of a chain, and the name of the next one.
fn chain_record(body: &[u8]) -> Result<(Vec<String>, Option<String>), DecodeError> {
    let mut members: BTreeMap<i16, String> = BTreeMap::new();
    let mut next = None;
    for link in chain::links(body)? {
        let name = String::from_utf8_lossy(link.name).into_owned();
        match link.role {
            Role::Member => {
                members.insert(link.fid, name);
            }
            Role::Next => next = Some(name),
        }
    }
    Ok((members.into_values().collect(), next))
}

/// Keys of a symbol list.
fn symbols(body: &[u8]) -> Result<Vec<String>, DecodeError> {
    let map = Map::decode(body, &SetScope::NONE)?;
    let mut names = Vec::new();
    for entry in map.entries() {
        names.push(String::from_utf8_lossy(entry?.key).into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rwf::FieldListEncoder;
    use rwf::wire::Writer;

    fn record(first: i16, next: (i16, &str), links: &[&str]) -> Vec<u8> {
        let mut buf = vec![0; 2_000];
        let mut w = Writer::new(&mut buf);
        let mut list = FieldListEncoder::begin(&mut w).expect("room");
        list.raw(next.0, next.1.as_bytes()).expect("room");
        for (fid, link) in (first..).zip(links) {
            list.raw(fid, link.as_bytes()).expect("room");
        }
        list.finish().expect("room");
        w.written().to_vec()
    }

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_chain_is_followed_to_its_end_and_changes_are_told() {
        let mut members = Members::new(Kind::Chain, "0#X", 0);
        let changes = members.image(0, &record(240, (238, "1#X"), &["A", "B", ""])).expect("fields");
        assert_eq!(changes, Changes { joined: texts(&["A", "B"]), open: Some("1#X".into()), ..Changes::default() });
        assert!(!members.is_complete());
        members.opened(7);
        let changes = members.image(7, &record(800, (815, " "), &["C", "A"])).expect("fields");
        assert_eq!((changes.joined, changes.open), (texts(&["C"]), None));
        assert!(members.is_complete());
        assert_eq!(members.names(), ["A", "B", "C"]);
        // A is named by the second record still.
        let changes = members.image(0, &record(240, (238, "1#X"), &["B", "D"])).expect("fields");
        assert_eq!(changes, Changes { joined: texts(&["D"]), ..Changes::default() });
        let changes = members.image(0, &record(240, (238, ""), &["B", "D"])).expect("fields");
        assert_eq!(changes, Changes { left: texts(&["C", "A"]), close: vec![7], ..Changes::default() });
        assert_eq!(members.ended(0).left, texts(&["B", "D"]));
        assert!(members.names().is_empty() && members.is_complete());
    }

    #[test]
    fn a_chain_that_comes_back_to_itself_ends() {
        let mut members = Members::new(Kind::Chain, "0#X", 0);
        assert_eq!(members.image(0, &record(6_409, (6_424, "0#X"), &["A"])).expect("fields").open, None);
        members.image(0, &record(240, (238, "1#X"), &["A"])).expect("fields");
        members.opened(1);
        assert_eq!(members.image(1, &record(240, (238, "0#X"), &["B"])).expect("fields").open, None);
        assert!(members.is_complete());
    }

    proptest! {
        /// Whatever records say, and in whichever order, members are what a walk over the records finds.
        #[test]
        fn members_are_those_of_a_walk(steps in prop::collection::vec((0..6usize, 0..8usize, prop::collection::vec(0..9u8, 0..5)), 1..60)) {
            let mut members = Members::new(Kind::Chain, "R0", 0);
            let mut open: BTreeMap<u32, usize> = BTreeMap::from([(0, 0)]);
            let mut said: BTreeMap<usize, (Vec<String>, Option<usize>)> = BTreeMap::new();
            let (mut places, mut now) = (0, BTreeSet::new());
            for (number, next, links) in steps {
                let links: Vec<String> = links.iter().map(|n| format!("M{n}")).collect();
                let next = (next < 6).then_some(next);
                said.insert(number, (links, next));
                // The record's watchers hear of it; a record that is opened has its image at once if there is one.
                let mut heard: Vec<u32> = open.iter().filter(|(_, n)| **n == number).map(|(place, _)| *place).collect();
                while let Some(place) = heard.pop() {
                    let Some((links, next)) = open.get(&place).and_then(|number| said.get(number)) else { continue };
                    let links: Vec<&str> = links.iter().map(String::as_str).collect();
                    let next = next.map_or_else(String::new, |n| format!("R{n}"));
                    let changes = members.image(place, &record(240, (238, &next), &links)).expect("fields");
                    for place in changes.close {
                        prop_assert!(open.remove(&place).is_some());
                    }
                    for name in changes.joined {
                        prop_assert!(now.insert(name));
                    }
                    for name in changes.left {
                        prop_assert!(now.remove(&name));
                    }
                    if let Some(name) = changes.open {
                        places += 1;
                        open.insert(places, name[1..].parse().expect("a number"));
                        members.opened(places);
                        heard.push(places);
                    }
                }
            }
            let (mut walk, mut seen, mut at) = (BTreeSet::new(), BTreeSet::new(), Some(0));
            while let Some((links, next)) = at.filter(|n| seen.insert(*n)).and_then(|n| said.get(&n)) {
                walk.extend(links.iter().cloned());
                at = *next;
            }
            prop_assert_eq!(&walk, &now);
            prop_assert_eq!(walk, members.names().into_iter().map(str::to_owned).collect::<BTreeSet<_>>());
        }

        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for kind in [Kind::Chain, Kind::SymbolList] {
                let _ = Members::new(kind, "X", 0).image(0, &bytes);
            }
        }
    }
}
