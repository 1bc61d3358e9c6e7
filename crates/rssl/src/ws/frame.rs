//! Frames of RFC 6455: headers and masks, usable without a session.

/// Longest header of a frame: two bytes, eight of length, four of mask.
pub const HEADER_MAX: usize = 14;

/// Longest payload of a control frame.
pub const CONTROL_MAX: usize = 125;

/// The contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpCode {
    /// More of the message that an earlier frame began.
    Continuation,
    /// UTF-8 text.
    Text,
    /// Bytes.
    Binary,
    /// The end of the session, with a code and a reason.
    Close,
    /// To be answered by a pong with the same payload.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl OpCode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    /// Close, ping or pong: not fragmented, at most [`CONTROL_MAX`] bytes.
    #[must_use]
    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A frame's header, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The message ends with this frame.
    pub fin: bool,
    /// The message is compressed (RSV1 of permessage-deflate); on its first frame only.
    pub compressed: bool,
    /// The frame's contents.
    pub op: OpCode,
    /// The payload is to be combined with these four bytes.
    pub mask: Option<[u8; 4]>,
    /// Bytes of the header itself.
    pub length: usize,
    /// Bytes of the payload.
    pub payload: u64,
}

impl Header {
    /// The header that `bytes` begin with; `None` if more of them are needed.
    ///
    /// # Errors
    /// Says what is wrong with the header.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        if first & 0x30 != 0 {
            return Err("frame with a reserved bit set");
        }
        let op = OpCode::from_bits(first & 0x0F).ok_or("frame with a reserved op code")?;
        let (fin, compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        let (payload, rest) = match second & 0x7F {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            length => (u64::from(length), rest),
        };
        if payload > i64::MAX as u64 {
            return Err("frame with a length of more than 63 bits");
        }
        if op.is_control() && (!fin || compressed && op == OpCode::Close || payload > CONTROL_MAX as u64) {
            return Err("control frame that is fragmented, compressed or too long");
        }
        let (mask, rest) = match (second & 0x80 != 0, rest.split_first_chunk()) {
            (false, _) => (None, rest),
            (true, Some((mask, rest))) => (Some(*mask), rest),
            (true, None) => return Ok(None),
        };
        Ok(Some(Self { fin, compressed, op, mask, length: bytes.len() - rest.len(), payload }))
    }

    /// Appends a header; its own `length` is of no meaning.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.fin) << 7 | u8::from(self.compressed) << 6 | self.op.bits());
        let masked = u8::from(self.mask.is_some()) << 7;
        match self.payload {
            length @ ..=125 => out.push(masked | length as u8),
            length @ ..=0xFFFF => {
                out.push(masked | 0x7E);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(masked | 0x7F);
                out.extend_from_slice(&length.to_be_bytes());
            }
        }
        if let Some(mask) = self.mask {
            out.extend_from_slice(&mask);
        }
    }
}

/// Appends a whole frame.
pub fn write(out: &mut Vec<u8>, op: OpCode, fin: bool, compressed: bool, mask: Option<[u8; 4]>, payload: &[u8]) {
    Header { fin, compressed, op, mask, length: 0, payload: payload.len() as u64 }.encode(out);
    let start = out.len();
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply_mask(&mut out[start..], mask);
    }
}

/// Masks a payload, or takes the mask off.
pub fn apply_mask(bytes: &mut [u8], mask: [u8; 4]) {
    let wide = u64::from_ne_bytes([mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3]]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back() {
        for payload in [0_u64, 1, 125, 126, 65_535, 65_536, 1 << 40] {
            for (fin, compressed, mask) in [(true, false, None), (false, true, Some([1, 2, 3, 4]))] {
                let mut header = Header { fin, compressed, op: OpCode::Text, mask, length: 0, payload };
                let mut out = Vec::new();
                header.encode(&mut out);
                header.length = out.len();
                for cut in 0..out.len() {
                    assert_eq!(Header::parse(&out[..cut]), Ok(None), "{cut} of {out:?}");
                }
                out.push(0xEE);
                assert_eq!(Header::parse(&out), Ok(Some(header)));
            }
        }
    }

    #[test]
    fn reserved_things_are_refused() {
        for bytes in [[0xA1, 0], [0x83, 0], [0x8B, 0], [0x09, 0], [0x89, 126], [0xC8, 0]] {
            let long = [bytes[0], bytes[1], 0, 200];
            assert!(Header::parse(&long).is_err(), "{bytes:x?}");
        }
        assert!(Header::parse(&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_mask_taken_twice_changes_nothing() {
        let text: Vec<u8> = (0..37).collect();
        for length in 0..text.len() {
            let mut bytes = text[..length].to_vec();
            apply_mask(&mut bytes, [9, 8, 7, 6]);
            for (index, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, text[index] ^ [9, 8, 7, 6][index % 4]);
            }
            apply_mask(&mut bytes, [9, 8, 7, 6]);
            assert_eq!(bytes, text[..length]);
        }
    }
}
