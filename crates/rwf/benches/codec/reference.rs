//! The reference updates: what the test tools send and the benchmarks decode.
//!
//! The published figures of market data systems are for an RWF update of 74 bytes, the newer ones for 130. Both updates
//! here are a quote of an exchange-traded share in the fields of the SDK's own performance tools; the longer one adds
//! the last trade. The content is fixed, but for the stream id, so that bytes can be compared.

use rwf::msg::{Domain, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataType, Date, EncodeError, FieldListEncoder, Primitive, Real, RealHint, Time};

/// Length of [`update_74`].
pub(crate) const LEN_74: usize = 74;
/// Length of [`update_130`].
pub(crate) const LEN_130: usize = 130;

/// Field, type, value.
type Field = (i16, DataType, Primitive<'static>);

const fn cents(fid: i16, mantissa: i64) -> Field {
    (fid, DataType::REAL, Primitive::Real(Real::new(mantissa, RealHint::EXPONENT_2)))
}

const fn whole(fid: i16, mantissa: i64) -> Field {
    (fid, DataType::REAL, Primitive::Real(Real::new(mantissa, RealHint::EXPONENT0)))
}

const fn text(fid: i16, text: &'static str) -> Field {
    (fid, DataType::RMTES_STRING, Primitive::Rmtes(text.as_bytes()))
}

const fn number(fid: i16, value: u16) -> Field {
    (fid, DataType::ENUM, Primitive::Enum(value))
}

const QUOTIM: Field = (1025, DataType::TIME, Primitive::Time(Time::new(14, 40, 32)));
const QUOTIM_MS: Field = (3855, DataType::UINT, Primitive::UInt(52_832_000));
const BID_TICK_1: Field = number(115, 2);
const GV1_TEXT: Field = text(1000, "-");
const BID: Field = cents(22, 40_150);
const BID_NET_CH: Field = cents(114, 349);
const BIDSIZE: Field = whole(30, 18);
const ASK: Field = cents(25, 40_154);
const ASKSIZE: Field = whole(31, 10);
const BID_MMID1: Field = text(293, "NAS");
const BIDXID: Field = number(3298, 43);
const ASK_MMID1: Field = text(296, "NAS");
const ASKXID: Field = number(3297, 43);
const TRDPRC_1: Field = cents(6, 40_152);
const TRDVOL_1: Field = whole(178, 100);
const TRADE_DATE: Field = (16, DataType::DATE, Primitive::Date(Date::new(2009, 3, 23)));
const SALTIM_MS: Field = (3854, DataType::UINT, Primitive::UInt(52_831_000));
const ACVOL_1: Field = whole(32, 1_234_567);
const NETCHNG_1: Field = cents(11, 351);
const PCTCHNG: Field = cents(56, 881);

/// The fields of the 74-byte update.
pub(crate) static FIELDS_74: [Field; 11] =
    [QUOTIM, BID_TICK_1, BID, BID_NET_CH, BIDSIZE, ASK, ASKSIZE, BID_MMID1, BIDXID, ASK_MMID1, ASKXID];

/// The fields of the 130-byte update.
pub(crate) static FIELDS_130: [Field; 20] = [
    QUOTIM, QUOTIM_MS, BID_TICK_1, GV1_TEXT, BID, BID_NET_CH, BIDSIZE, ASK, ASKSIZE, BID_MMID1, BIDXID, ASK_MMID1,
    ASKXID, TRDPRC_1, TRDVOL_1, TRADE_DATE, SALTIM_MS, ACVOL_1, NETCHNG_1, PCTCHNG,
];

/// A `MarketPrice` quote update of 74 bytes.
pub(crate) fn update_74(stream_id: i32) -> [u8; LEN_74] {
    let mut buf = [0; LEN_74];
    encode_update(stream_id, &FIELDS_74, &mut Writer::new(&mut buf)).expect("the fields are chosen to fit");
    buf
}

/// A `MarketPrice` quote and trade update of 130 bytes.
pub(crate) fn update_130(stream_id: i32) -> [u8; LEN_130] {
    let mut buf = [0; LEN_130];
    encode_update(stream_id, &FIELDS_130, &mut Writer::new(&mut buf)).expect("the fields are chosen to fit");
    buf
}

/// Writes a `MarketPrice` quote update with these fields.
///
/// # Errors
/// [`EncodeError::BufferFull`]
pub(crate) fn encode_update(stream_id: i32, fields: &[Field], w: &mut Writer<'_>) -> Result<(), EncodeError> {
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: UpdateType::QUOTE,
        ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id)
    };
    update.encode_header(w)?;
    let mut list = FieldListEncoder::begin(w)?;
    for (fid, _, value) in fields {
        list.field(*fid, value)?;
    }
    list.finish()
}
