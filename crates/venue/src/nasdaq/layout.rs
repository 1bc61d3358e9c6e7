//! How fields lie in Nasdaq's binary messages: big endian at fixed places, texts padded with blanks. One table in `itch` makes from this the
//! messages, what reads them and what writes them.

use market::Side;

/// Type of a field. Reading and writing take exactly [`Field::WIDTH`] bytes.
pub(super) trait Field: Sized {
    const WIDTH: usize;
    /// `None`: the bytes are no value of this field.
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! big_endian_integers {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            const WIDTH: usize = size_of::<Self>();
            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_be_bytes)
            }
            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

big_endian_integers!(u8, u16, u32, u64);

/// A text of fixed width, padded with blanks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// The text, cut to the width or padded to it.
    pub fn new(text: &str) -> Self {
        let mut bytes = [b' '; N];
        let width = text.len().min(N);
        bytes[..width].copy_from_slice(&text.as_bytes()[..width]);
        Self(bytes)
    }

    /// Without the blanks at its end; bytes that are no ASCII are shown as they are escaped in Rust.
    pub fn trimmed(&self) -> std::borrow::Cow<'_, str> {
        let bytes = self.0.trim_ascii_end();
        match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => bytes.escape_ascii().to_string().into(),
        }
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.trimmed())
    }
}

impl<const N: usize> Field for Text<N> {
    const WIDTH: usize = N;
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }
}

impl Field for Side {
    const WIDTH: usize = 1;
    #[inline]
    fn read(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"B" => Some(Self::Bid),
            b"S" => Some(Self::Ask),
            _ => None,
        }
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes[0] = if *self == Self::Bid { b'B' } else { b'S' };
    }
}

/// Declares messages: type byte, length, name, and fields with their offsets.
macro_rules! messages {
    ($($(#[$about:meta])* $code:literal $length:literal $name:ident {
        $($(#[$field_about:meta])* $field:ident: $kind:ty = $at:literal,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                /// Stock locate: the day's number of the stock, from 1; 0 in messages of no stock.
                pub locate: u16,
                /// Tracking number of Nasdaq's own.
                pub tracking: u16,
                /// Nanoseconds since midnight, Eastern time.
                pub time: u64,
                $($(#[$field_about])* pub $field: $kind,)*
            }

            impl $name {
                /// The type byte.
                pub const CODE: u8 = $code;

                /// Reads a message of which the type byte has been looked at. One that is longer than this version knows is read as far as it is
                /// known.
                ///
                /// # Errors
                /// The message is too short, or a field has a value that it cannot have.
                #[inline]
                pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
                    let Some(m) = bytes.first_chunk::<$length>() else {
                        return Err(Unreadable::Short { code: $code, length: bytes.len() });
                    };
                    let bad = |field| Unreadable::Value { code: $code, field };
                    Ok(Self {
                        locate: u16::from_be_bytes([m[1], m[2]]),
                        tracking: u16::from_be_bytes([m[3], m[4]]),
                        time: u64::from_be_bytes([0, 0, m[5], m[6], m[7], m[8], m[9], m[10]]),
                        $($field: <$kind as Field>::read(&m[$at..$at + <$kind as Field>::WIDTH])
                            .ok_or_else(|| bad(stringify!($field)))?,)*
                    })
                }
            }
        )*

        /// A message of TotalView-ITCH 5.0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is its message, which is documented")]
        pub enum Message {
            $($name($name),)*
        }

        impl Message {
            /// Type bytes and lengths of all messages.
            pub const LENGTHS: &'static [(u8, usize)] = &[$(($code, $length)),*];

            /// Reads a message. One that is longer than this version knows is read as far as it is known.
            ///
            /// # Errors
            /// The type is unknown, the message too short, or a field has a value that it cannot have.
            #[inline]
            pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
                let Some(code) = bytes.first() else { return Err(Unreadable::Empty) };
                match code {
                    $($code => $name::decode(bytes).map(Self::$name),)*
                    _ => Err(Unreadable::Type(*code)),
                }
            }

            /// Appends the message as it goes over the wire.
            pub fn encode(&self, out: &mut Vec<u8>) {
                let begin = out.len();
                match self {
                    $(Self::$name(message) => {
                        out.resize(begin + $length, b' ');
                        let m = &mut out[begin..];
                        m[0] = $code;
                        m[1..3].copy_from_slice(&message.locate.to_be_bytes());
                        m[3..5].copy_from_slice(&message.tracking.to_be_bytes());
                        m[5..11].copy_from_slice(&message.time.to_be_bytes()[2..]);
                        $(message.$field.write(&mut m[$at..$at + <$kind as Field>::WIDTH]);)*
                    })*
                }
            }

            /// The type byte.
            pub fn code(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $code,)*
                }
            }

            /// Stock locate and time, which all messages have.
            #[inline]
            pub fn head(&self) -> (u16, u64) {
                match self {
                    $(Self::$name(message) => (message.locate, message.time),)*
                }
            }
        }
    };
}
pub(super) use messages;
