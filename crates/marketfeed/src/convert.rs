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

use crate::record::Text;
use crate::value::{self, TimeForm};
use crate::{Loss, Losses, ParseError, Record, RecordEncoder, RecordType, has_edit};

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

/// How a price says that it is zero, and that it is blank (`convertToIDNStyle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PriceStyle {
    /// As IDN's records: a zero without a minus is blank, and `-0` is zero; blank is written `+0`.
    #[default]
    Idn,
    /// As any other number: zero is zero, whatever its sign, and blank is empty.
    Plain,
}

/// Choices of a [`Converter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// What the record transaction level is.
    pub rtl: RtlRule,
    /// Enumerations are written as the text that a screen shows, where there is one (`expandedEnumFields`).
    pub expands_enums: bool,
    /// The meaning of zero and blank of prices.
    pub prices: PriceStyle,
    /// The template number of an image's record becomes that of the field list in [`Converter::read_opaque`] (`useTemplateNumber`); otherwise the field
    /// list has none.
    pub keeps_templates: bool,
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

    /// Other options for the messages from now on: those of the next one's service.
    pub fn set_options(&mut self, options: Options) {
        self.options = options;
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Whether zero and blank of a field are written as IDN's prices have them.
    fn has_idn_zeros(&self, def: &FieldDef) -> bool {
        self.options.prices == PriceStyle::Idn && is_price(def)
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
        let key = || MsgKey { service_id: header.service_id, ..MsgKey::item(0, record.item) };
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
                    key: Some(key()),
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
                let (state, key) = (Some(drop_state(record)), Some(key()));
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
        list.begin_standard()?;
        let mut fields = record.fields();
        while let Some(field) = fields.next_text() {
            let (fid, text) = field?;
            let def = dictionary.field(fid);
            if def.is_some_and(|def| is_short_field_written(def, fid, text, &mut list)) {
                continue;
            }
            match self.field_to_rwf(dictionary, def, fid, text.bytes(), &mut list) {
                Ok(()) => {}
                Err(value::Error::Encode(error)) => return Err(error.into()),
                Err(value::Error::Lost(loss)) => self.losses.add(fid, loss),
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
            let def = dictionary.field(entry.fid);
            if def.is_some_and(|def| self.is_short_field_written(def, &entry, &mut encoder)) {
                continue;
            }
            let start = encoder.position();
            match self.field_to_marketfeed(dictionary, def, entry.fid, entry.data, &mut encoder) {
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

    /// Writes the values that messages have most, [`value::short_text`]. False, and nothing written, for all others.
    #[inline]
    fn is_short_field_written(
        &self,
        def: &FieldDef,
        entry: &FieldEntry<'_>,
        encoder: &mut RecordEncoder<'_, '_>,
    ) -> bool {
        def.marketfeed_type() != MarketfeedType::NONE
            && value::short_text(def, entry.data, self.options.expands_enums)
                .is_some_and(|(text, len)| encoder.short_field(entry.fid, text, len).is_ok())
    }

    #[inline(never)]
    fn field_to_marketfeed(
        &self,
        dictionary: &Dictionary,
        def: Option<&FieldDef>,
        fid: i16,
        data: &[u8],
        encoder: &mut RecordEncoder<'_, '_>,
    ) -> Result<Option<Loss>, value::Error> {
        let def = def.ok_or(value::Error::Lost(Loss::NoDefinition))?;
        if def.marketfeed_type() == MarketfeedType::NONE {
            return Err(value::Error::Lost(Loss::NotInMarketfeed));
        }
        let start = encoder.position();
        let mut kept = Ok(None);
        encoder.field_with(fid, |w| {
            let head = w.position();
            kept = self.write_value(dictionary, def, data, w);
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

    /// The value of a field as text; empty for a blank one, but for a price's.
    fn write_value(
        &self,
        dictionary: &Dictionary,
        def: &FieldDef,
        data: &[u8],
        w: &mut Writer<'_>,
    ) -> Result<Option<Loss>, value::Error> {
        let wrong = |_: DecodeError| value::Error::Lost(Loss::Value);
        if data.is_empty() {
            return self.write_blank(w, def);
        }
        match def.data_type() {
            DataType::REAL => match primitive::real(data).map_err(wrong)? {
                Some(real) => {
                    if real.mantissa == 0 && self.has_idn_zeros(def) {
                        w.u8(b'-')?;
                    }
                    value::write_real(w, real)
                }
                None => self.write_blank(w, def),
            },
            DataType::ENUM => {
                let number = primitive::enumeration(data).map_err(wrong)?;
                match dictionary.enum_display(def.fid(), number) {
                    Some(text) if self.options.expands_enums => write_text(w, text)?,
                    _ => value::write_uint(w, u64::from(number))?,
                }
                Ok(None)
            }
            DataType::UINT if def.marketfeed_type() == MarketfeedType::BINARY => {
                value::write_binary(w, primitive::uint(data).map_err(wrong)?, def.length())?;
                Ok(None)
            }
            DataType::UINT | DataType::INT if self.has_idn_zeros(def) && is_zero(def, data).map_err(wrong)? => {
                Ok(w.bytes(value::ZERO_PRICE).map(|()| None)?)
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

    /// Nothing, or what a price's blank is.
    fn write_blank(&self, w: &mut Writer<'_>, def: &FieldDef) -> Result<Option<Loss>, value::Error> {
        // A price of one character cannot say it, and a blank that is left out would leave the old price.
        let is_sayable = def.length() == 0 || usize::from(def.length()) >= value::BLANK_PRICE.len();
        if is_sayable && self.has_idn_zeros(def) {
            w.bytes(value::BLANK_PRICE)?;
        }
        Ok(None)
    }

    /// Writes a field of a record into a field list.
    #[inline(never)]
    fn field_to_rwf(
        &self,
        dictionary: &Dictionary,
        def: Option<&FieldDef>,
        fid: i16,
        text: &[u8],
        list: &mut FieldListEncoder<'_, '_>,
    ) -> Result<(), value::Error> {
        // Text of a field that nobody defines is passed on as it is: whoever knows the field can read it.
        let Some(def) = def else { return Ok(list.raw(fid, text)?) };
        let data_type = def.data_type();
        if is_text(def) {
            return Ok(list.raw(fid, text)?);
        }
        if value::is_blank(text) || self.has_idn_zeros(def) && value::is_blank_price(text) {
            return Ok(list.blank(fid)?);
        }
        let value = match data_type {
            DataType::REAL => value::real(text).map(Primitive::Real),
            DataType::UINT if def.marketfeed_type() == MarketfeedType::BINARY => {
                value::binary(text).map(Primitive::UInt)
            }
            DataType::UINT => value::uint(text).map(Primitive::UInt),
            DataType::INT => value::int(text).map(Primitive::Int),
            DataType::DATE => value::date(text).map(Primitive::Date),
            DataType::TIME if def.marketfeed_type() == MarketfeedType::INTEGER => {
                value::time_of_count(text, def.rwf_length()).map(Primitive::Time)
            }
            DataType::TIME => value::time(text).map(Primitive::Time),
            DataType::ENUM => enumeration(dictionary, def, text).map(Primitive::Enum),
            _ => return Err(value::Error::Lost(Loss::Type)),
        };
        Ok(list.field(fid, &value.ok_or(value::Error::Lost(Loss::Value))?)?)
    }
}

fn is_zero(def: &FieldDef, data: &[u8]) -> Result<bool, DecodeError> {
    Ok(if def.data_type() == DataType::UINT { primitive::uint(data)? == 0 } else { primitive::int(data)? == 0 })
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

/// Writes the values that records have most: of the frequent types, and of a word at most. False, and nothing written, for all others; as
/// there is no error to be told of, the loop over the fields has its state in registers.
#[inline]
fn is_short_field_written(def: &FieldDef, fid: i16, text: Text<'_>, list: &mut FieldListEncoder<'_, '_>) -> bool {
    match def.data_type() {
        // Of a price's zeros most are blank: [`value::is_blank_price`].
        DataType::REAL => value::short_real(text)
            .is_some_and(|real| (real.mantissa != 0 || !is_price(def)) && list.real(fid, real).is_ok()),
        DataType::ENUM => value::short_uint(text).is_some_and(|number| list.enumeration(fid, number).is_ok()),
        DataType::UINT if !matches!(def.marketfeed_type(), MarketfeedType::BINARY | MarketfeedType::PRICE) => {
            value::short_uint(text).is_some_and(|number| list.uint(fid, number.into()).is_ok())
        }
        DataType::TIME if def.marketfeed_type() != MarketfeedType::INTEGER => {
            value::clock(text).is_some_and(|(time, len)| list.short(fid, time, len).is_ok())
        }
        DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING => {
            text.word().is_some_and(|word| list.short(fid, word.to_le_bytes(), text.len()).is_ok())
        }
        _ => false,
    }
}

/// Whether a field is a price, whose zero and blank may be written as IDN has them.
#[inline]
fn is_price(def: &FieldDef) -> bool {
    def.marketfeed_type() == MarketfeedType::PRICE && !is_text(def)
}

fn is_text(def: &FieldDef) -> bool {
    matches!(def.data_type(), DataType::RMTES_STRING | DataType::ASCII_STRING | DataType::UTF8_STRING)
}

/// Digits are the value; other text is looked up among the displays of the field.
fn enumeration(dictionary: &Dictionary, def: &FieldDef, text: &[u8]) -> Option<u16> {
    let number = value::uint(text).and_then(|number| u16::try_from(number).ok());
    number.or_else(|| dictionary.enum_table(def)?.value_of(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A field of each kind that is written in short, and some that are not: ids in the order of the lines.
    const FIELDS: &[u8] = b"\
PRICE_F \"P\" 1 NULL PRICE 17 REAL64 7
SHORT_F \"S\" 22 NULL PRICE 4 REAL64 7
ENUM_F \"E\" 333 NULL ENUMERATED 2 ( 1 ) ENUM 1
UINT_F \"U\" 4444 NULL INTEGER 15 UINT64 8
BINARY_F \"B\" -5 NULL BINARY 4 UINT64 3
TIME_F \"T\" 12345 NULL TIME_SECONDS 8 TIME 5
MINUTE_F \"M\" 7 NULL TIME 5 TIME 5
MS_F \"N\" 8 NULL INTEGER 15 TIME 5
DATE_F \"D\" 9 NULL DATE 11 DATE 4
TEXT_F \"X\" -32768 NULL ALPHANUMERIC 6 RMTES_STRING 6
NONE_F \"O\" 11 NULL NONE 0 REAL64 7
WHOLE_F \"W\" 12 NULL INTEGER 15 REAL64 7
COUNT_F \"C\" 13 NULL PRICE 17 UINT64 8
CHANGE_F \"H\" 14 NULL PRICE 17 INT64 8
SIGN_F \"G\" 15 NULL PRICE 1 REAL64 7
QUOTED_F \"Q\" 16 NULL PRICE 17 RMTES_STRING 17
";
    const IDS: [i16; 17] = [1, 22, 333, 4444, -5, 12345, 7, 8, 9, -32768, 11, 12, 13, 14, 15, 16, 99];

    fn dictionary() -> Dictionary {
        let mut dictionary = Dictionary::new();
        dictionary.load_fields("the test's", FIELDS).unwrap();
        dictionary.load_enums("the test's", b"ENUM_F 333\n0 \"  \" none\n7 \"UP\" up\n").unwrap();
        dictionary
    }

    /// Values as feeds have them, and nearly so.
    fn value() -> impl Strategy<Value = Vec<u8>> {
        let byte = || prop::sample::select(b"0123456789012345678901234567890123456789..-+:/ UPA@\xE9\x1b[`".to_vec());
        prop_oneof![
            prop::collection::vec(byte(), 0..12),
            "-?[0-9]{0,8}(\\.[0-9]{0,7})?".prop_map(String::into_bytes),
            "[0-2][0-9]:[0-6][0-9]:[0-6][0-9]".prop_map(String::into_bytes),
            Just(b"  ".to_vec()),
        ]
    }

    /// What both ways of writing a field write, the short one by [`Converter::fields_to_rwf`].
    fn read(dictionary: &Dictionary, record: &Record<'_>, prices: PriceStyle) -> [(Vec<u8>, Losses); 2] {
        let mut converter = Converter::new(Options { prices, ..Options::default() });
        let (mut quick, mut slow) = ([0; 400], [0; 400]);
        let mut w = Writer::new(&mut quick);
        converter.fields_to_rwf(dictionary, record, None, &mut w).unwrap();
        let quick = (w.written().to_vec(), std::mem::take(&mut converter.losses));
        let mut w = Writer::new(&mut slow);
        let mut losses = Losses::default();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        for field in record.fields() {
            let crate::Field { fid, value } = field.unwrap();
            match converter.field_to_rwf(dictionary, dictionary.field(fid), fid, value, &mut list) {
                Ok(()) => {}
                Err(value::Error::Lost(loss)) => losses.add(fid, loss),
                Err(error) => panic!("{error:?}"),
            }
        }
        list.finish().unwrap();
        [quick, (w.written().to_vec(), losses)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

        #[test]
        fn short_values_are_read_as_all_others_are(fields in prop::collection::vec((0..IDS.len(), value()), 0..12)) {
            let mut bytes = b"\x1c316\x1f\x1dI".to_vec();
            for (field, value) in &fields {
                bytes.extend_from_slice(format!("\x1e{}\x1f", IDS[*field]).as_bytes());
                bytes.extend_from_slice(value);
            }
            bytes.push(crate::FS);
            let record = Record::parse(&bytes).unwrap();
            for prices in [PriceStyle::Idn, PriceStyle::Plain] {
                let [quick, slow] = read(&dictionary(), &record, prices);
                prop_assert_eq!(quick, slow);
            }
        }

        #[test]
        fn short_values_are_written_as_all_others_are(field in 0..IDS.len(), data in any_data(), room in 0_usize..40) {
            let dictionary = dictionary();
            let prices = if data.len() % 2 == 0 { PriceStyle::Idn } else { PriceStyle::Plain };
            let converter = Converter::new(Options { prices, ..Options::default() });
            let fid = IDS[field];
            let Some(def) = dictionary.field(fid) else { return Ok(()) };
            let (mut quick, mut slow) = ([0; 200], [0; 200]);
            let (mut quick, mut slow) = (Writer::new(&mut quick[..room]), Writer::new(&mut slow));
            let entry = FieldEntry { fid, enc: DataType::UNKNOWN, data: &data };
            let is_written =
                converter.is_short_field_written(def, &entry, &mut RecordEncoder::resume(&mut quick));
            if is_written {
                let mut slow = RecordEncoder::resume(&mut slow);
                let kept = converter.field_to_marketfeed(&dictionary, Some(def), fid, &data, &mut slow);
                prop_assert!(matches!(kept, Ok(None)), "{:?}", kept);
                prop_assert_eq!(quick.written(), slow.written());
            } else {
                prop_assert_eq!(quick.position(), 0);
            }
        }
    }

    /// Values as RWF has them, and other bytes.
    fn any_data() -> impl Strategy<Value = Vec<u8>> {
        let real = (0_u8..35, any::<i32>(), 0_u32..32).prop_map(|(hint, mantissa, shift)| {
            let mut buffer = [0; 16];
            let mut w = Writer::new(&mut buffer);
            match Primitive::Real(rwf::Real::new(i64::from(mantissa >> shift), rwf::RealHint(hint))).encode(&mut w) {
                Ok(()) => w.written().to_vec(),
                Err(_) => Vec::new(),
            }
        });
        prop_oneof![real, prop::collection::vec(any::<u8>(), 0..10), prop::collection::vec(0_u8..61, 2..4), value(),]
    }
}
