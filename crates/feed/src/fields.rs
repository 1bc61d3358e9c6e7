//! The field ids that a market publishes, and a writer of field lists that knows how each is coded.
//!
//! Ids and types are those of the RDM field dictionary; the name of each constant is the field's acronym.

use rwf::wire::Writer;
use rwf::{Date, EncodeError, FieldListEncoder, Primitive, Real, RealHint, Time};

/// A field id.
pub type Fid = i16;

macro_rules! fids {
    ($($name:ident = $id:literal,)*) => {
        $(#[doc = concat!("`", stringify!($name), "`")] pub const $name: Fid = $id;)*
    };
}

fids! {
    PROD_PERM = 1,
    RDNDISPLAY = 2,
    DSPLY_NAME = 3,
    RDN_EXCHID = 4,
    TIMACT = 5,
    TRDPRC_1 = 6,
    TRDPRC_2 = 7,
    TRDPRC_3 = 8,
    TRDPRC_4 = 9,
    TRDPRC_5 = 10,
    NETCHNG_1 = 11,
    HIGH_1 = 12,
    LOW_1 = 13,
    PRCTCK_1 = 14,
    CURRENCY = 15,
    TRADE_DATE = 16,
    ACTIV_DATE = 17,
    TRDTIM_1 = 18,
    OPEN_PRC = 19,
    HST_CLOSE = 21,
    BID = 22,
    ASK = 25,
    BIDSIZE = 30,
    ASKSIZE = 31,
    ACVOL_1 = 32,
    TRD_UNITS = 53,
    LOT_SIZE = 55,
    PCTCHNG = 56,
    OPINT_1 = 64,
    SETTLE = 70,
    UPLIMIT = 75,
    LOLIMIT = 76,
    NUM_MOVES = 77,
    HSTCLSDATE = 79,
    TURNOVER = 100,
    BID_NET_CH = 114,
    BID_TICK_1 = 115,
    MKT_ST_IND = 133,
    TRDVOL_1 = 178,
    PREV_LR = 237,
    NEXT_LR = 238,
    REF_COUNT = 239,
    LINK_1 = 240,
    RECORDTYPE = 259,
    BID_MMID1 = 293,
    ASK_MMID1 = 296,
    IRGPRC = 372,
    IRGVOL = 373,
    SALTIM = 379,
    GV1_TEXT = 1000,
    SEQNUM = 1021,
    QUOTIM = 1025,
    PREF_DISP = 1080,
    VOL_X_PRC1 = 1379,
    ADJUST_CLS = 1465,
    RDN_EXCHD2 = 1709,
    YRHIGH_52 = 3265,
    YRLOW_52 = 3266,
    ASKXID = 3297,
    BIDXID = 3298,
    OFF_CLOSE = 3372,
    QUOTE_DATE = 3386,
    THEO_PRC = 3396,
    VWAP = 3404,
    PROV_SYMB = 3422,
    NO_L2_ROWS = 3424,
    ORDER_ID = 3426,
    ORDER_PRC = 3427,
    ORDER_SIDE = 3428,
    ORDER_SIZE = 3429,
    NO_ORD = 3430,
    MMID = 3435,
    ISIN_CODE = 3655,
    TRDTIM_MS = 3853,
    SALTIM_MS = 3854,
    QUOTIM_MS = 3855,
    TRADE_ID = 3900,
    TIM_TRK_1 = 3902,
    TIM_TRK_2 = 3903,
    THEO_VOL = 4107,
    OFF_OPEN = 4311,
    IMB_SH = 4338,
    IMB_SIDE = 4340,
    ACC_SIZE = 4356,
    REF_PRICE = 5302,
    BOOK_STATE = 6516,
    HALT_REASN = 6517,
    PR_TIM_MS = 6520,
    PR_DATE = 6522,
    LV_TIM_MS = 6527,
    LV_DATE = 6529,
    SH_SAL_RES = 6577,
    TRD_STATUS = 6614,
    MKT_PHASE = 8548,
    INST_PHASE = 8927,
    AGGRS_SID1 = 12770,
    QUOTIM_NS = 14265,
    SALTIM_NS = 14266,
    LV_TIM_NS = 14268,
    PR_TIM_NS = 14275,
}

/// Appends what `write` encodes to `out`; nothing when it fails. `room` bytes must be enough, which the caller's shapes
/// guarantee: a failure is a mistake of this program and shows as an empty payload.
pub fn append(out: &mut Vec<u8>, room: usize, write: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) {
    let start = out.len();
    out.resize(start + room, 0);
    let mut w = Writer::new(&mut out[start..]);
    let result = write(&mut w);
    let written = w.position();
    debug_assert!(result.is_ok(), "{result:?}");
    out.truncate(start + if result.is_ok() { written } else { 0 });
}

/// Appends a field list to `out`.
pub fn append_fields(out: &mut Vec<u8>, write: impl FnOnce(&mut FieldWriter<'_, '_>)) {
    append(out, FIELDS_ROOM, |w| write_fields(w, write));
}

/// Writes a field list.
///
/// # Errors
/// Those of the encoder: the buffer is full, or a value cannot be coded.
pub fn write_fields(w: &mut Writer<'_>, write: impl FnOnce(&mut FieldWriter<'_, '_>)) -> Result<(), EncodeError> {
    let mut fields = FieldWriter { list: FieldListEncoder::begin(w)?, result: Ok(()) };
    write(&mut fields);
    fields.result?;
    fields.list.finish()
}

/// Enough for the largest field list here: 70 fields of at most 32 bytes.
pub(crate) const FIELDS_ROOM: usize = 2_560;

/// Writes the entries of one field list, each in the coding of its type. The first failure stays.
#[derive(Debug)]
pub struct FieldWriter<'w, 'b> {
    list: FieldListEncoder<'w, 'b>,
    result: Result<(), EncodeError>,
}

impl FieldWriter<'_, '_> {
    /// A field without a value.
    pub fn blank(&mut self, id: Fid) {
        self.value(id, &Primitive::Blank);
    }

    /// An unsigned integer.
    pub fn uint(&mut self, id: Fid, value: u64) {
        self.value(id, &Primitive::UInt(value));
    }

    /// A real: `mantissa` with so many decimals, at most 14.
    pub fn real(&mut self, id: Fid, mantissa: i64, decimals: u8) {
        self.value(id, &real(mantissa, decimals));
    }

    /// An enumeration's number.
    pub fn enumeration(&mut self, id: Fid, value: u16) {
        self.value(id, &Primitive::Enum(value));
    }

    /// An enumeration's number, if it is known; without one there is no field.
    pub fn known(&mut self, id: Fid, value: Option<u16>) {
        if let Some(value) = value {
            self.enumeration(id, value);
        }
    }

    /// A time of day in whole seconds; `nanos` since midnight.
    pub fn time_of_second(&mut self, id: Fid, nanos: u64) {
        self.value(id, &Primitive::Time(Time::from_nanos(nanos / 1_000_000_000 * 1_000_000_000)));
    }

    /// A time of day as exact as a millisecond; `nanos` since midnight.
    pub fn time(&mut self, id: Fid, nanos: u64) {
        self.value(id, &Primitive::Time(Time::from_nanos(nanos / 1_000_000 * 1_000_000)));
    }

    /// A time of day as exact as it is; `nanos` since midnight.
    pub fn time_exact(&mut self, id: Fid, nanos: u64) {
        self.value(id, &Primitive::Time(Time::from_nanos(nanos)));
    }

    /// A date.
    pub fn date(&mut self, id: Fid, date: Date) {
        self.value(id, &Primitive::Date(date));
    }

    /// A text.
    pub fn text(&mut self, id: Fid, text: &str) {
        self.value(id, &Primitive::Rmtes(text.as_bytes()));
    }

    /// A value of any type.
    pub fn value(&mut self, id: Fid, value: &Primitive<'_>) {
        if self.result.is_ok() {
            self.result = self.list.field(id, value);
        }
    }

    /// A value that is encoded already.
    pub fn raw(&mut self, id: Fid, value: &[u8]) {
        if self.result.is_ok() {
            self.result = self.list.raw(id, value);
        }
    }
}

/// `mantissa` with so many decimals, at most 14.
pub fn real(mantissa: i64, decimals: u8) -> Primitive<'static> {
    Primitive::Real(Real::new(mantissa, RealHint(RealHint::EXPONENT0.0 - decimals)))
}
