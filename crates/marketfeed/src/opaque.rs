//! Marketfeed within RWF: one record as the OPAQUE payload of a refresh or update, domain Market Price.
//!
//! RWF has no type of its own for Marketfeed; OPAQUE is decoded by every SDK. The header of the message stays RWF's: stream, state, key,
//! permission data.

use rwf::container::FieldListInfo;
use rwf::dictionary::Dictionary;
use rwf::msg::{Conflation, Domain, Msg, MsgClass, RefreshFlags, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataType, State, peek};

use crate::convert::{drop_state, update_type};
use crate::{ConvertError, Converter, Record, RecordType, RtlRule};

/// `DictionaryId` of the RDM's field dictionary, by which records are converted.
const DICTIONARY_ID: u16 = 1;
/// Room for what a header may grow by, bytes.
const HEADROOM: usize = 512;
/// A record's fields as RWF take at most so many times the bytes.
const TO_RWF: usize = 3;
/// RWF fields as a record take at most so many times the bytes: a number of one byte may be seventeen digits behind its field id.
const TO_MARKETFEED: usize = 8;

impl Converter {
    /// Writes a provider's message whose payload is a record as the message that RWF has for it, behind what `out` holds. False, and
    /// nothing written, if its payload is no record: no Market Price, not OPAQUE, or other bytes than FS in front.
    ///
    /// A record says what the message is: an image makes a refresh of an update, status and drop make a status.
    ///
    /// # Errors
    /// [`ConvertError`]; `out` is as before. Fields that cannot be said are counted, not errors.
    pub fn read_opaque(
        &mut self,
        dictionary: &Dictionary,
        msg: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, ConvertError> {
        let header = peek::header(msg)?;
        let is_data = matches!(header.class, MsgClass::REFRESH | MsgClass::UPDATE);
        let body = &msg[header.body_offset..];
        if header.domain != Domain::MARKET_PRICE
            || !is_data
            || header.container != DataType::OPAQUE
            || body.first() != Some(&crate::FS)
        {
            return Ok(false);
        }
        // By reference: a record is large enough that its move costs a twentieth of a conversion.
        let record = Record::parse(body);
        let record = record.as_ref().map_err(|error| *error)?;
        let msg = Msg::decode(msg)?;
        let room = TO_RWF * body.len() + HEADROOM + header.body_offset;
        append(out, room, |w| self.unwrap_record(dictionary, &msg, record, w))?;
        Ok(true)
    }

    fn unwrap_record(
        &mut self,
        dictionary: &Dictionary,
        msg: &Msg<'_>,
        record: &Record<'_>,
        w: &mut Writer<'_>,
    ) -> Result<(), ConvertError> {
        let container = DataType::FIELD_LIST;
        let rtl = record.rtl.filter(|_| self.options().rtl == RtlRule::SequenceNumber).map(u32::from);
        let is_image = matches!(record.record_type, RecordType::IMAGE | RecordType::SNAPSHOT);
        match (msg, record.record_type) {
            (_, RecordType::STATUS | RecordType::DROP) => {
                let key = if let Msg::Refresh(refresh) = msg { refresh.key } else { None };
                let status = StatusMsg {
                    state: Some(drop_state(record)),
                    key,
                    ..StatusMsg::new(Domain::MARKET_PRICE, msg.stream_id())
                };
                return Ok(status.encode(w)?);
            }
            (Msg::Refresh(refresh), _) => {
                let seq_num = rtl.or(refresh.seq_num);
                RefreshMsg { container, seq_num, body: &[], ..refresh.clone() }.encode_header(w)?;
            }
            (Msg::Update(update), _) if is_image => {
                let refresh = RefreshMsg {
                    container,
                    flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::CLEAR_CACHE,
                    seq_num: rtl.or(update.seq_num),
                    state: State::OPEN_OK,
                    key: update.key,
                    perm_data: update.perm_data,
                    ..RefreshMsg::new(Domain::MARKET_PRICE, update.stream_id)
                };
                refresh.encode_header(w)?;
            }
            (Msg::Update(update), record_type) => {
                let told = update_type(record_type).ok_or(ConvertError::RecordType(record_type))?;
                // The record knows less than the message: it has one type for quotes and trades.
                let update_type = if told == UpdateType::UNSPECIFIED { update.update_type } else { told };
                let count = record.delta_rtl.map(|count| Conflation { count, time: 0 });
                let message = UpdateMsg {
                    container,
                    update_type,
                    seq_num: rtl.or(update.seq_num),
                    conflation: update.conflation.or(count),
                    body: &[],
                    ..update.clone()
                };
                message.encode_header(w)?;
            }
            (other, _) => return Err(ConvertError::Class(other.class())),
        }
        let keeps_template = is_image && self.options().keeps_templates;
        let template = record.field_list.filter(|_| keeps_template);
        self.fields_to_rwf(dictionary, record, template.map(|num| FieldListInfo { dict_id: DICTIONARY_ID, num }), w)
    }

    /// Writes an RWF message with its field list as a record, behind what `out` holds: the same message, whose payload is OPAQUE. False,
    /// and nothing written, if Marketfeed has nothing for it: it is no refresh or update of Market Price with a field list. `rtl` is the
    /// item's counter, as in [`Converter::to_marketfeed`].
    ///
    /// # Errors
    /// [`ConvertError`]; `out` is as before. Fields that cannot be said are counted, not errors.
    pub fn write_opaque(
        &mut self,
        dictionary: &Dictionary,
        msg: &[u8],
        item: &[u8],
        rtl: &mut u16,
        out: &mut Vec<u8>,
    ) -> Result<bool, ConvertError> {
        let header = peek::header(msg)?;
        if header.domain != Domain::MARKET_PRICE || header.container != DataType::FIELD_LIST {
            return Ok(false);
        }
        let (container, room) = (DataType::OPAQUE, TO_MARKETFEED * msg.len() + HEADROOM + item.len());
        let msg = Msg::decode(msg)?;
        if !matches!(msg, Msg::Refresh(_) | Msg::Update(_)) {
            return Ok(false);
        }
        append(out, room, |w| {
            match &msg {
                Msg::Refresh(refresh) => {
                    RefreshMsg { container, body: &[], ..refresh.clone() }.encode_header(w)?;
                }
                Msg::Update(update) => UpdateMsg { container, body: &[], ..update.clone() }.encode_header(w)?,
                other => return Err(ConvertError::Class(other.class())),
            }
            self.to_marketfeed(dictionary, &msg, item, rtl, w)
        })?;
        Ok(true)
    }
}

/// Writes behind what `out` holds, which is as before after an error. What was made room for once stays.
fn append(
    out: &mut Vec<u8>,
    room: usize,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let start = out.len();
    out.resize(start + room, 0);
    let mut w = Writer::new(&mut out[start..]);
    let written = write(&mut w).map(|()| w.position());
    out.truncate(start + written.as_ref().copied().unwrap_or(0));
    written.map(|_| ())
}
