//! The number of a message on the wire: element 2 of the chain of application headers, as stock Wireshark names it, 4 or 8 bytes. What that
//! element has no room for (optional, reset) is a private option that receivers which do not know it pass over.

use core::fmt;

use lbm::wire::header::{ApplicationChain, ExtensionOption, Header, Request};
use lbm::wire::lbmc::Headers;

/// Kind of our private option: flags of a hot failover message. Kind 1 are replies.
const OPTION_KIND: u8 = 2;
const OPTIONAL: u8 = 1;
const RESET: u8 = 2;

/// The number that an application gives a message. All sources of a topic use one width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// 32 bits; 0 follows the highest one.
    Bits32(u32),
    /// 64 bits; 0 follows the highest one.
    Bits64(u64),
}

impl Number {
    /// The number, whichever its width.
    pub const fn value(self) -> u64 {
        match self {
            Self::Bits32(value) => value as u64,
            Self::Bits64(value) => value,
        }
    }

    /// Its width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits32(_) => 32,
            Self::Bits64(_) => 64,
        }
    }

    /// The number that lies `distance` further on, in the same width.
    #[must_use]
    pub const fn offset(self, distance: u64) -> Self {
        match self {
            Self::Bits32(value) => Self::Bits32(value.wrapping_add(distance as u32)),
            Self::Bits64(value) => Self::Bits64(value.wrapping_add(distance)),
        }
    }

    /// How far `other` lies ahead, negative = behind; `None` if it has another width.
    pub(crate) const fn distance(self, other: Self) -> Option<i64> {
        match (self, other) {
            (Self::Bits32(from), Self::Bits32(to)) => Some(to.wrapping_sub(from) as i32 as i64),
            (Self::Bits64(from), Self::Bits64(to)) => Some(to.wrapping_sub(from) as i64),
            _ => None,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// A source's word about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The message's number.
    pub number: Number,
    /// Receivers with `hf_optional_messages 0` go without it.
    pub optional: bool,
    /// No message: the next one has this number, whatever came before.
    pub reset: bool,
}

impl Mark {
    /// An ordinary message.
    pub const fn new(number: Number) -> Self {
        Self { number, optional: false, reset: false }
    }

    /// A message that receivers may go without.
    pub const fn optional(number: Number) -> Self {
        Self { number, optional: true, reset: false }
    }

    /// The order to expect this number next.
    pub const fn reset(next: Number) -> Self {
        Self { number: next, optional: false, reset: true }
    }
}

/// The headers of a mark, as they lie on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    element: [u8; 12],
    length: usize,
    option: Option<[u8; 4]>,
}

/// Headers of a mark: one or two.
#[derive(Clone, Copy, Debug)]
pub struct MarkHeaders<'a> {
    headers: [Header<'a>; 2],
    count: usize,
}

impl<'a> MarkHeaders<'a> {
    /// In the order in which they are sent.
    pub fn as_slice(&self) -> &[Header<'a>] {
        &self.headers[..self.count]
    }
}

impl Encoded {
    /// Encodes a mark.
    pub fn of(mark: Mark) -> Self {
        let mut element = [ApplicationChain::END, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let length = match mark.number {
            Number::Bits32(value) => {
                element[4..8].copy_from_slice(&value.to_be_bytes());
                8
            }
            Number::Bits64(value) => {
                element[4..].copy_from_slice(&value.to_be_bytes());
                12
            }
        };
        element[1] = length;
        let flags = (u8::from(mark.optional) * OPTIONAL) | (u8::from(mark.reset) * RESET);
        Self { element, length: usize::from(length), option: (flags != 0).then_some([OPTION_KIND, flags, 0, 0]) }
    }

    /// The headers for [`lbm::topic::Source::send_headed`].
    pub fn headers(&self) -> MarkHeaders<'_> {
        let chain = Header::ApplicationChain(ApplicationChain {
            reserved: 0,
            first: ApplicationChain::FAILOVER,
            elements: &self.element[..self.length],
        });
        match &self.option {
            None => MarkHeaders { headers: [chain, chain], count: 1 },
            Some(data) => {
                let option = ExtensionOption {
                    flags: ExtensionOption::IGNORE,
                    id: 0,
                    subtype: ExtensionOption::QUOTEWAY,
                    offset: 0,
                    data,
                };
                MarkHeaders { headers: [chain, Header::Option(option)], count: 2 }
            }
        }
    }
}

/// Everything that a receiver reads of a message's headers, in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The mark, if it is a message of hot failover.
    pub mark: Option<Mark>,
    /// Topic sequence number of the first fragment, if there were several.
    pub first_sqn: Option<u32>,
    /// Where a reply is to go.
    pub request: Option<Request>,
    /// There is a number of neither 4 nor 8 bytes.
    pub malformed: bool,
}

impl Read {
    /// Reads the headers of a message.
    pub fn of(headers: &Headers<'_>) -> Self {
        let (mut read, mut number, mut flags) = (Self::default(), None, 0);
        for header in headers.clone().flatten() {
            match header {
                Header::ApplicationChain(chain) => {
                    let Some(body) = chain.failover_number() else { continue };
                    number = match (body.try_into(), body.try_into()) {
                        (Ok(four), _) => Some(Number::Bits32(u32::from_be_bytes(four))),
                        (_, Ok(eight)) => Some(Number::Bits64(u64::from_be_bytes(eight))),
                        (Err(_), Err(_)) => None,
                    };
                    read.malformed |= number.is_none();
                }
                Header::Option(option) if option.subtype == ExtensionOption::QUOTEWAY => {
                    if let &[OPTION_KIND, of_message, ..] = option.data {
                        flags = of_message;
                    }
                }
                Header::Fragment(fragment) => read.first_sqn = Some(fragment.first_sqn),
                Header::Request(request) if request.transport == 0 => read.request = Some(request),
                _ => {}
            }
        }
        let mark = |number| Mark { number, optional: flags & OPTIONAL != 0, reset: flags & RESET != 0 };
        read.mark = number.map(mark);
        read
    }
}

#[cfg(test)]
mod tests {
    use lbm::wire::Writer;
    use lbm::wire::lbmc::{self, Kind, NEXT_DATA};

    use super::*;

    fn round(mark: Mark) -> (Vec<u8>, Read) {
        let encoded = Encoded::of(mark);
        let mut bytes = [0; 128];
        let mut w = Writer::new(&mut bytes);
        lbmc::encode(&mut w, Kind::Message, 42, 3, encoded.headers().as_slice(), NEXT_DATA, b"hello").expect("fits");
        let (message, _) = lbmc::Message::decode(w.written()).expect("a message");
        assert_eq!(message.content().expect("a payload").payload, b"hello");
        (w.written().to_vec(), Read::of(&message.headers()))
    }

    #[test]
    fn marks_come_back_and_lie_where_wireshark_looks_for_them() {
        for number in [Number::Bits32(5), Number::Bits32(u32::MAX), Number::Bits64(5), Number::Bits64(u64::MAX)] {
            for mark in [Mark::new(number), Mark::optional(number), Mark::reset(number)] {
                assert_eq!(round(mark).1, Read { mark: Some(mark), ..Read::default() });
            }
        }
        let (bytes, _) = round(Mark::new(Number::Bits32(5)));
        assert_eq!(bytes[1], 7, "a chain of application headers");
        assert_eq!(bytes[12..24], [0, 12, 0, 2, 0xFF, 8, 0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn a_number_of_another_length_is_told() {
        let elements = [0xFF, 7, 0, 0, 1, 2, 3];
        let chain = Header::ApplicationChain(ApplicationChain { reserved: 0, first: 2, elements: &elements });
        let mut bytes = [0; 64];
        let mut w = Writer::new(&mut bytes);
        lbmc::encode(&mut w, Kind::Message, 42, 3, &[chain], NEXT_DATA, b"x").expect("fits");
        let (message, _) = lbmc::Message::decode(w.written()).expect("a message");
        assert_eq!(Read::of(&message.headers()), Read { malformed: true, ..Read::default() });
    }

    #[test]
    fn distances_wrap_in_their_width() {
        assert_eq!(Number::Bits32(u32::MAX).distance(Number::Bits32(1)), Some(2));
        assert_eq!(Number::Bits64(1).distance(Number::Bits64(u64::MAX)), Some(-2));
        assert_eq!(Number::Bits32(1).distance(Number::Bits64(1)), None);
        assert_eq!(Number::Bits32(u32::MAX).offset(2), Number::Bits32(1));
        assert_eq!((Number::Bits64(7).bits(), Number::Bits32(7).to_string()), (64, "7".to_owned()));
    }
}
