//! Reports of a client, by lines of its standard output, on what it uses of its items.
//!
//! `uses ITEM FID=VALUE ..` says which fields it takes for good now, `uses ITEM rows=N` of how many rows its image is, `uses ITEM nothing` that
//! it takes none, and `suspect` behind the item's name that it shows them as stale.

use std::collections::{BTreeMap, BTreeSet};

use rwf::container::{FieldList, Map, SetScope};
use rwf::msg::{Msg, RefreshFlags, RefreshMsg};
use rwf::{DataState, DataType, StreamState};

use super::notes::Notes;
use super::rules;

/// Items that are remembered; reports of others are not judged.
const ITEMS_MAX: usize = 100_000;

#[derive(Debug, Default)]
struct Content {
    fids: BTreeSet<i16>,
    rows: BTreeSet<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Item {
    /// Content of the image so far.
    content: Content,
    /// The image is whole since then; `None` while parts are to come.
    whole_since_ns: Option<u64>,
    /// The last image came in so many messages.
    parts: usize,
    /// Fields that an image with `ClearCache` left out, and when.
    cleared: Option<(u64, BTreeSet<i16>)>,
    suspect_since_ns: Option<u64>,
}

/// The rules of what a client makes of what it is sent.
#[derive(Debug, Default)]
pub(super) struct Reports {
    items: BTreeMap<String, Item>,
    streams: BTreeMap<(u32, i32), String>,
    reported: u64,
}

impl Reports {
    /// Items are had of these connections from now on, and were of those of others: their images replace what was had there.
    pub(super) fn goes_on_for(&mut self, now: u64, other: &mut Self) {
        self.items = std::mem::take(&mut other.items);
        self.reported += std::mem::take(&mut other.reported);
        for name in self.streams.values() {
            self.items.entry(name.clone()).or_default().suspect_since_ns.get_or_insert(now);
        }
    }

    /// So many reports have come.
    pub(super) fn count(&self) -> u64 {
        self.reported
    }

    /// A connection is gone: data of its items is stale until they have another image.
    pub(super) fn closed(&mut self, now: u64, conn: u32) {
        for ((_, _), name) in self.streams.iter().filter(|((of, _), _)| *of == conn) {
            if let Some(item) = self.items.get_mut(name) {
                item.suspect_since_ns.get_or_insert(now);
            }
        }
        self.streams.retain(|(of, _), _| *of != conn);
    }

    /// A stream has this item.
    pub(super) fn opened(&mut self, conn: u32, stream: i32, name: &str) {
        if self.items.len() < ITEMS_MAX || self.items.contains_key(name) {
            self.items.entry(name.to_owned()).or_default();
            self.streams.insert((conn, stream), name.to_owned());
        }
    }

    /// A message went to the client.
    pub(super) fn server_message(&mut self, now: u64, conn: u32, msg: &Msg<'_>) {
        let Some(item) = self.streams.get(&(conn, msg.stream_id())).and_then(|name| self.items.get_mut(name)) else {
            return;
        };
        let state = match msg {
            Msg::Refresh(refresh) => {
                item.refresh(now, refresh);
                Some(refresh.state)
            }
            Msg::Update(update) => {
                item.content.take(update.container, update.body);
                if let Some((_, cleared)) = &mut item.cleared {
                    cleared.retain(|fid| !item.content.fids.contains(fid));
                }
                None
            }
            Msg::Status(status) => status.state,
            _ => None,
        };
        match state.map(|state| (state.stream, state.data)) {
            Some((StreamState::OPEN | StreamState::NON_STREAMING, DataState::OK)) => item.suspect_since_ns = None,
            Some((StreamState::OPEN, DataState::NO_CHANGE)) | None => {}
            Some(_) => {
                item.suspect_since_ns.get_or_insert(now);
            }
        }
    }

    /// The client wrote a line: whether it was such a report.
    pub(super) fn line(&mut self, now: u64, line: &str, notes: &mut Notes) -> bool {
        let mut words = line.split_whitespace();
        let (Some("uses"), Some(name)) = (words.next(), words.next()) else { return false };
        let Some(item) = self.items.get(name) else { return false };
        self.reported += 1;
        let words: Vec<&str> = words.collect();
        let fids: BTreeSet<i16> = words.iter().filter_map(|word| word.split_once('=')?.0.parse().ok()).collect();
        let rows: Option<usize> = words.iter().find_map(|word| word.strip_prefix("rows=")?.parse().ok());
        let uses_some = !fids.is_empty() || rows.is_some_and(|rows| rows > 0);
        let grace = notes.time_limit("report-s");
        if let Some(since) = item.suspect_since_ns {
            notes.occasion(&rules::SUSPECT_DATA);
            if uses_some && !words.contains(&"suspect") && now > since + grace {
                let text = format!("{name} is Suspect for {:.1} s, and is used as good: {line}", seconds(now - since));
                notes.broken(&rules::SUSPECT_DATA, now, text);
            }
        }
        if let Some((at, cleared)) = &item.cleared {
            notes.occasion(&rules::CLEAR_CACHE);
            let kept: Vec<&i16> = cleared.intersection(&fids).collect();
            if !kept.is_empty() && now > at + grace {
                let text = format!("{name} was cleared, and these fields of before are used: {kept:?}");
                notes.broken(&rules::CLEAR_CACHE, now, text);
            }
        }
        if let Some(since) = item.whole_since_ns.filter(|since| item.parts > 1 && uses_some && now > since + grace) {
            notes.occasion(&rules::IMAGE_PARTS);
            let missing: Vec<&i16> = item.content.fids.difference(&fids).collect();
            let of_rows = item.content.rows.len();
            if item.content.rows.is_empty() && !missing.is_empty() {
                let text =
                    format!("{name} is whole for {:.1} s without these fields: {missing:?}", seconds(now - since));
                notes.broken(&rules::IMAGE_PARTS, now, text);
            } else if rows.is_some_and(|rows| rows < of_rows) {
                let text = format!("{name} has {of_rows} rows in {} parts, and is used with less: {line}", item.parts);
                notes.broken(&rules::IMAGE_PARTS, now, text);
            }
        }
        true
    }
}

impl Item {
    fn refresh(&mut self, now: u64, refresh: &RefreshMsg<'_>) {
        let begins = self.whole_since_ns.is_some() || self.parts == 0;
        let clears = refresh.flags.contains(RefreshFlags::CLEAR_CACHE);
        let before = if clears { std::mem::take(&mut self.content) } else { Content::default() };
        self.parts = if begins { 1 } else { self.parts + 1 };
        self.content.take(refresh.container, refresh.body);
        if clears {
            self.cleared = Some((now, before.fids));
        }
        if let Some((_, cleared)) = &mut self.cleared {
            cleared.retain(|fid| !self.content.fids.contains(fid));
        }
        self.whole_since_ns = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE).then_some(now);
    }
}

impl Content {
    /// Takes what is there to be seen of a body; what cannot be decoded was sent to see what becomes of it, and changes nothing.
    fn take(&mut self, container: DataType, body: &[u8]) {
        if container == DataType::FIELD_LIST
            && let Ok(list) = FieldList::decode(body, &SetScope::NONE)
            && let Ok(entries) = list.entries().collect::<Result<Vec<_>, _>>()
        {
            self.fids.extend(entries.iter().map(|entry| entry.fid));
        }
        if container == DataType::MAP
            && let Ok(map) = Map::decode(body, &SetScope::NONE)
        {
            self.rows.extend(map.entries().flatten().map(|entry| entry.key.to_vec()));
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
