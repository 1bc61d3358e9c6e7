//! Views: subsets of an item's fields or elements, what the filter of its service leaves of them, and what is the same item at another
//! rate.

use crate::encode;
use crate::filter::bodies::{Left, Passing, append_passing};
use crate::filter::rules::{ServiceFilter, UpdateTypes};
use rwf::DataType;
use rwf::msg::{Domain, MsgClass, RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View, data_streams};
use std::cmp::Ordering;
use std::sync::Arc;

/// What a client wants to see, in ascending order. All items that one request asks for share it.
#[derive(Debug, Clone)]
pub(crate) enum Subset {
    /// Fields by id.
    Fields(Arc<[i16]>),
    /// Elements by name.
    Elements(Arc<[Vec<u8>]>),
}

impl Subset {
    /// True if both are of the same request, so that nothing has to be compared.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fields(own), Self::Fields(other)) => Arc::ptr_eq(own, other),
            (Self::Elements(own), Self::Elements(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }

    /// How many fields it has, or what its elements take as such.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Fields(fids) => fids.len(),
            Self::Elements(names) => names.iter().map(|name| 1 + name.len() / 8).sum(),
        }
    }

    /// True if all of `other` is in this subset too.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            _ if self.is_same(other) => true,
            (Self::Fields(own), Self::Fields(other)) => other.iter().all(|fid| own.binary_search(fid).is_ok()),
            (Self::Elements(own), Self::Elements(other)) => other.iter().all(|name| own.binary_search(name).is_ok()),
            _ => false,
        }
    }
}

impl Ord for Subset {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            _ if self.is_same(other) => Ordering::Equal,
            (Self::Fields(own), Self::Fields(other)) => own.cmp(other),
            (Self::Elements(own), Self::Elements(other)) => own.cmp(other),
            (Self::Fields(_), Self::Elements(_)) => Ordering::Less,
            (Self::Elements(_), Self::Fields(_)) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Subset {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Subset {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Subset {}

/// How the items that a symbol list or a chain names are opened (ETA `SymbolList.SymbolListDataStreamRequestFlags`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DataStreams {
    /// Each with updates.
    Streams,
    /// Each with its image alone.
    Snapshots,
}

impl DataStreams {
    /// The kind of a request with such a payload. Only one for a shared symbol list or record of a chain can ask for anything; streams win over
    /// snapshots.
    pub(crate) fn of(msg: &RequestMsg<'_>, payload: &Payload<'_>) -> Option<Self> {
        if !Self::may_be_of(msg.domain) || msg.flags.contains(RequestFlags::PRIVATE_STREAM) {
            return None;
        }
        let bits = payload.data_streams.unwrap_or(0);
        match bits {
            _ if bits & data_streams::STREAMS != 0 => Some(Self::Streams),
            _ if bits & data_streams::SNAPSHOTS != 0 => Some(Self::Snapshots),
            _ => None,
        }
    }

    /// Whether items of a domain name others: symbol lists, and market prices that are records of chains.
    pub(crate) fn may_be_of(domain: Domain) -> bool {
        matches!(domain, Domain::SYMBOL_LIST | Domain::MARKET_PRICE)
    }
}

/// How an item is seen: the default shows all of it as it comes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ViewSpec {
    /// The fields asked for; everything if `None`.
    pub(super) subset: Option<Subset>,
    /// Milliseconds over which the view is conflated; 0 for none.
    interval: u16,
    /// The service's filter, which keeps fields from all. It is the same for all views of an item.
    filter: Option<Arc<ServiceFilter>>,
    /// How the items are opened that a symbol list or a chain names to those who watch it so.
    data_streams: Option<DataStreams>,
    /// The types of updates that those who watch it so do not want, as their logins say (`UpdateTypeFilter`, `NegativeUpdateTypeFilter`).
    unwanted: UpdateTypes,
}

impl ViewSpec {
    /// A view; `None` for one that shows everything as it comes.
    pub(crate) fn of(
        subset: Option<Subset>,
        interval: u16,
        filter: Option<Arc<ServiceFilter>>,
        data_streams: Option<DataStreams>,
    ) -> Option<Self> {
        Self { subset, interval, filter, data_streams, unwanted: UpdateTypes::NONE }.unless_plain()
    }

    /// What a client sees so whose login leaves out types of updates.
    pub(crate) fn without_types(seen: Option<Self>, unwanted: UpdateTypes) -> Option<Self> {
        Self { unwanted, ..seen.unwrap_or_default() }.unless_plain()
    }

    fn unless_plain(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// The same with another subset.
    pub(crate) fn with_subset(self, subset: Option<Subset>) -> Option<Self> {
        Self { subset, ..self }.unless_plain()
    }

    /// Milliseconds over which the view is conflated; 0 for none.
    pub(crate) const fn interval(&self) -> u16 {
        self.interval
    }

    /// How the items are opened that its messages name.
    pub(crate) const fn data_streams(&self) -> Option<DataStreams> {
        self.data_streams
    }

    /// True if bodies are as they come.
    pub(crate) fn shows_all(&self) -> bool {
        !self.filters(DataType::FIELD_LIST) && !self.filters(DataType::ELEMENT_LIST)
    }

    /// True if its service is filtered.
    pub(crate) const fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// True if an update is kept from those who watch, whatever is in it.
    pub(crate) fn withholds(&self, update: &[u8]) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.withholds(update))
    }

    /// True if those who watch do not want updates of this one's type.
    pub(crate) fn leaves_out(&self, update: &[u8]) -> bool {
        self.unwanted.has_type_of(update)
    }

    /// True if all that `other` asks for passes here too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.subset, &other.subset) {
            (None, _) => true,
            (Some(own), Some(other)) => own.covers(other),
            (Some(_), None) => false,
        }
    }

    /// How many fields it has, or what its elements take as such: what it costs to go over them.
    pub(crate) fn weight(&self) -> usize {
        self.subset.as_ref().map_or(0, Subset::weight)
    }

    /// The view as payload of a request.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let view = match &self.subset {
            Some(Subset::Fields(fids)) => View::Fields(fids.to_vec()),
            Some(Subset::Elements(names)) => View::Elements(names.to_vec()),
            None => return Vec::new(),
        };
        let payload = Payload { view: Some(view), ..Payload::default() };
        let mut out = Vec::new();
        // Too long a view is asked for as everything, which is always right.
        if encode::append(&mut out, 256, |w| payload.encode(w)).is_err() {
            out.clear();
        }
        out
    }

    /// Appends what the view lets through of the body of a message of a class.
    pub(crate) fn append(&self, class: MsgClass, container: DataType, body: &[u8], out: &mut Vec<u8>) -> Left {
        append_passing(self, class, container, body, out)
    }
}

impl From<Subset> for ViewSpec {
    fn from(subset: Subset) -> Self {
        Self { subset: Some(subset), ..Self::default() }
    }
}

impl Passing for ViewSpec {
    fn filters(&self, list: DataType) -> bool {
        let by_subset = match self.subset {
            Some(Subset::Fields(_)) => list == DataType::FIELD_LIST,
            Some(Subset::Elements(_)) => list == DataType::ELEMENT_LIST,
            None => false,
        };
        by_subset || self.filter.as_ref().is_some_and(|filter| filter.filters(list))
    }

    fn field(&self, fid: i16) -> bool {
        let is_wanted = match &self.subset {
            Some(Subset::Fields(fids)) => fids.binary_search(&fid).is_ok(),
            Some(Subset::Elements(_)) | None => true,
        };
        is_wanted && self.filter.as_ref().is_none_or(|filter| filter.field(fid))
    }

    fn element(&self, name: &[u8]) -> bool {
        match &self.subset {
            Some(Subset::Elements(names)) => names.binary_search_by(|known| known.as_slice().cmp(name)).is_ok(),
            Some(Subset::Fields(_)) | None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Subset, ViewSpec};
    use crate::filter::bodies::Left;
    use crate::filter::rules::{FieldRule, FieldSet, ServiceFilter, UpdateTypes};
    use rwf::DataType;
    use rwf::container::{
        ElementListEncoder, FieldList, FieldListEncoder, Map, MapAction, MapEncoder, MapHead, SetScope, Vector,
        VectorAction, VectorEncoder, VectorHead,
    };
    use rwf::msg::{MsgClass, UpdateType};
    use rwf::wire::{LenForm, Writer};
    use rwf::{EncodeError, Primitive};
    use std::sync::Arc;

    fn subset(fids: &[i16]) -> Subset {
        Subset::Fields(fids.into())
    }

    fn fields(fids: &[i16]) -> ViewSpec {
        subset(fids).into()
    }

    fn without(fids: &[i16]) -> Arc<ServiceFilter> {
        let fields = FieldRule::AllBut(FieldSet::new(fids.iter().map(|&fid| (fid, fid))));
        Arc::new(ServiceFilter { fields, ..ServiceFilter::default() })
    }

    fn written(write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<u8> {
        let mut buf = vec![0; 1_000];
        let mut w = Writer::new(&mut buf);
        write(&mut w).unwrap();
        w.into_written().to_vec()
    }

    fn list_of(fids: &[i16]) -> Vec<u8> {
        written(|w| write_list(fids, w))
    }

    fn write_list(fids: &[i16], w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = FieldListEncoder::begin(w)?;
        for &fid in fids {
            list.uint(fid, fid as u64 & 0x7F)?;
        }
        list.finish()
    }

    fn fids_of(body: &[u8]) -> Vec<i16> {
        let list = FieldList::decode(body, &SetScope::NONE).unwrap();
        list.entries().map(|entry| entry.unwrap().fid).collect()
    }

    /// What a view leaves of a body, behind a byte that is there already.
    fn left(view: &ViewSpec, container: DataType, body: &[u8]) -> (Left, Vec<u8>) {
        left_of(MsgClass::UPDATE, view, container, body)
    }

    fn left_of(class: MsgClass, view: &ViewSpec, container: DataType, body: &[u8]) -> (Left, Vec<u8>) {
        let mut out = vec![7];
        let left = view.append(class, container, body, &mut out);
        assert_eq!(out.remove(0), 7);
        (left, out)
    }

    #[test]
    fn a_view_covers_its_subsets() {
        let (a, b) = (fields(&[1, 2]), fields(&[2, 3]));
        assert!(!a.covers(&b) && a.covers(&fields(&[2])) && a.covers(&a));
        assert!(!a.covers(&Subset::Elements(Arc::default()).into()));
    }

    #[test]
    fn a_conflated_view_shows_what_it_shows() {
        let whole = ViewSpec::of(None, 500, None, None).unwrap();
        let part = ViewSpec::of(Some(subset(&[1, 2])), 500, None, None).unwrap();
        assert_eq!(
            (ViewSpec::of(None, 0, None, None), whole.clone().with_subset(Some(subset(&[1, 2])))),
            (None, Some(part.clone()))
        );
        assert_eq!((whole.interval(), part.interval(), fields(&[1]).interval()), (500, 500, 0));
        assert!(whole.shows_all() && !part.shows_all());
        assert!(whole.covers(&part) && !part.covers(&whole) && part.covers(&fields(&[2])));
        assert!(fields(&[1, 2, 3]).covers(&part) && !fields(&[1, 2]).covers(&whole));
        assert_eq!((whole.payload(), part.payload()), (Vec::new(), fields(&[1, 2]).payload()));
    }

    #[test]
    fn only_wanted_fields_pass() {
        let body = list_of(&[3, 22, 25, -1]);
        let view = fields(&[-1, 22]);
        let (outcome, out) = left(&view, DataType::FIELD_LIST, &body);
        assert_eq!((outcome, fids_of(&out)), (Left::Part, vec![22, -1]));
        let (outcome, out) = left(&fields(&[99]), DataType::FIELD_LIST, &body);
        assert_eq!((outcome, fids_of(&out)), (Left::Nothing, vec![]));
        for (container, body, expected) in [
            (DataType::MAP, &body[..], Left::Unreadable),
            (DataType::OPAQUE, &body, Left::Whole),
            (DataType::FIELD_LIST, b"\xff", Left::Unreadable),
        ] {
            assert_eq!(left(&view, container, body), (expected, Vec::new()));
        }
    }

    #[test]
    fn a_filter_takes_from_all_that_is_shown() {
        let body = list_of(&[3, 22, 25]);
        let whole = ViewSpec::of(None, 0, Some(without(&[22])), None).unwrap();
        assert_eq!(fids_of(&left(&whole, DataType::FIELD_LIST, &body).1), [3, 25]);
        let part = whole.clone().with_subset(Some(subset(&[22, 25]))).unwrap();
        assert_eq!(fids_of(&left(&part, DataType::FIELD_LIST, &body).1), [25]);
        assert_eq!((whole.payload().len(), part.payload()), (0, fields(&[22, 25]).payload()));
        // Elements have no field ids.
        let elements = written(|w| {
            let mut list = ElementListEncoder::begin(w)?;
            list.element(b"A", DataType::UINT, &Primitive::UInt(1))?;
            list.finish()
        });
        assert_eq!(left(&whole, DataType::ELEMENT_LIST, &elements).0, Left::Whole);
        let kinds = ServiceFilter { withheld: UpdateTypes::NONE.with(UpdateType::QUOTE), ..ServiceFilter::default() };
        let quiet = ViewSpec::of(None, 0, Some(Arc::new(kinds)), None).unwrap();
        assert!(quiet.shows_all() && quiet.withholds(&[0, 0, 4, 6, 0, 0, 0, 5, 0, 0, 1]));
    }

    #[test]
    fn entries_of_books_are_filtered_too() {
        let body = |entries: &[(MapAction, u64, &[i16])]| {
            written(|w| {
                let mut map = MapEncoder::begin(w, MapHead::new(DataType::UINT, DataType::FIELD_LIST))?;
                map.summary(LenForm::Shortest, |w| write_list(&[3, 22], w))?;
                for (action, key, fids) in entries {
                    map.entry(*action, &Primitive::UInt(*key), |w| write_list(fids, w))?;
                }
                map.finish()
            })
        };
        let view = ViewSpec::of(None, 0, Some(without(&[3, 22])), None).unwrap();
        let book = body(&[
            (MapAction::ADD, 1, &[22, 25]),
            (MapAction::UPDATE, 2, &[22]),
            (MapAction::ADD, 3, &[22]),
            (MapAction::DELETE, 4, &[]),
        ]);
        let (outcome, out) = left(&view, DataType::MAP, &book);
        assert_eq!(outcome, Left::Part);
        let map = Map::decode(&out, &SetScope::NONE).unwrap();
        assert_eq!(fids_of(map.summary().unwrap()), [0; 0]);
        let entries: Vec<_> = map.entries().map(|entry| entry.unwrap()).collect();
        let told: Vec<_> = entries.iter().map(|entry| (entry.action, entry.key, fids_of(entry.data))).collect();
        let key = |n: u8| -> &[u8] { Box::leak(Box::new([n])) };
        assert_eq!(
            told,
            [(MapAction::ADD, key(1), vec![25]), (MapAction::ADD, key(3), vec![]), (MapAction::DELETE, key(4), vec![]),]
        );
        let (outcome, out) = left(&view, DataType::MAP, &body(&[(MapAction::UPDATE, 2, &[22])]));
        assert_eq!((outcome, Map::decode(&out, &SetScope::NONE).unwrap().len()), (Left::Nothing, 0));
        // In an image each entry is there, whatever its action: ETA's example providers of order books say Update.
        let (_, out) = left_of(MsgClass::REFRESH, &view, DataType::MAP, &book);
        let keys: Vec<_> =
            Map::decode(&out, &SetScope::NONE).unwrap().entries().map(|entry| entry.unwrap().key.to_vec()).collect();
        assert_eq!(keys, [[1], [2], [3], [4]]);
    }

    /// In a vector an entry that goes from an image would leave those behind it at places that nobody has.
    #[test]
    fn an_image_keeps_all_entries_of_a_vector() {
        let view = ViewSpec::of(None, 0, Some(without(&[3, 22])), None).unwrap();
        let mut buffer = [0; 200];
        let mut w = Writer::new(&mut buffer);
        let head =
            VectorHead { container: DataType::FIELD_LIST, sortable: false, count_hint: None, per_entry_perm: false };
        let mut vector = VectorEncoder::begin(&mut w, head).unwrap();
        for index in 0..3 {
            vector.entry(VectorAction::UPDATE, index, |w| write_list(&[22], w)).unwrap();
        }
        vector.finish().unwrap();
        for (class, count) in [(MsgClass::REFRESH, 3), (MsgClass::UPDATE, 0)] {
            let (_, out) = left_of(class, &view, DataType::VECTOR, w.written());
            assert_eq!(Vector::decode(&out, &SetScope::NONE).unwrap().len(), count, "{class:?}");
        }
    }
}
