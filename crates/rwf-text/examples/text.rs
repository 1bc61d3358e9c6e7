//! Messages as text and JSON: `cargo run -p quoteway-rwf-text --example text -- 0000...` with the bytes of a message in
//! hexadecimal, or without an argument for a quote whose image is held, updated and read out again.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use rwf::dictionary::Dictionary;
use rwf::image::{Image, Schema};
use rwf::json::Converter;
use rwf::msg::{Domain, Msg, MsgKey, RefreshFlags, RefreshMsg, UpdateMsg, UpdateType};
use rwf::wire::Writer;
use rwf::{DataState, DataType, EncodeError, FieldListEncoder, Real, RealHint, State, StateCode, StreamState};
use std::error::Error;

const BID: i16 = 22;
const ASK: i16 = 25;

fn main() -> Result<(), Box<dyn Error>> {
    let dictionary = Dictionary::builtin();
    if let Some(hex) = std::env::args().nth(1) {
        return show(&from_hex(&hex)?, &dictionary);
    }
    let mut buffers = [[0; 200]; 3];
    let [refresh, update, again] = &mut buffers;
    let refresh = write_refresh(refresh)?;
    let update = write_update(update)?;
    show(refresh, &dictionary)?;
    show(update, &dictionary)?;

    let schema = Schema { dictionary: Some(&dictionary), ..Schema::NONE };
    let mut image = Image::new();
    image.refresh(&RefreshMsg::decode(refresh)?, &schema)?;
    image.update(&UpdateMsg::decode(update)?, &schema)?;
    println!("--- what a consumer that comes now would get");
    let header = RefreshMsg { key: Some(MsgKey::item(1, b"IBM.N")), ..RefreshMsg::new(Domain::MARKET_PRICE, 5) };
    let mut w = Writer::new(again);
    image.parts(header, 6_000).write(&mut w)?;
    show(w.written(), &dictionary)
}

fn show(message: &[u8], dictionary: &Dictionary) -> Result<(), Box<dyn Error>> {
    let mut json = String::new();
    Msg::decode(message)?;
    Converter::new(dictionary).message(message, &mut json)?;
    println!("{}{json}\n", rwf_text::message(message, Some(dictionary)));
    Ok(())
}

fn write_refresh(buf: &mut [u8]) -> Result<&[u8], EncodeError> {
    let refresh = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: RefreshFlags::SOLICITED | RefreshFlags::REFRESH_COMPLETE,
        state: State::new(StreamState::OPEN, DataState::OK, StateCode::NONE, "All is well"),
        key: Some(MsgKey::item(1, b"IBM.N")),
        ..RefreshMsg::new(Domain::MARKET_PRICE, 5)
    };
    let mut w = Writer::new(buf);
    refresh.encode_header(&mut w)?;
    write_prices(&mut w, &[(BID, 18_160), (ASK, 18_189)])?;
    Ok(w.into_written())
}

fn write_update(buf: &mut [u8]) -> Result<&[u8], EncodeError> {
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        update_type: UpdateType::QUOTE,
        ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
    };
    let mut w = Writer::new(buf);
    update.encode_header(&mut w)?;
    write_prices(&mut w, &[(ASK, 18_190)])?;
    Ok(w.into_written())
}

fn write_prices(w: &mut Writer<'_>, prices: &[(i16, i64)]) -> Result<(), EncodeError> {
    let mut list = FieldListEncoder::begin(w)?;
    for &(fid, cents) in prices {
        list.real(fid, Real::new(cents, RealHint::EXPONENT_2))?;
    }
    list.finish()
}

fn from_hex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).map(|digit| digit as u8).ok_or(format!("{c:?} is no hexadecimal digit")))
        .collect::<Result<_, _>>()?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
