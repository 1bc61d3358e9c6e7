//! How fields lie in the messages of IEX: little endian at fixed places, texts padded with blanks. One table in `messages` makes from this the
//! messages, what reads them and what writes them.

use crate::nasdaq::Text;

/// Type of a field.
pub(super) trait Field: Sized {
    const WIDTH: usize;
    fn read(bytes: &[u8]) -> Option<Self>;
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! little_endian_integers {
    ($($integer:ty),*) => {$(
        impl Field for $integer {
            const WIDTH: usize = size_of::<Self>();
            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

little_endian_integers!(u8, u32, i64);

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

/// Declares messages: type byte, length, name, and fields with their offsets.
macro_rules! messages {
    ($($(#[$about:meta])* $code:literal $length:literal $name:ident {
        $($(#[$field_about:meta])* $field:ident: $kind:ty = $at:literal,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                /// Event, status or flags of the message: the byte behind its type.
                pub flags: u8,
                /// Nanoseconds since 1970 UTC.
                pub time: i64,
                $($(#[$field_about])* pub $field: $kind,)*
            }
        )*

        /// A message of TOPS 1.6 or DEEP 1.0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each variant is its message, which is documented")]
        pub enum Message {
            $($name($name),)*
        }

        impl Message {
            /// Type bytes and lengths of all messages.
            pub const LENGTHS: &'static [(u8, usize)] = &[$(($code, $length)),*];

            /// Reads a message. One that is longer than this version knows is read as far as it is known: IEX reserves the right to lengthen them.
            ///
            /// # Errors
            /// The type is unknown, or the message too short.
            #[inline]
            pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
                let Some(code) = bytes.first() else { return Err(Unreadable::Empty) };
                match code {
                    $($code => {
                        let short = Unreadable::Short { code: *code, length: bytes.len() };
                        let m = bytes.first_chunk::<$length>().ok_or(short)?;
                        Ok(Self::$name($name {
                            flags: m[1],
                            time: i64::from_le_bytes([m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9]]),
                            $($field: <$kind as Field>::read(&m[$at..$at + <$kind as Field>::WIDTH]).ok_or(short)?,)*
                        }))
                    })*
                    _ => Err(Unreadable::Type(*code)),
                }
            }

            /// Appends the message as it goes over the wire, without its length.
            pub fn encode(&self, out: &mut Vec<u8>) {
                let begin = out.len();
                match self {
                    $(Self::$name(message) => {
                        out.resize(begin + $length, 0);
                        let m = &mut out[begin..];
                        m[0] = $code;
                        m[1] = message.flags;
                        m[2..10].copy_from_slice(&message.time.to_le_bytes());
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

            /// When it was: nanoseconds since 1970 UTC.
            pub fn time(&self) -> u64 {
                match self {
                    $(Self::$name(message) => message.time.max(0) as u64,)*
                }
            }
        }
    };
}
pub(super) use messages;
