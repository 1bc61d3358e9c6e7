use super::filter;
use crate::container::{FilterAction, MapAction, SetScope};
use crate::msg::Domain;
use crate::primitive::Primitive;
use crate::rdm::elements::{Element, Elements};
use crate::rdm::read::{for_each, for_each_filter, for_each_map_entry};
use crate::rdm::state::StateBuf;
use crate::wire::{LenForm, Writer};
use crate::{DataType, DecodeError, EncodeError, Qos};

/// Ids of the filter entries, each one over its bit number (ETA `Directory.ServiceFilterIds`).
mod id {
    pub(super) const INFO: u8 = 1;
    pub(super) const STATE: u8 = 2;
    pub(super) const GROUP: u8 = 3;
    pub(super) const LOAD: u8 = 4;
    pub(super) const DATA: u8 = 5;
    pub(super) const LINK: u8 = 6;
}

/// What happens to a service or link: the action of its map entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The service changes.
    Update,
    /// The service is new.
    Add,
    /// The service is gone.
    Delete,
}

impl Action {
    pub(super) fn from_wire(action: MapAction) -> Result<Self, DecodeError> {
        match action {
            MapAction::UPDATE => Ok(Self::Update),
            MapAction::ADD => Ok(Self::Add),
            MapAction::DELETE => Ok(Self::Delete),
            _ => Err(DecodeError::invalid("action of a map entry", 0)),
        }
    }

    pub(super) fn to_wire(self) -> u8 {
        match self {
            Self::Update => MapAction::UPDATE.0,
            Self::Add => MapAction::ADD.0,
            Self::Delete => MapAction::DELETE.0,
        }
    }
}

/// A part of a service, by the action of its filter entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part<T> {
    /// Replaces what was known.
    Set(T),
    /// Changes the elements that are given.
    Update(T),
    /// Voids what was known.
    Clear,
}

impl<T> Part<T> {
    /// The content, unless the part is cleared.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) | Self::Update(value) => Some(value),
            Self::Clear => None,
        }
    }

    fn read(action: FilterAction, read: impl FnOnce() -> Result<T, DecodeError>) -> Result<Self, DecodeError> {
        match action {
            FilterAction::UPDATE => read().map(Self::Update),
            FilterAction::SET => read().map(Self::Set),
            FilterAction::CLEAR => Ok(Self::Clear),
            _ => Err(DecodeError::invalid("action of a filter entry", 0)),
        }
    }

    fn action(&self) -> u8 {
        match self {
            Self::Update(_) => FilterAction::UPDATE.0,
            Self::Set(_) => FilterAction::SET.0,
            Self::Clear => FilterAction::CLEAR.0,
        }
    }
}

/// An entry of the directory: a service, or a change of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Id of the service on this connection.
    pub id: u16,
    /// Added, changed or gone; a service that is gone has no parts.
    pub action: Action,
    /// Name, capabilities, dictionaries, qualities of service.
    pub info: Option<Part<Info>>,
    /// Up or down.
    pub state: Option<Part<ServiceState>>,
    /// Transient states and mergers of item groups, in order.
    pub groups: Vec<Part<Group>>,
    /// Limits and load.
    pub load: Option<Part<Load>>,
    /// Data for all users of the service.
    pub data: Option<Part<Data>>,
    /// Upstream sources.
    pub links: Option<Part<Vec<Link>>>,
}

/// What a service offers. Empty texts and lists stand for absent elements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// `Name` of the service.
    pub name: String,
    /// `Vendor`.
    pub vendor: Option<String>,
    /// `IsSource`: an original source rather than an aggregation; absent means no.
    pub is_source: Option<bool>,
    /// `Capabilities`: the domains that can be requested.
    pub capabilities: Vec<Domain>,
    /// `DictionariesProvided`: names of the dictionaries that can be requested here.
    pub dictionaries_provided: Vec<String>,
    /// `DictionariesUsed`: names of the dictionaries that the data needs.
    pub dictionaries_used: Vec<String>,
    /// `QoS`: the qualities on offer; absent means real time, tick by tick.
    pub qos: Vec<Qos>,
    /// `SupportsQoSRange`: requests may give a range of qualities.
    pub supports_qos_range: Option<bool>,
    /// `ItemList`: the symbol list that names all items.
    pub item_list: Option<String>,
    /// `SupportsOutOfBandSnapshots`: snapshots do not count against the limits; absent means yes.
    pub supports_out_of_band_snapshots: Option<bool>,
    /// `AcceptingConsumerStatus`: the consumer may report its part in a mirrored source; absent means yes.
    pub accepting_consumer_status: Option<bool>,
}

/// Whether a service works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState {
    /// `ServiceState`: the original source responds.
    pub up: bool,
    /// `AcceptingRequests`: the direct provider takes new requests; absent means as the service is.
    pub accepting_requests: Option<bool>,
    /// `Status`: what happens to all open items of the service, once; never kept.
    pub status: Option<StateBuf>,
}

/// What happens to a group of items, once; never kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// `Group`: the group id.
    pub group: Vec<u8>,
    /// `MergedToGroup`: its items belong to this group from now on.
    pub merged_to: Option<Vec<u8>>,
    /// `Status`: the state of its items from now on.
    pub status: Option<StateBuf>,
}

/// Limits and load of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// `OpenLimit`: streams that may be open at a time.
    pub open_limit: Option<u64>,
    /// `OpenWindow`: requests that may wait for their first answer at a time; 0 stops requests.
    pub open_window: Option<u64>,
    /// `LoadFactor`: the least loaded of several has the lowest, up to 65,535.
    pub load_factor: Option<u64>,
}

/// Data for all users of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data {
    /// `Type`: 1 time, 2 alert, 3 headline, 4 status.
    pub kind: Option<u64>,
    /// `Data`: its type and bytes.
    pub data: Option<(DataType, Vec<u8>)>,
}

/// An upstream source of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Name of the link, the key of its entry.
    pub name: String,
    /// New, changed or gone.
    pub action: Action,
    /// `LinkState`: up.
    pub up: Option<bool>,
    /// `Type`: 1 interactive, 2 broadcast.
    pub kind: Option<u64>,
    /// `LinkCode`: 1 fine, 2 recovery started, 3 recovery completed.
    pub code: Option<u64>,
    /// `Text` for people.
    pub text: Option<String>,
}

impl Service {
    /// An entry without parts.
    pub fn new(id: u16, action: Action) -> Self {
        Self { id, action, info: None, state: None, groups: Vec::new(), load: None, data: None, links: None }
    }

    /// The deletion of a service.
    pub fn delete(id: u16) -> Self {
        Self::new(id, Action::Delete)
    }

    /// The service's name, if this entry gives it.
    pub fn name(&self) -> Option<&str> {
        self.info.as_ref()?.value().map(|info| info.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Whether new requests can be served, as far as this entry says: up and accepting.
    pub fn is_usable(&self) -> bool {
        self.state
            .as_ref()
            .and_then(Part::value)
            .is_some_and(|state| state.up && state.accepting_requests.unwrap_or(true))
    }

    /// Takes a later entry of the same service in. Transient content (status, groups) is not kept: the caller acts on it
    /// as it comes. An added service replaces what was known.
    pub fn apply(&mut self, change: &Self) {
        if change.action == Action::Add {
            *self = Self::new(self.id, Action::Add);
        }
        apply_part(&mut self.info, change.info.as_ref(), Info::apply);
        apply_part(&mut self.state, change.state.as_ref(), ServiceState::apply);
        apply_part(&mut self.load, change.load.as_ref(), Load::apply);
        apply_part(&mut self.data, change.data.as_ref(), Data::apply);
        apply_part(&mut self.links, change.links.as_ref(), |known, change| apply_links(known, change));
        if let Some(Part::Set(state) | Part::Update(state)) = &mut self.state {
            state.status = None;
        }
    }

    /// Reads the parts of an entry out of its filter list. Parts that are not modelled are skipped.
    ///
    /// # Errors
    /// The bytes are no filter list, or a known element has another type than it must.
    pub fn decode_filters(id: u16, action: Action, filter_list: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_in(id, action, filter_list, &SetScope::NONE)
    }

    /// As [`Service::decode_filters`], inside a map that may define sets.
    pub(super) fn decode_in<'a>(
        id: u16,
        action: Action,
        filter_list: &'a [u8],
        scope: &SetScope<'a>,
    ) -> Result<Self, DecodeError> {
        let mut service = Self::new(id, action);
        for_each_filter(filter_list, |id, action, container, data| {
            if !(id::INFO..=id::LINK).contains(&id) {
                return Ok(());
            }
            let expected = if id == id::LINK { DataType::MAP } else { DataType::ELEMENT_LIST };
            if container != expected && action != FilterAction::CLEAR {
                return Err(DecodeError::invalid("container of a part of a service", 0));
            }
            service.read_part(id, action, data, scope)
        })?;
        Ok(service)
    }

    fn read_part<'a>(
        &mut self,
        id: u8,
        action: FilterAction,
        data: &'a [u8],
        scope: &SetScope<'a>,
    ) -> Result<(), DecodeError> {
        match id {
            id::INFO => self.info = Some(Part::read(action, || Info::read(data, scope))?),
            id::STATE => self.state = Some(Part::read(action, || ServiceState::read(data, scope))?),
            id::GROUP => self.groups.push(Part::read(action, || Group::read(data, scope))?),
            id::LOAD => self.load = Some(Part::read(action, || Load::read(data, scope))?),
            id::DATA => self.data = Some(Part::read(action, || Data::read(data, scope))?),
            _ => self.links = Some(Part::read(action, || read_links(data, scope))?),
        }
        Ok(())
    }

    /// Writes the parts that `filter` names as a filter list, in the SDK's order.
    ///
    /// # Errors
    /// The buffer is full; a part is over 65,535 bytes; there are more than 255 parts.
    pub fn encode_filters(&self, filter: u32, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        w.array([0, DataType::ELEMENT_LIST.wire_container()])?;
        let count_at = w.position();
        w.u8(0)?;
        let mut count = 0;
        if let Some(part) = self.info.as_ref().filter(|_| filter & filter::INFO != 0) {
            write_part(w, id::INFO, part, &mut count, Info::write)?;
        }
        if let Some(part) = self.data.as_ref().filter(|_| filter & filter::DATA != 0) {
            write_part(w, id::DATA, part, &mut count, Data::write)?;
        }
        if let Some(part) = self.links.as_ref().filter(|_| filter & filter::LINK != 0) {
            write_part(w, id::LINK, part, &mut count, |links, w| write_links(links, w))?;
        }
        if let Some(part) = self.load.as_ref().filter(|_| filter & filter::LOAD != 0) {
            write_part(w, id::LOAD, part, &mut count, Load::write)?;
        }
        if let Some(part) = self.state.as_ref().filter(|_| filter & filter::STATE != 0) {
            write_part(w, id::STATE, part, &mut count, ServiceState::write)?;
        }
        for part in self.groups.iter().filter(|_| filter & filter::GROUP != 0) {
            write_part(w, id::GROUP, part, &mut count, Group::write)?;
        }
        let max = usize::from(u8::MAX);
        let count =
            u8::try_from(count).map_err(|_| EncodeError::TooLong { what: "parts of a service", len: count, max })?;
        w.patch_u8(count_at, count);
        Ok(())
    }
}

fn write_part<T>(
    w: &mut Writer<'_>,
    id: u8,
    part: &Part<T>,
    count: &mut usize,
    write: impl FnOnce(&T, &mut Writer<'_>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    const HAS_CONTAINER_TYPE: u8 = 0x20;
    *count += 1;
    if id == id::LINK {
        w.array([HAS_CONTAINER_TYPE | part.action(), id, DataType::MAP.wire_container()])?;
    } else {
        w.array([part.action(), id])?;
    }
    let Some(value) = part.value() else {
        return Ok(());
    };
    let mark = w.begin_ob16(LenForm::Long)?;
    write(value, w)?;
    w.end_ob16(mark)
}

fn apply_part<T: Clone>(known: &mut Option<Part<T>>, change: Option<&Part<T>>, update: impl FnOnce(&mut T, &T)) {
    match (known.as_mut(), change) {
        (_, None) => {}
        (_, Some(Part::Clear)) => *known = None,
        (Some(Part::Set(known) | Part::Update(known)), Some(Part::Update(change))) => update(known, change),
        (_, Some(Part::Set(value) | Part::Update(value))) => *known = Some(Part::Set(value.clone())),
    }
}

/// Takes over what the change gives.
fn take<T: Clone>(known: &mut Option<T>, change: Option<&T>) {
    if change.is_some() {
        *known = change.cloned();
    }
}

impl Info {
    fn apply(&mut self, change: &Self) {
        if !change.name.is_empty() {
            self.name.clone_from(&change.name);
        }
        if !change.capabilities.is_empty() {
            self.capabilities.clone_from(&change.capabilities);
        }
        if !change.dictionaries_provided.is_empty() {
            self.dictionaries_provided.clone_from(&change.dictionaries_provided);
        }
        if !change.dictionaries_used.is_empty() {
            self.dictionaries_used.clone_from(&change.dictionaries_used);
        }
        if !change.qos.is_empty() {
            self.qos.clone_from(&change.qos);
        }
        take(&mut self.vendor, change.vendor.as_ref());
        take(&mut self.is_source, change.is_source.as_ref());
        take(&mut self.supports_qos_range, change.supports_qos_range.as_ref());
        take(&mut self.item_list, change.item_list.as_ref());
        take(&mut self.supports_out_of_band_snapshots, change.supports_out_of_band_snapshots.as_ref());
        take(&mut self.accepting_consumer_status, change.accepting_consumer_status.as_ref());
    }

    fn read<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut info = Self::default();
        for_each(bytes, scope, |element| {
            match element.name() {
                b"Name" => info.name = element.text()?,
                b"Vendor" => info.vendor = Some(element.text()?),
                b"IsSource" => info.is_source = element.bool()?,
                b"Capabilities" => info.capabilities = domains(element)?,
                b"DictionariesProvided" => info.dictionaries_provided = texts(element)?,
                b"DictionariesUsed" => info.dictionaries_used = texts(element)?,
                b"QoS" => info.qos = qualities(element)?,
                b"SupportsQoSRange" => info.supports_qos_range = element.bool()?,
                b"ItemList" => info.item_list = Some(element.text()?),
                b"SupportsOutOfBandSnapshots" => info.supports_out_of_band_snapshots = element.bool()?,
                b"AcceptingConsumerStatus" => info.accepting_consumer_status = element.bool()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(info)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        const LONG: LenForm = LenForm::Long;
        let mut list = Elements::begin(w)?;
        if !self.name.is_empty() {
            list.ascii("Name", &self.name)?;
        }
        list.ascii_opt("Vendor", self.vendor.as_ref())?;
        list.bool_opt("IsSource", self.is_source)?;
        if !self.capabilities.is_empty() {
            let numbers: Vec<u64> = self.capabilities.iter().map(|domain| domain.0.into()).collect();
            list.uint_array("Capabilities", LONG, &numbers)?;
        }
        if !self.dictionaries_provided.is_empty() {
            list.ascii_array("DictionariesProvided", LONG, &self.dictionaries_provided)?;
        }
        if !self.dictionaries_used.is_empty() {
            list.ascii_array("DictionariesUsed", LONG, &self.dictionaries_used)?;
        }
        if !self.qos.is_empty() {
            list.qos_array("QoS", LONG, &self.qos)?;
        }
        list.bool_opt("SupportsQoSRange", self.supports_qos_range)?;
        list.ascii_opt("ItemList", self.item_list.as_ref())?;
        list.bool_opt("SupportsOutOfBandSnapshots", self.supports_out_of_band_snapshots)?;
        list.bool_opt("AcceptingConsumerStatus", self.accepting_consumer_status)?;
        list.end();
        Ok(())
    }
}

impl ServiceState {
    /// A service that works and takes requests, or one that does neither.
    pub fn new(up: bool) -> Self {
        Self { up, accepting_requests: Some(up), status: None }
    }

    fn apply(&mut self, change: &Self) {
        self.up = change.up;
        take(&mut self.accepting_requests, change.accepting_requests.as_ref());
        self.status.clone_from(&change.status);
    }

    fn read<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut up = None;
        let mut state = Self { up: false, accepting_requests: None, status: None };
        for_each(bytes, scope, |element| {
            match element.name() {
                b"ServiceState" => up = element.bool()?,
                b"AcceptingRequests" => state.accepting_requests = element.bool()?,
                b"Status" => state.status = Some(element.state()?),
                _ => {}
            }
            Ok(())
        })?;
        state.up = up.ok_or(DecodeError::invalid("state of a service without ServiceState", 0))?;
        Ok(state)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        list.uint("ServiceState", self.up.into())?;
        list.bool_opt("AcceptingRequests", self.accepting_requests)?;
        if let Some(status) = &self.status {
            list.state("Status", &status.as_state())?;
        }
        list.end();
        Ok(())
    }
}

impl Group {
    fn read<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut group = Self::default();
        for_each(bytes, scope, |element| {
            match element.name() {
                b"Group" => group.group = element.bytes()?,
                b"MergedToGroup" => group.merged_to = Some(element.bytes()?),
                b"Status" => group.status = Some(element.state()?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(group)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        if let Some(status) = &self.status {
            list.state("Status", &status.as_state())?;
        }
        if let Some(merged_to) = &self.merged_to {
            list.buffer("MergedToGroup", merged_to)?;
        }
        list.buffer("Group", &self.group)?;
        list.end();
        Ok(())
    }
}

impl Load {
    fn apply(&mut self, change: &Self) {
        take(&mut self.open_limit, change.open_limit.as_ref());
        take(&mut self.open_window, change.open_window.as_ref());
        take(&mut self.load_factor, change.load_factor.as_ref());
    }

    fn read<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut load = Self::default();
        for_each(bytes, scope, |element| {
            match element.name() {
                b"OpenLimit" => load.open_limit = element.uint()?,
                b"OpenWindow" => load.open_window = element.uint()?,
                b"LoadFactor" => load.load_factor = element.uint()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(load)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        list.uint_opt("OpenLimit", self.open_limit)?;
        list.uint_opt("OpenWindow", self.open_window)?;
        list.uint_opt("LoadFactor", self.load_factor)?;
        list.end();
        Ok(())
    }
}

impl Data {
    fn apply(&mut self, change: &Self) {
        take(&mut self.kind, change.kind.as_ref());
        take(&mut self.data, change.data.as_ref());
    }

    fn read<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Self, DecodeError> {
        let mut data = Self::default();
        for_each(bytes, scope, |element| {
            match element.name() {
                b"Type" => data.kind = element.uint()?,
                b"Data" => data.data = Some((element.data_type(), element.data().to_vec())),
                _ => {}
            }
            Ok(())
        })?;
        Ok(data)
    }

    fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        let mut list = Elements::begin(w)?;
        list.uint_opt("Type", self.kind)?;
        if let Some((data_type, data)) = &self.data {
            list.raw("Data", *data_type, data)?;
        }
        list.end();
        Ok(())
    }
}

fn apply_links(known: &mut Vec<Link>, change: &[Link]) {
    for link in change {
        match (link.action, known.iter().position(|old| old.name == link.name)) {
            (Action::Delete, Some(index)) => {
                known.remove(index);
            }
            (Action::Delete, None) => {}
            (Action::Update, Some(index)) => {
                let old = &mut known[index];
                take(&mut old.up, link.up.as_ref());
                take(&mut old.kind, link.kind.as_ref());
                take(&mut old.code, link.code.as_ref());
                take(&mut old.text, link.text.as_ref());
            }
            (Action::Add, Some(index)) => known[index] = link.clone(),
            (_, None) => known.push(Link { action: Action::Add, ..link.clone() }),
        }
    }
}

fn read_links<'a>(bytes: &'a [u8], scope: &SetScope<'a>) -> Result<Vec<Link>, DecodeError> {
    let mut links = Vec::new();
    for_each_map_entry(bytes, DataType::ASCII_STRING, scope, |entry| {
        let name = String::from_utf8_lossy(entry.key).into_owned();
        let mut link =
            Link { name, action: Action::from_wire(entry.action)?, up: None, kind: None, code: None, text: None };
        for_each(entry.data, &entry.scope, |element| {
            match element.name() {
                b"LinkState" => link.up = element.bool()?,
                b"Type" => link.kind = element.uint()?,
                b"LinkCode" => link.code = element.uint()?,
                b"Text" => link.text = Some(element.text()?),
                _ => {}
            }
            Ok(())
        })?;
        links.push(link);
        Ok(())
    })?;
    Ok(links)
}

fn write_links(links: &[Link], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    w.array([0, DataType::ASCII_STRING.0, DataType::ELEMENT_LIST.wire_container()])?;
    let max = usize::from(u16::MAX);
    let count = u16::try_from(links.len()).map_err(|_| EncodeError::TooLong {
        what: "list of links",
        len: links.len(),
        max,
    })?;
    w.u16(count)?;
    for link in links {
        w.u8(link.action.to_wire())?;
        w.buf15(link.name.as_bytes())?;
        if link.action == Action::Delete {
            continue;
        }
        let mark = w.begin_ob16(LenForm::Long)?;
        let mut list = Elements::begin(w)?;
        list.uint_opt("LinkCode", link.code)?;
        list.ascii_opt("Text", link.text.as_ref())?;
        list.uint_opt("Type", link.kind)?;
        list.bool_opt("LinkState", link.up)?;
        list.end();
        w.end_ob16(mark)?;
    }
    Ok(())
}

/// Numbers over 255 are no domains and are left out.
fn domains(element: &Element<'_>) -> Result<Vec<Domain>, DecodeError> {
    let mut domains = Vec::new();
    for item in element.items()? {
        match item? {
            Primitive::UInt(number) => domains.extend(u8::try_from(number).ok().map(Domain)),
            Primitive::Blank => {}
            _ => return Err(DecodeError::invalid("array that must hold UINT", 0)),
        }
    }
    Ok(domains)
}

fn texts(element: &Element<'_>) -> Result<Vec<String>, DecodeError> {
    let mut texts = Vec::new();
    for item in element.items()? {
        let item = item?;
        match item.as_bytes() {
            Some(text) => texts.push(String::from_utf8_lossy(text).into_owned()),
            None if item.is_blank() => {}
            None => return Err(DecodeError::invalid("array that must hold text", 0)),
        }
    }
    Ok(texts)
}

fn qualities(element: &Element<'_>) -> Result<Vec<Qos>, DecodeError> {
    let mut qualities = Vec::new();
    for item in element.items()? {
        match item? {
            Primitive::Qos(qos) => qualities.push(qos),
            Primitive::Blank => {}
            _ => return Err(DecodeError::invalid("array that must hold QOS", 0)),
        }
    }
    Ok(qualities)
}
