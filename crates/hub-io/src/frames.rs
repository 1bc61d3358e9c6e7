//! The bytes of a unicast connection between a P2PS and a Source Distributor: a greeting each way (two where the hub has a key),
//! then hub blocks.
//!
//! `docs/wire/backbone.md` is the specification. Nothing here does I/O.

use hub::stream::{BLOCK_HEADER, MAGIC};
use std::fmt;

use super::auth::{Key, LENGTH, Nonce, Signature};

/// First two bytes of a greeting: `Ql`.
const GREETING: [u8; 2] = *b"Ql";
/// Version of the connection's rules that this module speaks.
pub const VERSION: u8 = 1;
/// Bytes of either greeting in front of its texts.
const GREETING_HEADER: usize = 24;
/// No greeting is longer; texts are cut to fit.
const GREETING_MAX: usize = 1_024;
/// Longest block that is taken from a peer, bytes. A sender cuts its blocks far below; one message may be larger.
pub const LONGEST_BLOCK: usize = 64 << 20;

/// A P2PS's greeting, which comes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Number of this life of the P2PS.
    pub incarnation: u32,
    /// The P2PS wants the data stream on this connection too.
    pub data: bool,
    /// One of very many (a desktop): nobody waits for it.
    pub unpaced: bool,
    /// The peer is a Source Distributor that starts, and wants a copy of the images that are held; it does not join.
    pub copy: bool,
    /// The hub that it means to join.
    pub hub: String,
    /// The P2PS's name, for people.
    pub name: String,
    /// The nonce that the Source Distributor is to sign, if the P2PS has the hub's key.
    pub nonce: Option<Nonce>,
}

/// A Source Distributor with a key says before the welcome that it has the key, and what the P2PS is to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// The bytes to be signed.
    pub nonce: Nonce,
    /// The Source Distributor's signature.
    pub signature: Signature,
}

/// A P2PS's answer to a [`Challenge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// The P2PS's signature.
    pub signature: Signature,
}

/// The Source Distributor's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Welcome {
    /// The P2PS has joined.
    Joined {
        /// Number of this life of the Source Distributor: that of its data stream's blocks.
        incarnation: u32,
        /// The P2PS's number there, which `target` names in events.
        number: u16,
        /// Position in the data stream at which everything for this P2PS begins.
        position: u64,
    },
    /// The Source Distributor has not taken the P2PS, and why.
    Refused(String),
}

/// Flag of a [`Hello`]: the data stream is wanted on this connection.
const DATA: u8 = 1;
/// Flag of a [`Hello`]: a nonce follows the texts.
const NONCE: u8 = 2;
/// Flag of a [`Hello`]: nobody is to wait for this P2PS.
const UNPACED: u8 = 16;
/// Flag of a [`Hello`]: a copy of the images is wanted, and no more.
const COPY: u8 = 32;
/// Flag of a [`Welcome`]: refused.
const REFUSED: u8 = 1;
/// Flag of a [`Challenge`].
const CHALLENGE: u8 = 4;
/// Flag of a [`Proof`].
const PROOF: u8 = 8;
/// Labels of signatures.
const BY_DISTRIBUTOR: &str = "quoteway hub: Source Distributor";
const BY_P2PS: &str = "quoteway hub: P2PS";

/// A fault in the bytes of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    /// Neither a greeting nor a hub block begins here.
    NotAHub,
    /// The peer speaks another version.
    Version(u8),
    /// A length that no greeting or block has.
    Length(usize),
    /// A greeting came where a block has to be, or the other way round.
    OutOfTurn,
    /// A greeting's text is not UTF-8, or does not end within it.
    Text,
}

impl std::error::Error for FrameError {}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAHub => f.write_str("the peer does not speak the hub's protocol: is this the hub port?"),
            Self::Version(v) => write!(f, "the peer speaks version {v} of the hub connection, this side {VERSION}"),
            Self::Length(n) => write!(f, "a frame of {n} bytes: no greeting or hub block has that length"),
            Self::OutOfTurn => f.write_str("a greeting and a block are mixed up"),
            Self::Text => f.write_str("a text in the greeting cannot be read"),
        }
    }
}

impl Hello {
    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let wants = flag(self.data, DATA) | flag(self.unpaced, UNPACED) | flag(self.copy, COPY);
        let flags = wants | flag(self.nonce.is_some(), NONCE);
        let nonce = self.nonce.as_ref().map_or(&[][..], |nonce| nonce);
        greeting(out, flags, self.incarnation, 0, 0, &[cut(&self.hub), cut(&self.name)], nonce);
    }

    /// Reads a whole greeting.
    ///
    /// # Errors
    /// [`FrameError`]: the texts are wrong.
    pub fn read(frame: &[u8]) -> Result<Self, FrameError> {
        let (hub, rest) = text(frame.get(GREETING_HEADER..).ok_or(FrameError::Length(frame.len()))?)?;
        let (name, rest) = text(rest)?;
        let nonce = if frame[3] & NONCE != 0 { Some(*rest.first_chunk().ok_or(FrameError::Text)?) } else { None };
        let has = |flag: u8| frame[3] & flag != 0;
        let (data, unpaced, copy) = (has(DATA), has(UNPACED), has(COPY));
        Ok(Self { incarnation: word(frame, 8), data, unpaced, copy, hub, name, nonce })
    }

    /// Both sides sign this greeting and the challenge, each under its own label, so that neither can be handed the other's.
    fn content(&self, challenge: &Nonce) -> Vec<u8> {
        let mut content = Vec::new();
        self.write(&mut content);
        content.extend_from_slice(challenge);
        content
    }
}

impl Challenge {
    /// A Source Distributor's answer to a greeting that has a nonce.
    pub fn new(key: &Key, hello: &Hello, nonce: Nonce) -> Self {
        Self { nonce, signature: key.sign(BY_DISTRIBUTOR, &[&hello.content(&nonce)]) }
    }

    /// Whether who has sent it has the key.
    pub fn is_genuine(&self, key: &Key, hello: &Hello) -> bool {
        key.verify(BY_DISTRIBUTOR, &[&hello.content(&self.nonce)], &self.signature)
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        greeting(out, CHALLENGE, 0, 0, 0, &[], &[self.nonce, self.signature].concat());
    }

    /// Reads a whole greeting; `None` if it is another one.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (nonce, rest) = frame.get(GREETING_HEADER..)?.split_first_chunk::<LENGTH>()?;
        let signature = rest.first_chunk::<LENGTH>()?;
        (frame[3] & CHALLENGE != 0).then_some(Self { nonce: *nonce, signature: *signature })
    }
}

impl Proof {
    /// A P2PS's answer.
    pub fn new(key: &Key, hello: &Hello, challenge: &Nonce) -> Self {
        Self { signature: key.sign(BY_P2PS, &[&hello.content(challenge)]) }
    }

    /// Whether who has sent it has the key.
    pub fn is_genuine(&self, key: &Key, hello: &Hello, challenge: &Nonce) -> bool {
        key.verify(BY_P2PS, &[&hello.content(challenge)], &self.signature)
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        greeting(out, PROOF, 0, 0, 0, &[], &self.signature);
    }

    /// Reads a whole greeting; `None` if it is another one.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let signature = frame.get(GREETING_HEADER..)?.first_chunk::<LENGTH>()?;
        (frame[3] & PROOF != 0).then_some(Self { signature: *signature })
    }
}

impl Welcome {
    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Joined { incarnation, number, position } => {
                greeting(out, 0, *incarnation, *number, *position, &[], &[]);
            }
            Self::Refused(why) => greeting(out, REFUSED, 0, 0, 0, &[cut(why)], &[]),
        }
    }

    /// Reads a whole greeting.
    ///
    /// # Errors
    /// [`FrameError`]: the text is wrong.
    pub fn read(frame: &[u8]) -> Result<Self, FrameError> {
        let texts = frame.get(GREETING_HEADER..).ok_or(FrameError::Length(frame.len()))?;
        if frame[3] & REFUSED != 0 {
            return Ok(Self::Refused(text(texts)?.0));
        }
        let position = u64::from(word(frame, 16)) | u64::from(word(frame, 20)) << 32;
        Ok(Self::Joined { incarnation: word(frame, 8), number: u16::from_le_bytes([frame[12], frame[13]]), position })
    }
}

/// As much of a text as a greeting takes.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(250)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

fn greeting(out: &mut Vec<u8>, flags: u8, incarnation: u32, number: u16, position: u64, texts: &[&str], proof: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&GREETING);
    out.extend_from_slice(&[VERSION, flags, 0, 0, 0, 0]);
    out.extend_from_slice(&incarnation.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&position.to_le_bytes());
    for text in texts {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(proof);
    let length = (out.len() - start) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
}

fn text(bytes: &[u8]) -> Result<(String, &[u8]), FrameError> {
    let (&length, rest) = bytes.split_first().ok_or(FrameError::Text)?;
    let body = rest.get(..usize::from(length)).ok_or(FrameError::Text)?;
    let body = std::str::from_utf8(body).map_err(|_| FrameError::Text)?;
    Ok((body.to_owned(), &rest[usize::from(length)..]))
}

/// The little-endian number at `at`; the caller has checked that it is there.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bit of a block's flags on a connection that carries the data stream as well: the block is for this P2PS alone.
const DIRECT: u8 = 1;

/// Marks a block as one for the P2PS of the connection alone.
pub fn mark_point_to_point(block: &mut [u8]) {
    if let Some(flags) = block.get_mut(3) {
        *flags |= DIRECT;
    }
}

/// True for a block that was marked so.
pub fn is_point_to_point(block: &[u8]) -> bool {
    block.get(3).is_some_and(|flags| flags & DIRECT != 0)
}

/// One unit of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// The greeting, whole.
    Greeting(&'a [u8]),
    /// A hub block, whole.
    Block(&'a [u8]),
}

/// Cuts the bytes of one direction of a connection into frames. What lies whole in the input is lent from it; only a
/// frame that is spread over several inputs is put together here.
#[derive(Debug)]
pub struct FrameReader {
    /// The beginning of a frame whose end has not come.
    partial: Vec<u8>,
    /// Greetings that come before the first block.
    greetings: u8,
    /// Longest block that is taken.
    longest: usize,
    /// Room that is kept between frames; more is given back.
    kept: usize,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new(false)
    }
}

/// Room that a reader of data keeps between frames.
const PARTIAL_KEPT: usize = 1 << 20;
/// Longest block that is taken from a P2PS before it has joined (none is right), and room that a reader of requests keeps.
pub const STRANGER_MAX: usize = 64 << 10;
/// The same once it has, where the hub has no key: a message is as long as sessions take them, and has a block for itself.
pub const UNPROVEN_BLOCK: usize = 17 << 20;

impl FrameReader {
    /// For a connection that begins with one greeting, or, where the hub has a key, with two.
    pub fn new(has_key: bool) -> Self {
        let greetings = 1 + u8::from(has_key);
        Self { partial: Vec::new(), greetings, longest: LONGEST_BLOCK, kept: PARTIAL_KEPT }
    }

    /// For a connection that has come in, which is a stranger's until [`FrameReader::joined`].
    pub fn of_requests(has_key: bool) -> Self {
        Self { longest: STRANGER_MAX, kept: STRANGER_MAX, ..Self::new(has_key) }
    }

    /// The P2PS of the connection has joined.
    pub fn joined(&mut self, has_key: bool) {
        self.longest = if has_key { LONGEST_BLOCK } else { UNPROVEN_BLOCK };
    }

    /// Bytes of a frame whose end has not come.
    pub fn unfinished(&self) -> usize {
        self.partial.len()
    }

    /// Takes in bytes and gives each whole frame to `f`.
    ///
    /// # Errors
    /// The first one that comes up, from the bytes or from `f`; the connection is of no use afterwards.
    pub fn read<E: From<FrameError>>(
        &mut self,
        mut bytes: &[u8],
        mut f: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.partial.is_empty() && !bytes.is_empty() {
            let wanted = match self.length(&self.partial)? {
                Some(length) => length,
                // Enough for either header.
                None => BLOCK_HEADER,
            };
            let take = (wanted - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.length(&self.partial)? == Some(self.partial.len()) {
                let mut whole = std::mem::take(&mut self.partial);
                f(self.frame(&whole))?;
                whole.clear();
                whole.shrink_to(self.kept);
                self.partial = whole;
            }
        }
        while let Some(length) = self.length(bytes)?.filter(|&length| length <= bytes.len()) {
            let (whole, rest) = bytes.split_at(length);
            f(self.frame(whole))?;
            bytes = rest;
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn frame<'a>(&mut self, whole: &'a [u8]) -> Frame<'a> {
        if self.greetings == 0 {
            return Frame::Block(whole);
        }
        self.greetings -= 1;
        Frame::Greeting(whole)
    }

    /// The length of the frame that begins with `bytes`, as soon as it can be told.
    fn length(&self, bytes: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(magic) = bytes.first_chunk::<2>() else { return Ok(None) };
        match (*magic == GREETING, u16::from_le_bytes(*magic) == MAGIC) {
            (true, _) if self.greetings == 0 => return Err(FrameError::OutOfTurn),
            (_, true) if self.greetings > 0 => return Err(FrameError::OutOfTurn),
            (false, false) => return Err(FrameError::NotAHub),
            _ => {}
        }
        if bytes.len() < BLOCK_HEADER {
            return Ok(None);
        }
        if self.greetings == 0 {
            let length = BLOCK_HEADER.saturating_add(word(bytes, 20) as usize);
            return if length <= self.longest { Ok(Some(length)) } else { Err(FrameError::Length(length)) };
        }
        if bytes[2] != VERSION {
            return Err(FrameError::Version(bytes[2]));
        }
        let length = word(bytes, 4) as usize;
        if (GREETING_HEADER..=GREETING_MAX).contains(&length) {
            Ok(Some(length))
        } else {
            Err(FrameError::Length(length))
        }
    }
}

// Both headers have the same length, so that one rule tells when a frame's length is known.
const _: () = assert!(GREETING_HEADER == BLOCK_HEADER);

#[cfg(test)]
mod tests {
    use super::*;
    use hub::stream::{BlockWriter, Event, Request};

    fn hello() -> Hello {
        let (hub, name) = ("quoteway".into(), "p2ps at host:14002".into());
        Hello { incarnation: 7, data: true, unpaced: false, copy: false, hub, name, nonce: None }
    }

    #[test]
    fn both_sides_prove_that_they_have_the_key() {
        let (key, other) = (Key::new(&[1; 32]).expect("a key"), Key::new(&[2; 32]).expect("a key"));
        let hello = Hello { nonce: Some([3; 32]), copy: true, ..hello() };
        let (mut bytes, nonce) = (Vec::new(), [4; 32]);
        hello.write(&mut bytes);
        assert_eq!(Hello::read(&bytes), Ok(hello.clone()));
        bytes.clear();
        Challenge::new(&key, &hello, nonce).write(&mut bytes);
        let challenge = Challenge::read(&bytes).expect("a challenge");
        assert!(challenge.is_genuine(&key, &hello) && !challenge.is_genuine(&other, &hello));
        // Made for another connection.
        assert!(!challenge.is_genuine(&key, &Hello { nonce: Some([5; 32]), ..hello.clone() }));
        assert!(Proof::read(&bytes).is_none());
        bytes.clear();
        Proof::new(&key, &hello, &nonce).write(&mut bytes);
        let proof = Proof::read(&bytes).expect("a proof");
        assert!(proof.is_genuine(&key, &hello, &nonce) && !proof.is_genuine(&key, &hello, &[6; 32]));
        assert!(Challenge::read(&bytes).is_none());
        // Neither's signature does for the other's.
        assert_ne!(proof.signature, challenge.signature);
    }

    /// Frames as owned bytes, read in pieces of `size`.
    fn cut(bytes: &[u8], size: usize) -> Result<Vec<(bool, Vec<u8>)>, FrameError> {
        let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
        for piece in bytes.chunks(size) {
            reader.read::<FrameError>(piece, |frame| {
                frames.push(match frame {
                    Frame::Greeting(bytes) => (true, bytes.to_vec()),
                    Frame::Block(bytes) => (false, bytes.to_vec()),
                });
                Ok(())
            })?;
        }
        Ok(frames)
    }

    #[test]
    fn greetings_read_back_as_written() {
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        assert_eq!(Hello::read(&bytes), Ok(hello()));
        for welcome in [
            Welcome::Joined { incarnation: 9, number: 63, position: 1 << 40 },
            Welcome::Refused("the hub is called other".into()),
        ] {
            let mut bytes = Vec::new();
            welcome.write(&mut bytes);
            assert_eq!(Welcome::read(&bytes), Ok(welcome));
        }
    }

    #[test]
    fn a_stream_is_cut_into_the_same_frames_however_it_comes() {
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        let greeting = bytes.len();
        let mut writer = BlockWriter::new(7);
        for handle in 0..5 {
            writer.event(&Event::Heartbeat { announcement: b"" });
            writer.update(handle, false, &[handle as u8; 300]);
            bytes.extend_from_slice(writer.block().expect("a block"));
            writer.clear();
        }
        writer.request(&Request::Bye);
        bytes.extend_from_slice(writer.block().expect("a block"));
        let whole = cut(&bytes, bytes.len()).expect("right");
        assert_eq!(whole.len(), 7);
        assert_eq!(whole[0], (true, bytes[..greeting].to_vec()));
        assert_eq!(whole.iter().map(|f| f.1.len()).sum::<usize>(), bytes.len());
        for size in [1, 2, 23, 24, 25, 317, 318, 400] {
            assert_eq!(cut(&bytes, size).expect("right"), whole, "pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_hub_is_refused_before_anything_is_kept() {
        assert_eq!(cut(b"GET / HTTP/1.1\r\n\r\n", 5), Err(FrameError::NotAHub));
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        bytes[2] = 9;
        assert_eq!(cut(&bytes, 100), Err(FrameError::Version(9)));
        bytes[2] = VERSION;
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(cut(&bytes, 100), Err(FrameError::Length(u32::MAX as usize)));
        bytes.clear();
        hello().write(&mut bytes);
        hello().write(&mut bytes);
        assert_eq!(cut(&bytes, 100), Err(FrameError::OutOfTurn));
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        let mut writer = BlockWriter::new(1);
        writer.event(&Event::Heartbeat { announcement: b"" });
        let mut block = writer.block().expect("a block").to_vec();
        block[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes.extend_from_slice(&block);
        assert!(matches!(cut(&bytes, 1000), Err(FrameError::Length(_))));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut bytes = Vec::new();
        Hello { name: "ä".repeat(200), ..hello() }.write(&mut bytes);
        assert_eq!(Hello::read(&bytes).expect("readable").name, "ä".repeat(125));
    }
}
