//! Messages of a server on streams that it has opened itself, for what a symbol list names.

use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, UpdateMsg};
use rwf::wire::encode_growing;
use rwf::{DataType, State};

pub(crate) fn encoded(write: impl FnMut(&mut rwf::wire::Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    let end = encode_growing(&mut out, 0, 256, 1 << 16, write).expect("room");
    out.truncate(end);
    out
}

/// The item's image, which opens the stream.
pub(crate) fn image(stream_id: i32, name: &str, body: &[u8]) -> Vec<u8> {
    let refresh = RefreshMsg {
        container: DataType::FIELD_LIST,
        flags: RefreshFlags::REFRESH_COMPLETE | RefreshFlags::SOLICITED,
        state: State::OPEN_OK,
        key: Some(MsgKey::item(1, name.as_bytes())),
        body,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream_id)
    };
    encoded(|w| refresh.encode(w))
}

/// A change of it.
pub(crate) fn update(stream_id: i32, body: &[u8]) -> Vec<u8> {
    let update = UpdateMsg { container: DataType::FIELD_LIST, body, ..UpdateMsg::new(Domain::MARKET_PRICE, stream_id) };
    encoded(|w| update.encode(w))
}
