//! Marketfeed to RWF and back, by the dictionary.

use rwf::container::FieldListInfo;
use rwf::dictionary::{Dictionary, FieldDef, MarketfeedType};
use rwf::msg::{Conflation, Domain, Msg, MsgClass, MsgKey, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::primitive;
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, DecodeError, EncodeError, FieldEntry, FieldList, FieldListEncoder, Primitive, SetScope, State,
    StreamState,
};
use thiserror::Error;

use crate::value::{self, TimeForm};
use crate::{Field, Loss, Losses, ParseError, Record, RecordEncoder, RecordType, has_edit};

/// A message that cannot be converted as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConvertError {
    /// Marketfeed bytes that are wrong.
    #[error(transparent)]
    Record(#[from] ParseError),
    /// RWF bytes that are wrong.
    #[error(transparent)]
    Rwf(#[from] DecodeError),
    /// The buffer is full, or a part is too long.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A command or broadcast message, or one of an unknown type: there is no RWF message for it.
    #[error("a Marketfeed message of type {0} has no form in RWF")]
    RecordType(RecordType),
    /// A request, post, acknowledgement or the like.
    #[error("an RWF message of class {0:?} has no form in Marketfeed")]
    Class(MsgClass),
    /// A map, vector or the like.
    #[error("a container of type {0:?} has no form in Marketfeed; only field lists have")]
    Container(DataType),
}

/// Where the record transaction level of a Marketfeed message comes from, and what becomes of it
/// (`seqNumFollowsMarketfeedRules`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RtlRule {
    /// The converter's caller counts ([`Converter::to_marketfeed`] takes and moves its counter); RWF gets none.
    #[default]
    Counted,
    /// The sequence number of RWF, modulo 65,536, both ways.
    SequenceNumber,
}

/// Choices of a [`Converter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What the record transaction level is.
    pub rtl: RtlRule,
    /// Enumerations are written as the text that a screen shows, where there is one (`expandedEnumFields`).
    pub expands_enums: bool,
}

/// What an RWF message has that a record has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RwfHeader {
    /// The stream.
    pub stream_id: i32,
    /// The service in the key of refreshes and statuses; `None` writes a key with the name alone.
    pub service_id: Option<u16>,
    /// `DictionaryId` of the field list's information.
    pub dictionary_id: i16,
    /// Whether a refresh answers a request.
    pub is_solicited: bool,
}

/// Converts messages and counts what is lost.
#[derive(Debug, Clone, Default)]
pub struct Converter {
    options: Options,
    losses: Losses,
}

impl Converter {
    /// A converter without losses so far.
    pub fn new(options: Options) -> Self {
        Self { options, losses: Losses::default() }
    }

    pub(crate) const fn rtl_rule(&self) -> RtlRule {
        self.options.rtl
    }

    /// What was lost so far.
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Writes the RWF message (domain Market Price) of a record: a refresh for an image or snapshot, an update, a status.
    ///
    /// # Errors
    /// [`ConvertError`]; what was written is of no use then. Fields that cannot be said are counted, not errors.
    pub fn to_rwf(
        &mut self,
        dictionary: &Dictionary,
        record: &Record<'_>,
        header: &RwfHeader,
        w: &mut Writer<'_>,
    ) -> Result<(), ConvertError> {
        let key = MsgKey { service_id: header.service_id, ..MsgKey::item(0, record.item) };
        let seq_num = match self.options.rtl {
            RtlRule::Counted => None,
            RtlRule::SequenceNumber => record.rtl.map(u32::from),
        };
        let container = DataType::FIELD_LIST;
        match record.record_type {
            RecordType::IMAGE | RecordType::SNAPSHOT => {
                let is_snapshot = record.record_type == RecordType::SNAPSHOT;
                let solicited = if header.is_solicited { RefreshFlags::SOLICITED } else { RefreshFlags::NONE };
                let flags = RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE | solicited;
                let stream_state = if is_snapshot { StreamState::NON_STREAMING } else { StreamState::OPEN };
                let refresh = RefreshMsg {
                    container,
                    flags,
                    seq_num,
                    state: State { stream: stream_state, text: status_text(record), ..State::OPEN_OK },
                    key: Some(key),
                    ..RefreshMsg::new(Domain::MARKET_PRICE, header.stream_id)
                };
                refresh.encode_header(w)?;
                let num = record.field_list.unwrap_or(0);
                self.fields_to_rwf(
                    dictionary,
                    record,
                    Some(FieldListInfo { dict_id: header.dictionary_id as u16, num }),
                    w,
                )
            }
            RecordType::STATUS | RecordType::DROP => {
                let (state, key) = (Some(drop_state(record)), Some(key));
                let status = StatusMsg { state, key, ..StatusMsg::new(Domain::MARKET_PRICE, header.stream_id) };
                Ok(status.encode(w)?)
            }
            _ => {
                let update_type =
                    update_type(record.record_type).ok_or(ConvertError::RecordType(record.record_type))?;
                let conflation = record.delta_rtl.map(|count| Conflation { count, time: 0 });
                let message = UpdateMsg::new(Domain::MARKET_PRICE, header.stream_id);
                let update = UpdateMsg { container, update_type, seq_num, conflation, ..message };
                update.encode_header(w)?;
                self.fields_to_rwf(dictionary, record, None, w)
            }
        }
    }

    /// Writes the field list of a record.
    ///
    /// # Errors
    /// As [`Converter::to_rwf`].
    pub fn fields_to_rwf(
        &mut self,
        dictionary: &Dictionary,
        record: &Record<'_>,
        info: Option<FieldListInfo>,
        w: &mut Writer<'_>,
    ) -> Result<(), ConvertError> {
        let mut list = FieldListEncoder::begin(w)?;
        if let Some(info) = info {
            list.info(info)?;
        }
        for field in record.fields() {
            let field = field?;
            match field_to_rwf(dictionary, field, &mut list) {
                Ok(()) => {}
                Err(value::Error::Encode(error)) => return Err(error.into()),
                Err(value::Error::Lost(loss)) => self.losses.add(field.fid, loss),
            }
        }
        Ok(list.finish()?)
    }

    /// Writes the record of an RWF refresh, update or status for an item. `rtl` is the item's counter of transactions: the
    /// message takes the next one, or its sequence number where that is the rule.
    ///
    /// # Errors
    /// [`ConvertError`]; what was written is of no use then. Fields that cannot be said are counted, not errors.
    pub fn to_marketfeed(
        &mut self,
        dictionary: &Dictionary,
        msg: &Msg<'_>,
        item: &[u8],
        rtl: &mut u16,
        w: &mut Writer<'_>,
    ) -> Result<(), ConvertError> {
        let (record_type, body, container, seq_num, delta_rtl) = match msg {
            Msg::Refresh(refresh) => {
                let is_snapshot = refresh.state.stream == StreamState::NON_STREAMING;
                let record_type = if is_snapshot { RecordType::SNAPSHOT } else { RecordType::IMAGE };
                (record_type, refresh.body, refresh.container, refresh.seq_num, None)
            }
            Msg::Update(update) => {
                let delta = update.conflation.map(|conflation| conflation.count);
                let record_type = if delta.is_some() { RecordType::AGGREGATE } else { record_type(update.update_type) };
                (record_type, update.body, update.container, update.seq_num, delta)
            }
            Msg::Status(status) => return status_to_marketfeed(status, item, w),
            other => return Err(ConvertError::Class(other.class())),
        };
        let list = match container {
            DataType::FIELD_LIST => FieldList::decode(body, &SetScope::NONE)?,
            DataType::NO_DATA => FieldList::decode(&[], &SetScope::NONE)?,
            other => return Err(ConvertError::Container(other)),
        };
        *rtl = match (self.options.rtl, seq_num) {
            (RtlRule::SequenceNumber, Some(number)) => number as u16,
            _ => rtl.wrapping_add(1),
        };
        let record = Record {
            tag: Some(b""),
            field_list: list.info.map(|info| info.num),
            rtl: Some(*rtl),
            delta_rtl,
            ..Record::new(record_type, item)
        };
        let mut encoder = RecordEncoder::begin(w, &record)?;
        for entry in list.entries() {
            let entry = entry?;
            let start = encoder.position();
            match self.field_to_marketfeed(dictionary, &entry, &mut encoder) {
                Ok(None) => {}
                Ok(Some(loss)) => self.losses.add(entry.fid, loss),
                Err(value::Error::Encode(error)) => return Err(error.into()),
                Err(value::Error::Lost(loss)) => {
                    encoder.rollback(start);
                    self.losses.add(entry.fid, loss);
                }
            }
        }
        Ok(encoder.finish()?)
    }

    fn field_to_marketfeed(
        &self,
        dictionary: &Dictionary,
        entry: &FieldEntry<'_>,
        encoder: &mut RecordEncoder<'_, '_>,
    ) -> Result<Option<Loss>, value::Error> {
        let def = dictionary.field(entry.fid).ok_or(value::Error::Lost(Loss::NoDefinition))?;
        if def.marketfeed_type() == MarketfeedType::NONE {
            return Err(value::Error::Lost(Loss::NotInMarketfeed));
        }
        let start = encoder.position();
        let mut kept = Ok(None);
        encoder.field_with(entry.fid, |w| {
            let head = w.position();
            kept = self.write_value(dictionary, def, entry, w);
            let len = w.position() - head;
            // Edits are longer than what they edit.
            let is_text_with_edit = || has_edit(&w.written()[head..]);
            if kept.is_ok() && def.length() > 0 && len > usize::from(def.length()) && !is_text_with_edit() {
                kept = Err(value::Error::Lost(Loss::TooLong));
            }
            Ok(())
        })?;
        debug_assert!(encoder.position() > start, "a field has a head");
        kept
    }

    /// The value of a field as text; empty for a blank one.
    fn write_value(
        &self,
        dictionary: &Dictionary,
        def: &FieldDef,
        entry: &FieldEntry<'_>,
        w: &mut Writer<'_>,
    ) -> Result<Option<Loss>, value::Error> {
        let wrong = |_: DecodeError| value::Error::Lost(Loss::Value);
        let data = entry.data;
        if data.is_empty() {
            return Ok(None);
        }
        match def.data_type() {
            DataType::REAL => match primitive::real(data).map_err(wrong)? {
                Some(real) => value::write_real(w, real),
                None => Ok(None),
            },
            DataType::ENUM => {
                let number = primitive::enumeration(data).map_err(wrong)?;
                match dictionary.enum_display(entry.fid, number) {
                    Some(text) if self.options.expands_enums => write_text(w, text)?,
                    _ => value::write_uint(w, u64::from(number))?,
                }
                Ok(None)
            }
            DataType::UINT if def.marketfeed_type() == MarketfeedType::BINARY => {
                value::write_binary(w, primitive::uint(data).map_err(wrong)?, def.length())?;
                Ok(None)
            }
            DataType::UINT => Ok(value::write_uint(w, primitive::uint(data).map_err(wrong)?).map(|()| None)?),
            DataType::INT => Ok(value::write_int(w, primitive::int(data).map_err(wrong)?).map(|()| None)?),
            DataType::DATE => match primitive::date(data).map_err(wrong)? {
                date if date.is_blank() => Ok(None),
                date => value::write_date(w, date).map(|()| None),
            },
            DataType::TIME => match primitive::time(data).map_err(wrong)? {
                time if time.is_blank() => Ok(None),
                time => value::write_time(w, time, time_form(def)),
            },
            DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING => {
                write_text(w, data).map(|()| None)
            }
            _ => Err(value::Error::Lost(Loss::Type)),
        }
    }
}

fn write_text(w: &mut Writer<'_>, text: &[u8]) -> Result<(), value::Error> {
    if value::write_text(w, text)? { Ok(()) } else { Err(value::Error::Lost(Loss::Separator)) }
}

/// The state that a status or drop is: closed for a drop, open for all else, since nobody says what the codes mean.
pub(crate) fn drop_state<'a>(record: &Record<'a>) -> State<'a> {
    let is_drop = record.record_type == RecordType::DROP;
    let stream = if is_drop { StreamState::CLOSED } else { StreamState::OPEN };
    State { stream, data: DataState::SUSPECT, text: record.text.unwrap_or_default(), ..State::OPEN_OK }
}

/// A status of an image that is not fine is its text; nobody says what the numbers mean.
fn status_text<'a>(record: &Record<'a>) -> &'a [u8] {
    record.status.filter(|status| *status != b"0").unwrap_or_default()
}

pub(crate) fn update_type(record_type: RecordType) -> Option<UpdateType> {
    Some(match record_type {
        RecordType::UPDATE | RecordType::AGGREGATE => UpdateType::UNSPECIFIED,
        RecordType::CORRECTION => UpdateType::CORRECTION,
        RecordType::CLOSING_RUN => UpdateType::CLOSING_RUN,
        RecordType::VERIFY => UpdateType::VERIFY,
        _ => return None,
    })
}

fn record_type(update_type: UpdateType) -> RecordType {
    match update_type {
        UpdateType::CORRECTION => RecordType::CORRECTION,
        UpdateType::CLOSING_RUN => RecordType::CLOSING_RUN,
        UpdateType::VERIFY => RecordType::VERIFY,
        _ => RecordType::UPDATE,
    }
}

fn status_to_marketfeed(status: &StatusMsg<'_>, item: &[u8], w: &mut Writer<'_>) -> Result<(), ConvertError> {
    let state = status.state.unwrap_or(State::OPEN_OK);
    let is_over = matches!(state.stream, StreamState::CLOSED | StreamState::CLOSED_RECOVER);
    // A drop has no place for a text: it goes ahead of it.
    if !is_over || !state.text.is_empty() {
        // Text that holds separators would end the message early.
        let is_sayable = !state.text.iter().any(|byte| byte & 0xFC == 0x1C);
        let text = if is_sayable { state.text } else { b"" };
        let record = Record { code: Some(b"0"), text: Some(text), ..Record::new(RecordType::STATUS, item) };
        RecordEncoder::begin(w, &record)?.finish()?;
    }
    if is_over {
        RecordEncoder::begin(w, &Record::new(RecordType::DROP, item))?.finish()?;
    }
    Ok(())
}

fn time_form(def: &FieldDef) -> TimeForm {
    match def.marketfeed_type() {
        MarketfeedType::TIME => TimeForm::Minutes,
        MarketfeedType::INTEGER if def.rwf_length() <= 5 => TimeForm::Millis,
        MarketfeedType::INTEGER => TimeForm::Nanos,
        _ => TimeForm::Seconds,
    }
}

/// Writes a field of a record into a field list.
#[inline]
fn field_to_rwf(
    dictionary: &Dictionary,
    field: Field<'_>,
    list: &mut FieldListEncoder<'_, '_>,
) -> Result<(), value::Error> {
    let Field { fid, value: text } = field;
    // Text of a field that nobody defines is passed on as it is: whoever knows the field can read it.
    let Some(def) = dictionary.field(fid) else { return Ok(list.raw(fid, text)?) };
    let data_type = def.data_type();
    if matches!(data_type, DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING) {
        return Ok(list.raw(fid, text)?);
    }
    if value::is_blank(text) {
        return Ok(list.blank(fid)?);
    }
    let wrong = value::Error::Lost(Loss::Value);
    // Each kind is written where it is read: a value of any kind between the two would be stored and loaded again.
    let written = match data_type {
        DataType::REAL => list.real(fid, value::real(text).ok_or(wrong)?),
        DataType::UINT if def.marketfeed_type() == MarketfeedType::BINARY => {
            list.uint(fid, value::binary(text).ok_or(wrong)?)
        }
        DataType::UINT => list.uint(fid, value::uint(text).ok_or(wrong)?),
        DataType::INT => list.int(fid, value::int(text).ok_or(wrong)?),
        DataType::DATE => list.field(fid, &Primitive::Date(value::date(text).ok_or(wrong)?)),
        DataType::TIME if def.marketfeed_type() == MarketfeedType::INTEGER => {
            let time = value::time_of_count(text, def.rwf_length()).ok_or(wrong)?;
            list.field(fid, &Primitive::Time(time))
        }
        DataType::TIME => list.field(fid, &Primitive::Time(value::time(text).ok_or(wrong)?)),
        DataType::ENUM => list.enumeration(fid, enumeration(dictionary, def, text).ok_or(wrong)?),
        _ => return Err(value::Error::Lost(Loss::Type)),
    };
    Ok(written?)
}

/// Digits are the value; other text is looked up among the displays of the field.
fn enumeration(dictionary: &Dictionary, def: &FieldDef, text: &[u8]) -> Option<u16> {
    let number = value::uint(text).and_then(|number| u16::try_from(number).ok());
    number.or_else(|| dictionary.enum_table(def)?.value_of(text))
}
