//! RWF to Marketfeed and back: what is not counted as lost comes back.

use marketfeed::{Converter, Loss, Options, PriceStyle, Record, RecordType, RtlRule, RwfHeader};
use proptest::prelude::*;
use rwf::dictionary::FieldDef;
use rwf::msg::{Conflation, Domain, Msg, RefreshMsg, StatusMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{
    DataState, DataType, Date, FieldList, FieldListEncoder, Primitive, Real, RealHint, SetScope, State, StreamState,
    Time,
};

use crate::DICTIONARY;

const HEADER: RwfHeader = RwfHeader { stream_id: 5, service_id: Some(1), dictionary_id: 1, is_solicited: false };

/// Seeds of a field's value: which field, and numbers that the type makes a value of.
type Seed = (usize, i64, u8, Vec<u8>);

/// A value of a field's type; `None` for types that are not carried.
fn value<'a>(def: &FieldDef, (_, number, choice, text): &'a Seed) -> Option<Primitive<'a>> {
    let (number, choice) = (*number, *choice);
    Some(match def.data_type() {
        _ if choice == 0 => Primitive::Blank,
        DataType::REAL if choice == 1 => Primitive::Real(Real::INFINITY),
        DataType::REAL => {
            let hint = RealHint(choice % 31);
            Primitive::Real(Real::new(number >> (choice / 4), hint))
        }
        DataType::UINT => Primitive::UInt(number.unsigned_abs() >> (choice / 4)),
        DataType::INT => Primitive::Int(number >> (choice / 4)),
        DataType::ENUM => Primitive::Enum(number as u16),
        DataType::DATE => Primitive::Date(Date::new(number as u16 % 11_000, choice % 14, number as u8 % 32)),
        DataType::TIME => {
            let nanos = number.unsigned_abs() % 86_400_000_000_000;
            let unit = [1, 1_000_000, 1_000_000_000, 60_000_000_000][usize::from(choice % 4)];
            Primitive::Time(Time::from_nanos(nanos / unit * unit))
        }
        DataType::RMTES_STRING => Primitive::Rmtes(text),
        DataType::ASCII_STRING => Primitive::Ascii(text),
        _ => return None,
    })
}

fn encoded(seeds: &[Seed]) -> (Vec<u8>, Vec<(i16, Primitive<'_>)>) {
    let defs: Vec<&FieldDef> = DICTIONARY.fields().collect();
    let mut buffer = vec![0; 60_000];
    let mut w = Writer::new(&mut buffer);
    let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    update.encode_header(&mut w).unwrap();
    let mut list = FieldListEncoder::begin(&mut w).unwrap();
    let mut fields = Vec::new();
    for seed in seeds {
        let def = defs[seed.0 % defs.len()];
        if let Some(value) = value(def, seed) {
            list.field(def.fid(), &value).unwrap();
            fields.push((def.fid(), value));
        }
    }
    list.finish().unwrap();
    (w.written().to_vec(), fields)
}

fn to_marketfeed(converter: &mut Converter, rwf: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 60_000];
    let mut w = Writer::new(&mut buffer);
    let mut rtl = 0;
    converter.to_marketfeed(&DICTIONARY, &Msg::decode(rwf).unwrap(), b"X", &mut rtl, &mut w).unwrap();
    w.written().to_vec()
}

fn to_rwf(converter: &mut Converter, record: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 60_000];
    let mut w = Writer::new(&mut buffer);
    converter.to_rwf(&DICTIONARY, &Record::parse(record).unwrap(), &HEADER, &mut w).unwrap();
    w.written().to_vec()
}

fn entries(rwf: &[u8]) -> Vec<(i16, Vec<u8>)> {
    let Msg::Update(update) = Msg::decode(rwf).unwrap() else { panic!("an update") };
    let list = FieldList::decode(update.body, &SetScope::NONE).unwrap();
    list.entries().map(Result::unwrap).map(|entry| (entry.fid, entry.data.to_vec())).collect()
}

/// Whether the value that came back is what the losses of its field say.
fn is_kept(converter: &Converter, fid: i16, sent: &Primitive<'_>, data: &[u8]) -> bool {
    let data_type = DICTIONARY.field(fid).unwrap().data_type();
    let back = if data.is_empty() { Primitive::Blank } else { Primitive::decode(data_type, data).unwrap() };
    let has = |loss| converter.losses().of(fid, loss) > 0;
    match (sent, &back) {
        (Primitive::Real(sent), Primitive::Real(back)) if has(Loss::Hint) && sent != back => {
            let exact = |real: Real| real.to_string();
            exact(*sent) == exact(*back)
        }
        (Primitive::Time(sent), Primitive::Time(back)) if has(Loss::TimeCut) => {
            back <= sent && back.minute == sent.minute
        }
        (Primitive::Date(date), Primitive::Blank) => date.is_blank(),
        (Primitive::Rmtes(text) | Primitive::Ascii(text), Primitive::Blank) => text.is_empty(),
        (sent, back) => sent == back,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_not_counted_as_lost_comes_back(
        seeds in prop::collection::vec((any::<usize>(), any::<i64>(), any::<u8>(), prop::collection::vec(0x18u8..0x80, 0..20)), 1..40),
    ) {
        let (rwf, sent) = encoded(&seeds);
        let mut out = Converter::new(Options::default());
        let record = to_marketfeed(&mut out, &rwf);
        let mut back = Converter::new(Options::default());
        let returned = to_rwf(&mut back, &record);
        prop_assert_eq!(back.losses().all(), vec![], "what is written can be read");

        // Dropped fields are those counted, no more and no less.
        let returned_fields = entries(&returned);
        prop_assert_eq!(returned_fields.len() as u64 + out.losses().dropped(), sent.len() as u64);
        let mut rest = returned_fields.iter().peekable();
        for (fid, value) in &sent {
            match rest.peek() {
                Some((other, data)) if other == fid && is_kept(&out, *fid, value, data) => _ = rest.next(),
                _ => prop_assert!(
                    out.losses().all().iter().any(|(lost, loss, _)| lost == fid && loss.is_drop()),
                    "field {fid}: {value:?} is neither kept nor counted"
                ),
            }
        }
        prop_assert!(rest.next().is_none());

        // Marketfeed that we wrote is the same after RWF, to the byte.
        let mut again = Converter::new(Options::default());
        prop_assert_eq!(to_marketfeed(&mut again, &returned), record);
        prop_assert_eq!(again.losses().all(), vec![]);
    }
}

#[test]
fn each_loss_has_its_reason() {
    let convert = |fid: i16, value: Primitive<'_>| {
        let mut buffer = [0; 500];
        let mut w = Writer::new(&mut buffer);
        let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        update.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        list.field(fid, &value).unwrap();
        list.finish().unwrap();
        let mut converter = Converter::new(Options::default());
        let record = to_marketfeed(&mut converter, w.written());
        let text = Record::parse(&record).unwrap().fields().next().map(|field| field.unwrap().value.to_vec());
        (text.map(|text| String::from_utf8(text).unwrap()), converter.losses().all().first().map(|(_, loss, _)| *loss))
    };
    let real = |mantissa, hint| Primitive::Real(Real::new(mantissa, hint));
    let kept = |text: &str, loss| (Some(text.to_owned()), loss);
    assert_eq!(convert(22, real(-5, RealHint::EXPONENT_2)), kept("-0.05", None));
    assert_eq!(convert(22, real(28, RealHint::FRACTION_32)), kept("0 28/32", None));
    assert_eq!(convert(22, real(-259, RealHint::FRACTION_256)), kept("-1 3/256", None));
    assert_eq!(convert(22, real(5, RealHint::EXPONENT2)), kept("500", Some(Loss::Hint)));
    assert_eq!(convert(22, real(i64::MAX, RealHint::EXPONENT0)), (None, Some(Loss::TooLong)));
    assert_eq!(convert(22, Primitive::Real(Real::NOT_A_NUMBER)), (None, Some(Loss::Special)));
    assert_eq!(convert(3, Primitive::Rmtes(b"a\x1eb")), (None, Some(Loss::Separator)));
    assert_eq!(convert(3, Primitive::Rmtes(b"12345678901234567")), (None, Some(Loss::TooLong)));
    assert_eq!(convert(215, Primitive::Rmtes(b"\x1b[5`1.5521/31")), kept("\u{1b}[5`1.5521/31", None));
    assert_eq!(convert(16, Primitive::Date(Date::new(2013, 0, 1))), (None, Some(Loss::PartialDate)));
    assert_eq!(convert(18, Primitive::Time(Time::new(10, 34, 56))), kept("10:34", Some(Loss::TimeCut)));
    assert_eq!(convert(456, Primitive::UInt(8256)), kept("@AB", None));
    assert_eq!(convert(-4001, Primitive::UInt(1)), (None, Some(Loss::NoDefinition)));
    let not_carried =
        DICTIONARY.fields().find(|def| def.marketfeed_type().0 == -1 && def.data_type() == DataType::UINT);
    if let Some(def) = not_carried {
        assert_eq!(convert(def.fid(), Primitive::UInt(1)), (None, Some(Loss::NotInMarketfeed)));
    }
}

/// The fields of a record that becomes RWF, each with its value, a blank one without.
fn read(fields: &[(i16, &str)]) -> Vec<(i16, Option<Real>)> {
    read_with(&mut Converter::default(), fields)
}

fn read_with(converter: &mut Converter, fields: &[(i16, &str)]) -> Vec<(i16, Option<Real>)> {
    let mut record = b"\x1c312\x1f\x1dADE.J\x1f7".to_vec();
    for (fid, text) in fields {
        record.extend_from_slice(format!("\x1e{fid}\x1f{text}").as_bytes());
    }
    record.push(0x1c);
    let rwf = to_rwf(converter, &record);
    assert_eq!(converter.losses().all(), vec![]);
    let value = |data: &[u8]| match Primitive::decode(DataType::REAL, data).unwrap() {
        Primitive::Real(real) => real,
        other => panic!("{other:?}"),
    };
    let blank_or_value = |data: Vec<u8>| (!data.is_empty()).then(|| value(&data));
    entries(&rwf).into_iter().map(|(fid, data)| (fid, blank_or_value(data))).collect()
}

/// `BID` is a price, `ACVOL_1` an integer, both REAL.
const BID: i16 = 22;
const ACVOL: i16 = 32;

#[test]
fn a_price_of_zero_without_a_minus_is_blank() {
    for blank in [
        "",
        " ",
        "0",
        "+0",
        " 0",
        "+0 ",
        "0.00",
        "+0.00",
        ".0",
        "0.",
        "00000000",
        "000000000000",
        "+0 0/32",
        "0 0/2",
        "0/4",
    ] {
        assert_eq!(read(&[(BID, blank)]), [(BID, None)], "{blank:?}");
    }
    let real = |mantissa, hint| Some(Real::new(mantissa, hint));
    for (text, value) in [
        ("-0", real(0, RealHint::EXPONENT0)),
        (" -0", real(0, RealHint::EXPONENT0)),
        ("-0.00", real(0, RealHint::EXPONENT_2)),
        ("-0 0/32", real(0, RealHint::FRACTION_32)),
        ("-00000000000", real(0, RealHint::EXPONENT0)),
        ("+0.01", real(1, RealHint::EXPONENT_2)),
        ("0 1/32", real(1, RealHint::FRACTION_32)),
        ("-0.01", real(-1, RealHint::EXPONENT_2)),
    ] {
        assert_eq!(read(&[(BID, text)]), [(BID, value)], "{text:?}");
    }
}

#[test]
fn an_integer_of_zero_is_zero() {
    let zero = Some(Real::new(0, RealHint::EXPONENT0));
    for text in ["0", "+0", "-0"] {
        assert_eq!(read(&[(ACVOL, text)]), [(ACVOL, zero)], "{text:?}");
    }
    assert_eq!(read(&[(ACVOL, "")]), [(ACVOL, None)]);
}

#[test]
fn prices_say_zero_and_blank_apart() {
    let written_raw = |fid: i16, data: &[u8]| {
        let mut buffer = [0; 500];
        let mut w = Writer::new(&mut buffer);
        let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        update.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        list.raw(fid, data).unwrap();
        list.finish().unwrap();
        let record = to_marketfeed(&mut Converter::default(), w.written());
        let text = Record::parse(&record).unwrap().fields().next().unwrap().unwrap().value.to_vec();
        String::from_utf8(text).unwrap()
    };
    let written = |fid: i16, value: Primitive<'_>| {
        let mut buffer = [0; 20];
        let mut w = Writer::new(&mut buffer);
        value.encode(&mut w).unwrap();
        written_raw(fid, w.written())
    };
    let zero = |hint| Primitive::Real(Real::new(0, hint));
    assert_eq!(written_raw(BID, b""), "+0");
    // A blank may be said in the value, too.
    assert_eq!(written_raw(BID, &[0x20]), "+0");
    assert_eq!(written(BID, zero(RealHint::EXPONENT0)), "-0");
    assert_eq!(written(BID, zero(RealHint::EXPONENT_2)), "-0.00");
    assert_eq!(written(BID, zero(RealHint::EXPONENT_14)), "-0.00000000000000");
    assert_eq!(written(BID, zero(RealHint::FRACTION_256)), "-0 0/256");
    assert_eq!(written(BID, zero(RealHint::EXPONENT5)), "-0");
    assert_eq!(written_raw(ACVOL, b""), "");
    assert_eq!(written(ACVOL, zero(RealHint::EXPONENT0)), "0");
    assert_eq!(written_raw(3, b""), "");
}

#[test]
fn without_idn_style_a_price_is_a_number_as_any_other() {
    let options = Options { prices: PriceStyle::Plain, ..Options::default() };
    let zero = |hint| Some(Real::new(0, hint));
    let read = |text| read_with(&mut Converter::new(options), &[(BID, text)]);
    for text in ["0", "+0", "-0"] {
        assert_eq!(read(text), [(BID, zero(RealHint::EXPONENT0))], "{text:?}");
    }
    assert_eq!(read("0.00"), [(BID, zero(RealHint::EXPONENT_2))]);
    assert_eq!(read(""), [(BID, None)]);
    let written = |data: &[u8]| {
        let mut buffer = [0; 500];
        let mut w = Writer::new(&mut buffer);
        let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
        update.encode_header(&mut w).unwrap();
        let mut list = FieldListEncoder::begin(&mut w).unwrap();
        list.raw(BID, data).unwrap();
        list.finish().unwrap();
        let record = to_marketfeed(&mut Converter::new(options), w.written());
        let text = Record::parse(&record).unwrap().fields().next().unwrap().unwrap().value.to_vec();
        String::from_utf8(text).unwrap()
    };
    assert_eq!((written(b"").as_str(), written(&[0x20]).as_str()), ("", ""));
    let mut buffer = [0; 20];
    let mut w = Writer::new(&mut buffer);
    Primitive::Real(Real::new(0, RealHint::EXPONENT_2)).encode(&mut w).unwrap();
    assert_eq!(written(w.written()), "0.00");
}

#[test]
fn message_types_follow_the_class() {
    let mut converter = Converter::new(Options { rtl: RtlRule::SequenceNumber, ..Options::default() });
    let mut types = |msg: Msg<'_>| {
        let mut buffer = [0; 500];
        let mut w = Writer::new(&mut buffer);
        converter.to_marketfeed(&DICTIONARY, &msg, b"IBM.N", &mut 0, &mut w).unwrap();
        let mut types = Vec::new();
        let mut at = 0;
        while let marketfeed::Scan::Message { start, end } = marketfeed::scan(&w.written()[at..]) {
            let record = Record::parse(&w.written()[at + start..at + end]).unwrap();
            types.push((record.record_type, record.rtl, record.delta_rtl));
            at += end;
        }
        types
    };
    let update =
        |update_type| UpdateMsg { update_type, seq_num: Some(65_537), ..UpdateMsg::new(Domain::MARKET_PRICE, 5) };
    assert_eq!(types(Msg::Update(update(UpdateType::QUOTE))), [(RecordType::UPDATE, Some(1), None)]);
    assert_eq!(types(Msg::Update(update(UpdateType::CORRECTION))), [(RecordType::CORRECTION, Some(1), None)]);
    assert_eq!(types(Msg::Update(update(UpdateType::CLOSING_RUN))), [(RecordType::CLOSING_RUN, Some(1), None)]);
    assert_eq!(types(Msg::Update(update(UpdateType::VERIFY))), [(RecordType::VERIFY, Some(1), None)]);
    let conflation = Some(Conflation { count: 3, time: 10 });
    let conflated = UpdateMsg { conflation, ..update(UpdateType::QUOTE) };
    assert_eq!(types(Msg::Update(conflated)), [(RecordType::AGGREGATE, Some(1), Some(3))]);
    let refresh = RefreshMsg { seq_num: Some(7), ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
    assert_eq!(types(Msg::Refresh(refresh.clone())), [(RecordType::IMAGE, Some(7), None)]);
    let once = RefreshMsg { state: State { stream: StreamState::NON_STREAMING, ..State::OPEN_OK }, ..refresh };
    assert_eq!(types(Msg::Refresh(once)), [(RecordType::SNAPSHOT, Some(7), None)]);
    let status = |stream, text| {
        let state = Some(State { stream, data: DataState::SUSPECT, text, ..State::OPEN_OK });
        Msg::Status(StatusMsg { state, ..StatusMsg::new(Domain::MARKET_PRICE, 5) })
    };
    assert_eq!(types(status(StreamState::OPEN, b"late")), [(RecordType::STATUS, None, None)]);
    let closed = [(RecordType::STATUS, None, None), (RecordType::DROP, None, None)];
    assert_eq!(types(status(StreamState::CLOSED, b"no such item")), closed);
    assert_eq!(types(status(StreamState::CLOSED, b"")), closed[1..]);
}
