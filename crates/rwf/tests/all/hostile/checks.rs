//! Rules that hold for any bytes at all. Fuzz targets and tests call the same functions.

use rwf::dictionary::Dictionary;
use rwf::json::{Converter, Incoming, Settings};
use rwf::msg::{Msg, MsgKey};
use rwf::rmtes::{self, RmtesCache};
use rwf::walk::{Visit, walk};
use rwf::wire::{Reader, Writer};
use rwf::{DataType, DecodeError, Primitive, SetScope, peek};

/// Types for field ids that come from nowhere: every primitive and container has its share.
pub(crate) fn any_type(fid: i16) -> DataType {
    const TYPES: [u8; 24] =
        [3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 130, 132, 133, 135, 136, 137, 138];
    DataType(TYPES[usize::from(fid as u16) % TYPES.len()])
}

/// Visits everything; gives the number of values.
///
/// # Errors
/// Those of [`walk`].
pub(crate) fn visit_all(
    data_type: DataType,
    data: &[u8],
    types: &dyn Fn(i16) -> DataType,
) -> Result<usize, DecodeError> {
    let mut values = 0;
    let mut visit = |visit: Visit<'_>| {
        if let Visit::Value { value, .. } = visit {
            values += 1;
            // Showing a value must work as well, whatever is in it.
            std::hint::black_box(value.to_string());
        }
    };
    let walked = walk(data_type, data, &SetScope::NONE, types, &mut visit);
    if let Err(e) = walked {
        assert!(e.offset() <= data.len(), "offset {} in {} bytes", e.offset(), data.len());
    }
    walked.map(|()| values)
}

fn encoded(msg: &Msg<'_>, room: usize) -> Vec<u8> {
    let mut buf = vec![0; room];
    let mut w = Writer::new(&mut buf);
    msg.encode(&mut w).expect("a decoded message can be encoded");
    w.written().to_vec()
}

/// A message: visit, decode, encode, decode again; and the cheap looks agree with the decoder.
pub(crate) fn message(data: &[u8]) {
    let _ = visit_all(DataType::MSG, data, &any_type);
    let Ok(msg) = Msg::decode(data) else { return };
    // Two bytes for an absent group id, one for the length of a key that becomes two.
    let once = encoded(&msg, data.len() + 8);
    let again = Msg::decode(&once).expect("an encoded message can be decoded");
    assert_eq!(encoded(&again, once.len()), once, "encoding is stable");
    assert_eq!((again.class(), again.body()), (msg.class(), msg.body()));

    let header = peek::header(data).expect("the decoder took the header");
    assert_eq!((header.class, header.domain), (msg.class(), msg.domain()));
    assert_eq!((header.stream_id, header.container), (msg.stream_id(), msg.container()));
    assert_eq!(peek::body(data), Some(msg.body()));
    let range = peek::key_range(data).expect("the decoder took the key");
    let key = range.map(|r| MsgKey::decode(&data[r]).expect("the decoder took the key"));
    assert_eq!(key.as_ref(), msg.key());
    rewritten(data, &msg);
}

fn rewritten(data: &[u8], msg: &Msg<'_>) {
    for id in [0, 0xFD, 0xFE, 0xFFFF] {
        let mut out = b"before".to_vec();
        let has_id = msg.key().is_some_and(|key| key.service_id.is_some());
        // Only a header at the very limit of its length can refuse.
        let Ok(done) = peek::rewrite_service_id(data, id, &mut out) else {
            assert!(data.len() > 0x7F00, "a short message has room for an id");
            continue;
        };
        assert_eq!(done, has_id);
        let Some(copy) = out.strip_prefix(b"before") else { panic!("what was there is kept") };
        if !done {
            assert!(copy.is_empty());
            continue;
        }
        let copy = Msg::decode(copy).expect("a rewritten message can be decoded");
        let key = copy.key().expect("the key stays");
        assert_eq!(key.service_id, Some(id));
        assert_eq!(Some(&MsgKey { service_id: msg.key().unwrap().service_id, ..*key }), msg.key());
        assert_eq!((copy.body(), copy.wire_flags()), (msg.body(), msg.wire_flags()));
    }
}

/// A container or primitive; the first byte says of which type.
pub(crate) fn value(data: &[u8]) {
    let Some((data_type, data)) = data.split_first() else { return };
    let data_type = DataType(*data_type);
    let _ = visit_all(data_type, data, &any_type);
    let Ok(value) = Primitive::decode(data_type, data) else { return };
    let mut buf = vec![0; data.len() + 16];
    let mut w = Writer::new(&mut buf);
    if value.encode(&mut w).is_ok() {
        let again = Primitive::decode(data_type.base(), w.written());
        // Compared as text: a NaN is not equal to itself.
        assert_eq!(again.map(|v| format!("{v:?}")), Ok(format!("{value:?}")));
    }
}

/// RMTES text; each part after a zero byte is applied to the cached value.
pub(crate) fn text(data: &[u8]) {
    let shown = rmtes::to_utf8(data);
    if let Ok(decoded) = rmtes::decode(data) {
        assert_eq!(decoded, shown);
    }
    let mut cache = RmtesCache::new();
    for part in data.split(|b| *b == 0) {
        let before = cache.clone();
        if cache.apply(part).is_err() {
            assert_eq!(cache, before);
        }
        assert!(cache.bytes().len() <= rmtes::MAX_LEN);
        std::hint::black_box(cache.text());
    }
}

/// The cursor: what is read has been there, and the length codings come back.
pub(crate) fn cursor(data: &[u8]) {
    let mut r = Reader::new(data, "anything");
    while let Some(op) = r.rest().first().map(|b| b >> 5) {
        let before = r.offset();
        let read = match op {
            0 => r.rb15().map(usize::from),
            1 => r.ob16().map(usize::from),
            2 => r.u30().map(|v| v as usize),
            3 => r.buf8().map(<[u8]>::len),
            4 => r.buf15().map(<[u8]>::len),
            5 => r.buf16().map(<[u8]>::len),
            6 => r.u64().map(|v| v as usize),
            _ => r.bytes(3).map(<[u8]>::len),
        };
        match read {
            Ok(_) => assert!(r.offset() > before),
            Err(e) => {
                assert_eq!((e.offset(), r.offset()), (before, before));
                return;
            }
        }
    }
}

fn dictionary() -> &'static Dictionary {
    static BUILT_IN: std::sync::LazyLock<Dictionary> = std::sync::LazyLock::new(Dictionary::builtin);
    &BUILT_IN
}

/// Bytes that may be JSON, under every setting: a message that comes out can be decoded, and its own JSON can be read.
pub(crate) fn json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lax = Settings { default_service_id: Some(7), expand_enums: true, enum_displays: true, ..Settings::default() };
    for settings in [
        Settings::EXACT,
        lax,
        Settings { unknown_members: true, unknown_fields: true, ..Settings::EXACT },
        Settings::rtds(),
    ] {
        let converter = Converter::new(dictionary()).with_settings(settings);
        for result in converter.messages(&text) {
            match result {
                Ok(Incoming::Message(msg)) => {
                    Msg::decode(&msg).expect("what was made of JSON is a message");
                    json_of(&msg);
                }
                Ok(Incoming::Error(text)) => assert!(text.len() <= data.len() * 3),
                Ok(Incoming::Ping | Incoming::Pong) => {}
                Err(error) => {
                    let told = error.message(5, &text);
                    let read = converter.messages(&told);
                    assert!(matches!(read[..], [Ok(Incoming::Error(_))]), "{told}: {read:?}");
                }
            }
        }
    }
}

/// A message, if the bytes are one, as JSON: that is one message again, and its JSON is the same from then on.
pub(crate) fn json_of(msg: &[u8]) {
    let converter = Converter::new(dictionary()).with_settings(Settings::EXACT);
    let mut text = String::new();
    if converter.message(msg, &mut text).is_err() {
        assert!(text.is_empty(), "what fails appends nothing");
        return;
    }
    let once = match &converter.messages(&text)[..] {
        [Ok(Incoming::Message(once))] => once.clone(),
        // Contents that JSON cannot say in the form that is required of it.
        [Err(_)] => return,
        other => panic!("{text}: {other:?}"),
    };
    let mut again = String::new();
    converter.message(&once, &mut again).expect("what was made of JSON can be shown");
    let twice = converter.messages(&again);
    assert!(matches!(&twice[..], [Ok(Incoming::Message(_))]), "{again}: {twice:?}");
}
