//! Payloads that updates can be applied to.

use super::lists::{Elements, Fields};
use super::rows::{Filters, Map, Series, Vector};
use super::{Ahead, ApplyError, Latest, Plans, Schema};
use crate::msg::{UpdateFlags, UpdateMsg};
use crate::page::Page;
use crate::wire::Writer;
use crate::{DataType, EncodeError};

/// How deep containers may lie in each other.
const MAX_DEPTH: u8 = 8;
/// Entries of one container; more than any real image has, and a bound for a hostile one.
pub(super) const MAX_ROWS: usize = 1 << 20;

/// The schema that an update is to be read with: its flags may say that nothing ripples.
#[inline]
pub(super) fn rippling<'a>(update: &UpdateMsg<'_>, schema: &Schema<'a>) -> Schema<'a> {
    Schema { ripple: schema.ripple && !update.flags.contains(UpdateFlags::DO_NOT_RIPPLE), ..*schema }
}

/// The data of an item: a container to which refreshes and updates are applied. See the [module](super) for the rules.
#[derive(Debug)]
pub struct Payload {
    content: Content,
    container: DataType,
    /// Everything that came could be applied.
    sound: bool,
}

impl Payload {
    /// A container of a type, without entries.
    pub const fn new(container: DataType) -> Self {
        Self { content: Content::Empty, container, sound: true }
    }

    /// The container's type.
    pub const fn container(&self) -> DataType {
        self.container
    }

    /// Whether everything that came could be applied.
    pub const fn is_sound(&self) -> bool {
        self.sound
    }

    /// Takes a part of a refresh in.
    ///
    /// # Errors
    /// The part cannot be applied; the payload is not [sound](Payload::is_sound) any more.
    pub fn refresh(&mut self, container: DataType, body: &[u8], schema: &Schema<'_>) -> Result<(), ApplyError> {
        self.apply(container, body, schema, true)
    }

    /// Takes an update in. One without data changes nothing.
    ///
    /// # Errors
    /// The update cannot be applied; the payload is not [sound](Payload::is_sound) any more.
    pub fn update(&mut self, container: DataType, body: &[u8], schema: &Schema<'_>) -> Result<(), ApplyError> {
        if body.is_empty() { Ok(()) } else { self.apply(container, body, schema, false) }
    }

    /// Takes an update message in, if it is planned, and its sequence number. False, and nothing is changed, if not.
    #[inline]
    pub(super) fn update_planned(&mut self, message: &[u8], plans: &mut Plans, seq_num: &mut Option<u32>) -> bool {
        match &mut self.content {
            Content::Fields(fields) => plans.apply(fields, message, seq_num),
            _ => false,
        }
    }

    /// Notes the layout of a field list for [`Payload::update_planned`].
    pub(super) fn note_layout(&mut self, plans: &mut Plans) {
        if let Content::Fields(fields) = &mut self.content {
            plans.note_layout(fields);
        }
    }

    /// What is planned for an update message.
    #[inline]
    pub(super) fn ahead(&self, message: &[u8], plans: &Plans) -> Ahead {
        if let Content::Fields(fields) = &self.content { plans.ahead(fields, message) } else { Ahead::default() }
    }

    /// Has the memory come near that an update changes for which somebody has looked.
    #[inline]
    pub(super) fn touch(&self, ahead: Ahead, plans: &Plans) -> u8 {
        if let Content::Fields(fields) = &self.content { plans.touch(fields, ahead) } else { 0 }
    }

    /// As [`Payload::update_planned`], of a message for which somebody has looked.
    #[inline]
    pub(super) fn update_ahead(
        &mut self,
        message: &[u8],
        plans: &mut Plans,
        seq_num: &mut Option<u32>,
        ahead: Ahead,
    ) -> bool {
        match &mut self.content {
            Content::Fields(fields) => plans.apply_ahead(fields, message, seq_num, ahead),
            _ => false,
        }
    }

    /// Updates of a field list may be kept beside it from now on.
    #[inline]
    pub(super) fn open(&self, latest: &mut Latest, plans: &Plans) {
        if let Content::Fields(fields) = &self.content {
            plans.open(latest, fields);
        }
    }

    /// Takes in what is kept beside a field list.
    ///
    /// # Errors
    /// An update cannot be applied; the payload is not [sound](Payload::is_sound) any more.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        latest: &mut Latest,
        plans: &mut Plans,
        seq_num: &mut Option<u32>,
    ) -> Result<(), ApplyError> {
        let Content::Fields(fields) = &mut self.content else {
            plans.forget(latest);
            return Ok(());
        };
        if plans.give(latest, fields, seq_num) { Ok(()) } else { self.take_in_again(latest, plans, seq_num) }
    }

    /// As [`Self::take_in`], of what is there to be applied again.
    #[inline(never)]
    fn take_in_again(
        &mut self,
        latest: &mut Latest,
        plans: &mut Plans,
        seq_num: &mut Option<u32>,
    ) -> Result<(), ApplyError> {
        let updates = plans.begin_updates(latest);
        let mut applied = Ok(());
        for message in updates.messages() {
            if self.update_planned(message, plans, seq_num) {
                continue;
            }
            let one = UpdateMsg::decode(message).map_err(ApplyError::from).and_then(|update| {
                *seq_num = update.seq_num.or(*seq_num);
                self.update(update.container, update.body, &rippling(&update, &plans.schema()))
            });
            applied = applied.and(one);
        }
        match &self.content {
            Content::Fields(fields) => plans.end_updates(latest, fields, updates),
            _ => plans.forget(latest),
        }
        applied
    }

    fn apply(
        &mut self,
        container: DataType,
        body: &[u8],
        schema: &Schema<'_>,
        refresh: bool,
    ) -> Result<(), ApplyError> {
        let result = if container == DataType::NO_DATA {
            Ok(())
        } else if container == self.container {
            self.content.apply(container, body, schema, refresh, 0)
        } else {
            Err(ApplyError::NotUpdatable { held: self.container, update: container })
        };
        self.sound &= result.is_ok();
        result
    }

    /// Writes the whole payload.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::TooLong`] for more than 65,535 entries, which need several parts.
    pub fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.content.write(w)
    }

    /// Writes the payload from row `from` on, up to about `limit` bytes but one row at least: the first row of the next
    /// part, or `None` after the last. Only maps, vectors and series have rows; other containers are one part.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]
    pub fn write_part(&self, from: usize, limit: usize, w: &mut Writer<'_>) -> Result<Option<usize>, EncodeError> {
        self.content.write_part(from, limit, w)
    }
}

/// The data of a container or of one of its entries.
#[derive(Debug, Default)]
pub(super) enum Content {
    /// Nothing yet.
    #[default]
    Empty,
    Fields(Fields),
    Elements(Elements),
    Map(Box<Map>),
    Vector(Box<Vector>),
    Filters(Box<Filters>),
    Series(Box<Series>),
    /// What shows on an ANSI page, and the state that updates build upon.
    Page(Box<Page>),
    /// A container without entries that we know: kept as a whole.
    Whole(Box<[u8]>),
}

impl Content {
    /// Applies data of this type: a part of a refresh, or an update.
    pub(super) fn apply(
        &mut self,
        container: DataType,
        data: &[u8],
        schema: &Schema<'_>,
        refresh: bool,
        depth: u8,
    ) -> Result<(), ApplyError> {
        if depth > MAX_DEPTH {
            return Err(ApplyError::TooLarge("deeper nesting"));
        }
        if matches!(self, Self::Empty) {
            *self = Self::of(container, schema);
        }
        match self {
            Self::Fields(fields) => fields.apply(data, schema, refresh),
            Self::Elements(elements) => elements.apply(data, schema),
            Self::Map(map) => map.apply(data, schema, refresh, depth),
            Self::Vector(vector) => vector.apply(data, schema, refresh, depth),
            Self::Filters(filters) => filters.apply(data, schema, depth),
            Self::Series(series) => series.apply(data, schema, depth),
            Self::Page(page) => {
                // No bytes are wrong on a page: what is unknown means nothing. A refresh finds a new page, or clears it itself.
                page.apply(data);
                Ok(())
            }
            Self::Whole(whole) if refresh => {
                *whole = data.into();
                Ok(())
            }
            Self::Empty | Self::Whole(_) => Err(ApplyError::NotUpdatable { held: container, update: container }),
        }
    }

    fn of(container: DataType, schema: &Schema<'_>) -> Self {
        match container {
            DataType::NO_DATA => Self::Empty,
            DataType::FIELD_LIST => Self::Fields(Fields::default()),
            DataType::ELEMENT_LIST => Self::Elements(Elements::default()),
            DataType::MAP => Self::Map(Box::default()),
            DataType::VECTOR => Self::Vector(Box::default()),
            DataType::FILTER_LIST => Self::Filters(Box::default()),
            DataType::SERIES => Self::Series(Box::default()),
            DataType::ANSI_PAGE => Self::Page(Box::new(Page::new(schema.page_size))),
            _ => Self::Whole(Box::default()),
        }
    }

    /// The content of an entry: what the entry was given with.
    pub(super) fn entry(container: DataType, data: &[u8], schema: &Schema<'_>, depth: u8) -> Result<Self, ApplyError> {
        let mut content = Self::Empty;
        if container != DataType::NO_DATA {
            content.apply(container, data, schema, true, depth + 1)?;
        }
        Ok(content)
    }

    /// Replaces the content of an entry by what the entry is given with now. A field list keeps its memory.
    pub(super) fn replace(
        &mut self,
        container: DataType,
        data: &[u8],
        schema: &Schema<'_>,
        depth: u8,
    ) -> Result<(), ApplyError> {
        match self {
            Self::Fields(fields) if container == DataType::FIELD_LIST => {
                fields.clear();
                fields.apply(data, schema, true)
            }
            _ => {
                *self = Self::entry(container, data, schema, depth)?;
                Ok(())
            }
        }
    }

    /// Changes the content of an entry.
    pub(super) fn update_entry(
        &mut self,
        container: DataType,
        data: &[u8],
        schema: &Schema<'_>,
        depth: u8,
    ) -> Result<(), ApplyError> {
        if container == DataType::NO_DATA || data.is_empty() {
            return Ok(());
        }
        self.apply(container, data, schema, false, depth + 1)
    }

    /// Writes everything.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.write_part(0, usize::MAX, w).and_then(|next| match next {
            None => Ok(()),
            Some(len) => Err(EncodeError::TooLong { what: "entries", len, max: usize::from(u16::MAX) }),
        })
    }

    /// Writes from row `from` on, up to about `limit` bytes: the next part's first row, or `None`.
    pub(super) fn write_part(
        &self,
        from: usize,
        limit: usize,
        w: &mut Writer<'_>,
    ) -> Result<Option<usize>, EncodeError> {
        match self {
            Self::Empty => Ok(None),
            Self::Fields(fields) => fields.write(w).map(|()| None),
            Self::Elements(elements) => elements.write(w).map(|()| None),
            Self::Map(map) => map.write(from, limit, w),
            Self::Vector(vector) => vector.write(from, limit, w),
            Self::Filters(filters) => filters.write(w).map(|()| None),
            Self::Series(series) => series.write(from, limit, w),
            Self::Page(page) => w.bytes(&page.image()).map(|()| None),
            Self::Whole(whole) => w.bytes(whole).map(|()| None),
        }
    }
}
