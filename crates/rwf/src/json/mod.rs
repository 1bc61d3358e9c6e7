//! JSON of any message, both ways, in the form of the WebSocket protocol `tr_json2`.
//!
//! [`Converter`] turns messages into the text that the SDK's converter gives, and text into messages. It differs from that
//! converter where that one loses something or writes what is no JSON:
//!
//! * Infinities and NaN are in quotes; RMTES that is partly illegal is shown as far as it goes rather than left out.
//! * States' texts are UTF-8, and state codes without a name are numbers.
//! * `DoNotCache` of a refresh, `Discardable`, a dynamic quality of service, a view's type, ANSI pages, opaque and JSON
//!   attributes, and vectors in requests all reach the message.
//! * Reals keep all digits that fit; text for RMTES values that is not ASCII is marked as UTF-8.
//!
//! ```
//! use rwf::dictionary::Dictionary;
//! use rwf::json::{Converter, Incoming};
//!
//! let dictionary = Dictionary::builtin();
//! let converter = Converter::new(&dictionary);
//! let messages = converter.messages(r#"{"ID":5,"Type":"Update","Fields":{"BID":1.25}}"#);
//! let Ok(Incoming::Message(update)) = &messages[0] else { panic!() };
//! let mut text = String::new();
//! converter.message(update, &mut text)?;
//! assert_eq!(text, r#"{"ID":5,"Type":"Update","UpdateType":"Unspecified","Fields":{"BID":1.25}}"#);
//! # Ok::<(), rwf::DecodeError>(())
//! ```

mod base64;
mod names;
mod number;
pub(crate) mod out;
mod parse;
mod read;
mod read_container;
mod read_members;
mod read_plain;
mod write;
mod write_container;

use std::cell::Cell;
use std::fmt;

use crate::dictionary::Dictionary;
use crate::msg::{Domain, MsgKey};
use crate::{DecodeError, EncodeError};

/// How to convert; the names of the SDK's properties are in parentheses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The service of a key that names none (default service id). Keys of login and directory have no service.
    pub default_service_id: Option<u16>,
    /// Enumerated fields are written as their display, where the dictionary has one (expand enum fields).
    pub expand_enums: bool,
    /// Enumerated fields may be given as their display (allow enum display strings).
    pub enum_displays: bool,
    /// Unknown members are errors rather than skipped (`catchUnknownJsonKeys`).
    pub unknown_members: bool,
    /// Unknown fields are errors rather than skipped (`catchUnknownJsonFids`).
    pub unknown_fields: bool,
    /// Members that differ from their default are always written. The SDK's converter leaves `Complete`, `ClearCache`,
    /// `Solicited` and `KeyInUpdates` out of messages that have no flag at all, which then read back as if they had.
    pub explicit: bool,
}

impl Settings {
    /// Everything is written, so that it reads back as it was: numbers of enumerations, and members that are at their default.
    pub const EXACT: Self = Self {
        default_service_id: None,
        expand_enums: false,
        enum_displays: false,
        unknown_members: false,
        unknown_fields: false,
        explicit: true,
    };

    /// As an RTDS has them: displays of enumerations both ways, unknown fields are errors and unknown members are not.
    #[must_use]
    pub fn rtds() -> Self {
        Self { expand_enums: true, enum_displays: true, unknown_fields: true, explicit: true, ..Self::default() }
    }
}

/// The services by name, for keys that name rather than number them.
pub trait ServiceNames {
    /// The name of a service; `None` has it written as its number.
    fn name(&self, id: u16) -> Option<&str>;
    /// The id of a service.
    fn id(&self, name: &str) -> Option<u16>;
}

/// No names: services are numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServiceNames;

impl ServiceNames for NoServiceNames {
    fn name(&self, _: u16) -> Option<&str> {
        None
    }

    fn id(&self, _: &str) -> Option<u16> {
        None
    }
}

/// Converts messages to JSON and back.
#[derive(Clone, Copy)]
pub struct Converter<'a> {
    dictionary: &'a Dictionary,
    services: &'a dyn ServiceNames,
    settings: Settings,
    left_out: Option<&'a LeftOut>,
}

/// How many fields were left out of JSON because the dictionary does not have them. The SDK's converter refuses a whole message for a
/// member that is no field's name, so a number in its place would cost all the others.
#[derive(Debug, Default)]
pub struct LeftOut(Cell<u64>);

impl LeftOut {
    /// Fields so far.
    pub fn fields(&self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Converter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converter").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'a> Converter<'a> {
    /// A converter with default settings and without service names.
    pub fn new(dictionary: &'a Dictionary) -> Self {
        Self { dictionary, services: &NoServiceNames, settings: Settings::default(), left_out: None }
    }

    /// With these settings.
    #[must_use]
    pub fn with_settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// With these service names.
    #[must_use]
    pub fn with_services(self, services: &'a dyn ServiceNames) -> Self {
        Self { services, ..self }
    }

    /// With fields counted there that are left out.
    #[must_use]
    pub fn counting(self, left_out: &'a LeftOut) -> Self {
        Self { left_out: Some(left_out), ..self }
    }

    fn leave_out(&self) {
        if let Some(LeftOut(fields)) = self.left_out {
            fields.set(fields.get() + 1);
        }
    }

    /// Appends the JSON of a message. Fields that the dictionary does not have are left out, and counted ([`Converter::counting`]).
    ///
    /// # Errors
    /// The message cannot be decoded; nothing is appended then.
    pub fn message(&self, msg: &[u8], out: &mut String) -> Result<(), DecodeError> {
        let mut bytes = Vec::with_capacity(TEXT_FOR_BYTE * msg.len());
        write::message(*self, msg, &mut bytes)?;
        let text = str::from_utf8(&bytes);
        debug_assert!(text.is_ok(), "only whole characters are written");
        out.push_str(text.map_err(|error| DecodeError::invalid("text in JSON", error.valid_up_to()))?);
        Ok(())
    }

    /// Appends the JSON of a message as UTF-8. For those who make many, since it spares them to look at each byte again.
    ///
    /// # Errors
    /// The message cannot be decoded; nothing is appended then.
    pub fn message_utf8(&self, msg: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let start = out.len();
        let result = write::message(*self, msg, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Appends the member `Key` of a message of this domain, as UTF-8.
    pub fn key_utf8(&self, domain: Domain, key: &MsgKey<'_>, out: &mut Vec<u8>) {
        write::key(*self, domain, key, out);
    }

    /// The messages in a text, which is one or an array of them. Text that is no JSON gives one error; a message that
    /// makes no sense gives an error in its place, and the others are still converted.
    pub fn messages(&self, text: &str) -> Vec<Result<Incoming, JsonError>> {
        read::messages(self, text)
    }
}

/// What a peer sent as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A message, encoded.
    Message(Vec<u8>),
    /// `Ping`: to be answered by [`PONG`].
    Ping,
    /// `Pong`: the answer to a ping.
    Pong,
    /// `Error`: the peer could not read what it was sent. Its text.
    Error(String),
}

/// The real that a decimal number stands for, with the digits it is written with (`401.50` has two decimals). Decimals that no
/// hint can hold are rounded off; `None` if the text is no number, if nothing would be left, or if it is too large.
pub fn real_from_text(text: &str) -> Option<crate::Real> {
    let digits = text.trim_start_matches('-');
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if is_number { number::parse_real(text) } else { None }
}

/// Bytes of text for a byte of a message, about: names take the place of numbers.
const TEXT_FOR_BYTE: usize = 4;

/// A ping.
pub const PING: &str = r#"{"Type":"Ping"}"#;
/// The answer to a ping.
pub const PONG: &str = r#"{"Type":"Pong"}"#;

/// Why JSON could not become a message. The fault is the sender's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    kind: ErrorKind,
    text: String,
    stream_id: i32,
    offending: String,
}

/// How JSON failed to become a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No legal JSON, or neither a message nor an array of messages.
    Syntax,
    /// A value of the wrong kind, such as text where a number must be.
    WrongKind,
    /// A value that makes no sense where it stands.
    UnexpectedValue,
    /// A member that must be there is missing.
    MissingMember,
    /// A member that is not known ([`Settings::unknown_members`]).
    UnknownMember,
    /// A field that is not known ([`Settings::unknown_fields`]).
    UnknownField,
    /// A type of message that is not known.
    UnknownMessageType,
    /// The message has no wire form: something in it is too long.
    Unencodable,
}

/// Appends a whole number as JSON has it: for the stream id, which is a client's own in a text that many share.
pub fn write_number(value: i64, out: &mut Vec<u8>) {
    number::signed(value, out);
}

impl JsonError {
    fn new(kind: ErrorKind, text: String) -> Self {
        Self { kind, text, stream_id: 0, offending: String::new() }
    }

    /// The `ID` of the message that failed, where it has one that is a number; else 0.
    pub fn stream_id(&self) -> i32 {
        self.stream_id
    }

    /// The message of type `Error` that tells the sender, with its stream and the whole message that failed.
    pub fn reply(&self) -> String {
        self.message(self.stream_id, &self.offending)
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message of type `Error` that tells the sender, with the text that failed.
    pub fn message(&self, stream_id: i32, offending: &str) -> String {
        let mut out = format!("{{\"ID\":{stream_id},\"Type\":\"Error\",\"Text\":");
        out::text(&self.text, &mut out);
        out.push_str(",\"Debug\":{\"Message\":");
        out::text(offending, &mut out);
        out.push_str("}}");
        out
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for JsonError {}

impl From<EncodeError> for JsonError {
    fn from(error: EncodeError) -> Self {
        Self::new(ErrorKind::Unencodable, error.to_string())
    }
}
