//! Updates of plain fields, in one pass over their text.
//!
//! They are nearly all that a provider of JSON sends, and need no tree: each field is written where its value ends. Whatever else a
//! text holds, or whatever is wrong in it, sends the whole of it the long way by [`super::parse::Node`], which gives the same
//! messages, and the errors. The values are read by the same functions both ways.

use super::parse::{Node, Parser};
use super::read_members::{Encoded, JsonReader};
use super::{Converter, Incoming, JsonError};
use crate::container::FieldListEncoder;
use crate::dictionary::FieldDef;
use crate::msg::{Domain, UpdateMsg};
use crate::wire::Writer;
use crate::{DataType, Primitive};

/// Room for the header of an update that has neither key nor bytes of its own: it is known after the fields.
const HEADER: usize = 32;
/// Updates of shorter texts are put together on the stack.
const SHORT: usize = 1024;

/// The messages of a text, if all of them are updates of plain fields.
pub(super) fn updates(converter: &Converter<'_>, text: &str) -> Option<Vec<Result<Incoming, JsonError>>> {
    let mut parser = Parser::new(text);
    let in_array = parser.token(b'[');
    // Fields take no more bytes than their text, but for a few that then go the long way.
    let room = HEADER + text.len();
    let (mut short, mut long);
    let buf = if room <= SHORT {
        short = [0; SHORT];
        &mut short[..]
    } else {
        // A text that begins otherwise gets no room.
        is_likely(&parser).then_some(())?;
        long = vec![0; room];
        &mut long[..]
    };
    let mut out = Vec::with_capacity(1);
    loop {
        let message = update(converter, &mut parser, buf)?.to_vec();
        out.push(Ok(Incoming::Message(message)));
        if !(in_array && parser.token(b',')) {
            break;
        }
    }
    let is_whole = (!in_array || parser.token(b']')) && parser.is_at_end();
    is_whole.then_some(out)
}

/// Whether an update may stand here: looks at the begin of the text only.
fn is_likely(parser: &Parser<'_>) -> bool {
    const SEEN: usize = 128;
    let ahead = parser.ahead();
    ahead.get(..SEEN).unwrap_or(ahead).windows(8).any(|word| word == b"\"Update\"")
}

/// Reads an update; its bytes are put together in `buf`.
fn update<'b>(converter: &Converter<'_>, parser: &mut Parser<'_>, buf: &'b mut [u8]) -> Option<&'b [u8]> {
    let reader = JsonReader::new(*converter);
    let mut msg = UpdateMsg::new(Domain::MARKET_PRICE, 0);
    let (mut id, mut is_update, mut body) = (None, false, None);
    members(parser, |name, parser| {
        if name == b"Fields" {
            if body.is_some() {
                return None;
            }
            let mut w = Writer::new(&mut buf[HEADER..]);
            fields(&reader, parser, &mut w)?;
            body = Some(w.position());
            return Some(());
        }
        let node = scalar(parser)?;
        match name {
            b"ID" => id = Some(reader.number("ID", &node).ok()?),
            // Anything but an update is seen soon after the begin, and costs little then.
            b"Type" => {
                is_update = matches!(node, Node::Text(class) if class == "Update");
                return is_update.then_some(());
            }
            b"Domain" => msg.domain = reader.named("Domain", &node, Domain).ok()?,
            _ => {
                let name = str::from_utf8(name).ok()?;
                return reader.update_member(&mut msg, name, &node).ok()?.then_some(());
            }
        }
        Some(())
    })?;
    msg.stream_id = id?;
    msg.container = if body.is_some() { DataType::FIELD_LIST } else { DataType::NO_DATA };
    if !is_update {
        return None;
    }
    let mut header = [0; HEADER];
    let mut w = Writer::new(&mut header);
    msg.encode_header(&mut w).ok()?;
    let header = w.written();
    let start = HEADER - header.len();
    buf[start..HEADER].copy_from_slice(header);
    buf.get(start..HEADER + body.unwrap_or(0))
}

fn fields(reader: &JsonReader<'_>, parser: &mut Parser<'_>, w: &mut Writer<'_>) -> Option<()> {
    let mut list = FieldListEncoder::begin(w).ok()?;
    members(parser, |name, parser| {
        // A key that begins like a number may be one, which names a field by its id.
        name.first().filter(|byte| byte.is_ascii_alphabetic())?;
        let def = reader.converter.dictionary.field_with_name(name)?;
        if let Some(written) = common_value(def, parser, &mut list) {
            return written.ok();
        }
        let node = scalar(parser)?;
        if def.data_type().is_container() {
            return None;
        }
        reader.field(def, &node, &mut list).ok()
    })?;
    list.finish().ok()
}

/// Writes a value of the types that nearly all fields have, straight from its text, as [`JsonReader::field`] would. `None` for another
/// type, a blank, or an odd value; then nothing was taken.
#[inline]
fn common_value(def: &FieldDef, parser: &mut Parser<'_>, list: &mut FieldListEncoder<'_, '_>) -> Option<Encoded> {
    let fid = def.fid();
    Some(match def.data_type() {
        DataType::REAL => {
            let real = parser.plain_number(|number| number.real())?;
            list.real(fid, real)
        }
        DataType::UINT => {
            let value = parser.plain_number(|number| number.whole())?;
            list.uint(fid, value)
        }
        DataType::ENUM => {
            let value = parser.plain_number(|number| u16::try_from(number.whole()?).ok())?;
            list.field(fid, &Primitive::Enum(value))
        }
        DataType::RMTES_STRING | DataType::ASCII_STRING => {
            let text = parser.plain_ascii()?;
            list.raw(fid, text)
        }
        _ => return None,
    })
}

/// The members of an object; `each` reads the value of one.
#[inline]
fn members<'t>(parser: &mut Parser<'t>, mut each: impl FnMut(&[u8], &mut Parser<'t>) -> Option<()>) -> Option<()> {
    parser.token(b'{').then_some(())?;
    if parser.token(b'}') {
        return Some(());
    }
    loop {
        let name = parser.plain_string()?;
        parser.token(b':').then_some(())?;
        each(name, parser)?;
        if !parser.token(b',') {
            return parser.token(b'}').then_some(());
        }
    }
}

/// A value that holds no others.
fn scalar<'t>(parser: &mut Parser<'t>) -> Option<Node<'t>> {
    parser.blanks();
    match parser.peek()? {
        b'{' | b'[' => None,
        b'"' => Some(Node::Text(parser.plain_text()?.into())),
        _ => parser.value().ok(),
    }
}
