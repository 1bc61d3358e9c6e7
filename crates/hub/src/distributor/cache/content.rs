//! Payloads that updates can be applied to.

use super::Misfit;
use super::lists::{Elements, Fields};
use super::rows::{Filters, Map, Series, Vector};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError, SetScope};

/// How deep containers may lie in each other.
const MAX_DEPTH: u8 = 8;
/// Entries of one container; more than any real image has, and a bound for a hostile one.
pub(super) const MAX_ROWS: usize = 1 << 20;

/// A payload.
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
    /// A container without entries that we know: kept as a whole.
    Whole(Box<[u8]>),
}

impl Content {
    /// Applies a payload of this type: a part of a refresh, or an update.
    pub(super) fn apply(
        &mut self,
        container: DataType,
        data: &[u8],
        scope: &SetScope<'_>,
        refresh: bool,
        depth: u8,
    ) -> Result<(), Misfit> {
        if depth > MAX_DEPTH {
            return Err(Misfit::TooLarge);
        }
        if matches!(self, Self::Empty) {
            *self = Self::of(container);
        }
        match self {
            Self::Fields(fields) => fields.apply(data, scope),
            Self::Elements(elements) => elements.apply(data, scope),
            Self::Map(map) => map.apply(data, scope, depth),
            Self::Vector(vector) => vector.apply(data, scope, depth),
            Self::Filters(filters) => filters.apply(data, scope, depth),
            Self::Series(series) => series.apply(data, scope, depth),
            Self::Whole(whole) if refresh => {
                *whole = data.into();
                Ok(())
            }
            Self::Empty | Self::Whole(_) => Err(Misfit::NotUpdatable),
        }
    }

    fn of(container: DataType) -> Self {
        match container {
            DataType::NO_DATA => Self::Empty,
            DataType::FIELD_LIST => Self::Fields(Fields::default()),
            DataType::ELEMENT_LIST => Self::Elements(Elements::default()),
            DataType::MAP => Self::Map(Box::default()),
            DataType::VECTOR => Self::Vector(Box::default()),
            DataType::FILTER_LIST => Self::Filters(Box::default()),
            DataType::SERIES => Self::Series(Box::default()),
            _ => Self::Whole(Box::default()),
        }
    }

    /// The content of an entry: what it was given with.
    pub(super) fn entry(container: DataType, data: &[u8], scope: &SetScope<'_>, depth: u8) -> Result<Self, Misfit> {
        let mut content = Self::Empty;
        if container != DataType::NO_DATA {
            content.apply(container, data, scope, true, depth + 1)?;
        }
        Ok(content)
    }

    /// Changes the content of an entry.
    pub(super) fn update_entry(
        &mut self,
        container: DataType,
        data: &[u8],
        scope: &SetScope<'_>,
        depth: u8,
    ) -> Result<(), Misfit> {
        if container == DataType::NO_DATA || data.is_empty() {
            return Ok(());
        }
        self.apply(container, data, scope, false, depth + 1)
    }

    /// Writes the whole payload.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.write_part(0, usize::MAX, w).and_then(|next| match next {
            None => Ok(()),
            Some(len) => Err(EncodeError::TooLong { what: "entries", len, max: usize::from(u16::MAX) }),
        })
    }

    /// Writes the payload from row `from` on, up to about `limit` bytes: the next part's first row, or `None`.
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
            Self::Whole(whole) => w.bytes(whole).map(|()| None),
        }
    }
}
