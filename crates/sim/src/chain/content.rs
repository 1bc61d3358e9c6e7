//! What providers publish: items whose every version is remembered, so that whatever a consumer has can be compared.
//!
//! A provider's *life* is one number; it and the version make up the sequence number in the header of each refresh and
//! update, which Quoteway relays untouched. So a consumer's oracle knows for each message what must have come before it.

use rwf::container::{FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, SetScope};
use rwf::msg::{Domain, UpdateType};
use rwf::page::{Page, PageSize};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, Primitive};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Services of the simulated world, in the order of [`Item::service`].
pub(crate) const SERVICES: [&str; 3] = ["FEED", "OTHER", "CONTRIB"];
/// The service of the non-interactive providers.
pub(crate) const PUBLISHED: u8 = 2;
/// Domains that carry items: two of RDM, and one that nobody knows, whose items are ANSI pages.
pub(crate) const DOMAINS: [Domain; 3] = [Domain::MARKET_PRICE, Domain::MARKET_BY_PRICE, PAGES];
const PAGES: Domain = Domain(200);

/// Names, some of which make a provider behave in a special way.
pub(crate) const NAMES: [&str; 9] = ["A", "B", "C", "D", "E", "MUTE", "NOPE", "ONCE", "GOTO"];

/// An item of the world, whoever provides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Item {
    pub(crate) service: u8,
    pub(crate) domain: u8,
    pub(crate) name: &'static str,
}

impl Item {
    /// Field lists and pages are flat; the other domain is a map of field lists.
    pub(crate) fn is_map(self) -> bool {
        Domain(self.domain) == Domain::MARKET_BY_PRICE
    }

    /// Row n of a page has what would be field n.
    pub(crate) fn is_page(self) -> bool {
        Domain(self.domain) == PAGES
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", SERVICES[usize::from(self.service)], self.domain, self.name)
    }
}

/// Row and field: in a field list the row is 0, in a map it is the key.
pub(crate) type Cell = (u32, i16);
/// The whole content of an item.
pub(crate) type Rows = BTreeMap<Cell, u64>;
/// The fields that a view lets through.
pub(crate) type View = BTreeSet<i16>;

/// A change of one cell, or of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Set(Cell, u64),
    Delete(u32),
}

/// Applies changes to content.
pub(crate) fn apply(rows: &mut Rows, changes: &[Change]) {
    for change in changes {
        match *change {
            Change::Set(cell, value) => {
                rows.insert(cell, value);
            }
            Change::Delete(row) => rows.retain(|cell, _| cell.0 != row),
        }
    }
}

/// The rest of content under a view.
pub(crate) fn seen(rows: &Rows, view: Option<&View>) -> Rows {
    let passes = |fid: i16| view.is_none_or(|view| view.contains(&fid));
    rows.iter().filter(|((_, fid), _)| passes(*fid)).map(|(cell, value)| (*cell, *value)).collect()
}

/// The changes that a view lets through.
pub(crate) fn seen_changes(changes: &[Change], view: Option<&View>) -> Vec<Change> {
    let passes = |change: &&Change| match change {
        Change::Set((_, fid), _) => view.is_none_or(|view| view.contains(fid)),
        Change::Delete(_) => true,
    };
    changes.iter().filter(passes).copied().collect()
}

/// One version of an item.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    pub(crate) rows: Rows,
    /// Changes since the version before.
    pub(crate) changes: Vec<Change>,
}

/// The update that leads to this version is a trade: no two of them are merged, nor is it with others.
pub(crate) const fn is_trade(version: u16) -> bool {
    version % 4 == 3
}

/// The kind of update that leads to a version.
pub(crate) fn update_type(version: u16) -> UpdateType {
    if is_trade(version) { UpdateType::TRADE } else { UpdateType::UNSPECIFIED }
}

/// A set of parts that a provider has sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetInfo {
    /// Nobody asked for it, or somebody asked twice: open watchers may get it.
    pub(crate) for_everyone: bool,
    /// The set is one of several answers that are owed at once, perhaps to an older request.
    pub(crate) late: bool,
}

/// Everything that any provider has ever said.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    lives: Vec<BTreeMap<Item, Vec<Version>>>,
    sets: Vec<SetInfo>,
    /// The life that all interactive providers share, if they say the same.
    shared: Option<u16>,
}

impl Truth {
    /// A provider begins another life.
    pub(crate) fn begin_life(&mut self) -> u16 {
        self.lives.push(BTreeMap::new());
        self.lives.len() as u16
    }

    /// Interactive providers say the same from now on, each in its own time, with the same numbers.
    pub(crate) fn share_life(&mut self) {
        self.shared = Some(self.begin_life());
    }

    /// An interactive provider begins another life, or goes on with the one that all share.
    pub(crate) fn begin_interactive_life(&mut self) -> u16 {
        self.shared.unwrap_or_else(|| self.begin_life())
    }

    pub(crate) const fn is_shared(&self, life: u16) -> bool {
        matches!(self.shared, Some(shared) if shared == life)
    }

    pub(crate) fn new_set(&mut self, for_everyone: bool) -> u32 {
        self.sets.push(SetInfo { for_everyone, late: false });
        self.sets.len() as u32 - 1
    }

    /// The set is one of several answers that are owed: open watchers may get it as well.
    pub(crate) fn is_late(&mut self, id: u32) {
        self.sets[id as usize] = SetInfo { for_everyone: true, late: true };
    }

    pub(crate) fn set(&self, id: u32) -> SetInfo {
        self.sets[id as usize]
    }

    /// The versions of an item in a life of its provider, made if need be.
    pub(crate) fn versions(&mut self, life: u16, item: Item) -> &mut Vec<Version> {
        self.lives[usize::from(life) - 1].entry(item).or_insert_with(|| {
            let row = if item.is_map() { 1..4 } else { 0..1 };
            let first =
                |row: u32, fid: i16| ((row, fid), u64::from(life) * 1_000_000 + u64::from(row) * 100 + fid as u64);
            let rows = row.flat_map(|row| (1..6).map(move |fid| first(row, fid))).collect();
            vec![Version { rows, changes: Vec::new() }]
        })
    }

    /// The versions of an item, if its provider ever had it.
    pub(crate) fn known(&self, life: u16, item: Item) -> Option<&[Version]> {
        self.lives.get(usize::from(life).checked_sub(1)?)?.get(&item).map(Vec::as_slice)
    }

    /// The next version of an item.
    pub(crate) fn change(&mut self, life: u16, item: Item, changes: Vec<Change>) -> u16 {
        let versions = self.versions(life, item);
        let mut rows = versions.last().expect("an item has a first version").rows.clone();
        apply(&mut rows, &changes);
        versions.push(Version { rows, changes });
        (versions.len() - 1) as u16
    }
}

/// The sequence number that carries life and version.
pub(crate) fn seq_num(life: u16, version: u16) -> u32 {
    u32::from(life) << 16 | u32::from(version)
}

/// Life and version of a sequence number.
pub(crate) fn life_and_version(seq_num: u32) -> (u16, u16) {
    ((seq_num >> 16) as u16, seq_num as u16)
}

/// Encodes into bytes of their own.
pub(crate) fn bytes_of(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
    let mut buf = vec![0; 16_384];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).expect("a simulated message fits");
    w.into_written().to_vec()
}

/// The container of an item's content.
pub(crate) fn container(item: Item) -> DataType {
    match Domain(item.domain) {
        PAGES => DataType::ANSI_PAGE,
        Domain::MARKET_BY_PRICE => DataType::MAP,
        _ => DataType::FIELD_LIST,
    }
}

/// The payload that says these changes. A row that is deleted and set again is added; `whole` adds all.
pub(crate) fn body(item: Item, changes: &[Change], whole: bool) -> Vec<u8> {
    // Row, whether it is added, and its fields; none if it is deleted.
    type Line = (u32, bool, Vec<(i16, u64)>);
    let mut lists: Vec<Line> = Vec::new();
    for change in changes {
        match *change {
            Change::Delete(row) => lists.push((row, true, Vec::new())),
            Change::Set((row, fid), value) => match lists.last_mut() {
                Some((last, _, list)) if *last == row => list.push((fid, value)),
                _ => lists.push((row, whole, vec![(fid, value)])),
            },
        }
    }
    let write_list = |list: &[(i16, u64)], w: &mut Writer<'_>| {
        let mut out = FieldListEncoder::begin(w)?;
        for (fid, value) in list {
            out.uint(*fid, *value)?;
        }
        out.finish()
    };
    if item.is_page() {
        return page(lists.iter().flat_map(|(_, _, list)| list));
    }
    bytes_of(|w| {
        if !item.is_map() {
            let list: Vec<_> = lists.iter().flat_map(|(_, _, list)| list.iter().copied()).collect();
            return write_list(&list, w);
        }
        let head = MapHead {
            key_type: DataType::UINT,
            container: DataType::FIELD_LIST,
            key_field_id: None,
            count_hint: None,
            per_entry_perm: false,
        };
        let mut map = MapEncoder::begin(w, head)?;
        for (row, added, list) in &lists {
            let key = Primitive::UInt(u64::from(*row));
            if list.is_empty() {
                map.delete(&key)?;
            } else {
                let action = if *added { MapAction::ADD } else { MapAction::UPDATE };
                map.entry(action, &key, |w| write_list(list, w))?;
            }
        }
        map.finish()
    })
}

/// Rows of a page, each written anew. What stood there is erased, since a number may have fewer digits than the one before.
fn page<'a>(rows: impl Iterator<Item = &'a (i16, u64)>) -> Vec<u8> {
    rows.flat_map(|(row, value)| format!("\x1b[{row};1H\x1b[K{value}").into_bytes()).collect()
}

/// The rows that the bytes write on an empty page.
fn read_page(body: &[u8]) -> Vec<Change> {
    let mut page = Page::new(PageSize::default());
    page.apply(body);
    let row = |(at, text): (usize, String)| {
        let value = (!text.is_empty()).then(|| text.parse().expect("a number"));
        value.map(|value| Change::Set((0, at as i16 + 1), value))
    };
    page.texts().into_iter().enumerate().filter_map(row).collect()
}

fn read_list(row: u32, body: &[u8], out: &mut Vec<Change>) {
    let list = FieldList::decode(body, &SetScope::NONE).expect("a field list");
    for entry in list.entries() {
        let entry = entry.expect("a field");
        let Primitive::UInt(value) = entry.value(DataType::UINT).expect("a number") else { panic!("not a number") };
        out.push(Change::Set((row, entry.fid), value));
    }
}

/// Reads a payload back. An added row replaces what was there.
pub(crate) fn read_body(container: DataType, body: &[u8]) -> Vec<Change> {
    let mut out = Vec::new();
    match container {
        DataType::FIELD_LIST => read_list(0, body, &mut out),
        DataType::ANSI_PAGE => out = read_page(body),
        DataType::MAP => {
            let map = Map::decode(body, &SetScope::NONE).expect("a map");
            for entry in map.entries() {
                let entry = entry.expect("a map entry");
                let Primitive::UInt(row) = entry.key_value(map.key_type).expect("a key") else {
                    panic!("not a number")
                };
                if entry.action != MapAction::UPDATE {
                    out.push(Change::Delete(row as u32));
                }
                if entry.action != MapAction::DELETE {
                    read_list(row as u32, entry.data, &mut out);
                }
            }
        }
        DataType::NO_DATA => {}
        other => panic!("content of type {other}"),
    }
    out
}
