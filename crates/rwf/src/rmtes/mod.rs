//! RMTES: the multi-lingual text of field values.
//!
//! RMTES is an ISO 2022 code: four sets G0 to G3, two of them invoked into the lower (GL) and upper (GR) half of the
//! byte, and escape sequences that change both. Most text is plain ASCII. `ESC % 0` switches to UTF-8 for the rest.
//!
//! A value can also be a partial update: `ESC [ n` and a grave accent moves to byte `n` of the value that the receiver
//! has cached, `ESC [ n b` repeats the byte before it `n` times. Such a value makes sense only when applied to the cached
//! one, see [`RmtesCache`].

mod charset;

use crate::DecodeError;
use charset::Charset;
use std::borrow::Cow;

const ESC: u8 = 0x1B;

/// Most bytes that a cached value can have; a position beyond it is an error, not a reason to allocate.
pub const MAX_LEN: usize = 0xFFFF;

/// True if the value is a partial update, or repeats bytes: only [`RmtesCache::apply`] makes sense of it. Either is written over the held value from
/// its first byte on, and what stands behind it stays.
pub fn is_partial(data: &[u8]) -> bool {
    let mut rest = data;
    while let Some(at) = rest.iter().position(|b| *b == ESC) {
        rest = match &rest[at + 1..] {
            [b'[', tail @ ..] => {
                let end = tail.iter().position(|b| !b.is_ascii_digit());
                return end.is_some_and(|end| is_edit(tail[end]));
            }
            // The byte after an escape belongs to it.
            [_, tail @ ..] => tail,
            [] => return false,
        };
    }
    false
}

/// Whether the last byte of a sequence makes it a movement or a repetition.
const fn is_edit(verb: u8) -> bool {
    matches!(verb, b'`' | b'b')
}

/// Text of a message, for those who get the message and not the value: as [`to_utf8`], but a partial update keeps its escape
/// sequences, so that nobody takes it for the value. lseg-data and EMA apply them to what they hold. [`RmtesCache::text`] has the whole new value
/// where the old one is held.
#[inline]
pub fn message_text(data: &[u8]) -> Cow<'_, str> {
    // Nearly all texts.
    plain(data).map_or_else(|| other_message_text(data), Cow::Borrowed)
}

#[inline(never)]
fn other_message_text(data: &[u8]) -> Cow<'_, str> {
    if !is_partial(data) {
        return to_utf8(data);
    }
    let mut text = String::with_capacity(data.len());
    convert(data, Edits::Kept, &mut text);
    Cow::Owned(text)
}

/// The text of a value in an image that clears what was held: a partial update changes nothing there, and what it leaves out is blank.
pub fn image_text(data: &[u8]) -> Cow<'_, str> {
    let mut cache = RmtesCache::new();
    if !is_partial(data) || cache.apply(data).is_err() {
        return to_utf8(data);
    }
    cache.bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    Cow::Owned(cache.text().into_owned())
}

/// The text of a value. What is no legal RMTES becomes U+FFFD; a partial update is shown as it would be on an empty
/// cache. Borrows for plain ASCII.
pub fn to_utf8(data: &[u8]) -> Cow<'_, str> {
    if let Some(text) = plain(data) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(data.len());
    if is_partial(data) {
        let mut cache = RmtesCache::new();
        if cache.apply(data).is_ok() {
            convert(cache.bytes(), Edits::PassedOver, &mut text);
            return Cow::Owned(text);
        }
    }
    convert(data, Edits::PassedOver, &mut text);
    Cow::Owned(text)
}

/// As [`to_utf8`], but for legal RMTES only.
///
/// # Errors
/// Truncated or invalid, with the offset of the sequence or byte that makes no sense (within the cached value for a
/// partial update).
pub fn decode(data: &[u8]) -> Result<Cow<'_, str>, DecodeError> {
    if let Some(text) = plain(data) {
        return Ok(Cow::Borrowed(text));
    }
    let mut text = String::with_capacity(data.len());
    let fault = if is_partial(data) {
        let mut cache = RmtesCache::new();
        cache.apply(data)?;
        convert(cache.bytes(), Edits::PassedOver, &mut text)
    } else {
        convert(data, Edits::PassedOver, &mut text)
    };
    match fault {
        None => Ok(Cow::Owned(text)),
        Some(offset) => Err(DecodeError::invalid("RMTES text", offset)),
    }
}

/// The text, if all bytes are printable ASCII.
fn plain(data: &[u8]) -> Option<&str> {
    if data.iter().all(|b| (0x20..0x7F).contains(b)) { std::str::from_utf8(data).ok() } else { None }
}

/// The cached value of a field that gets partial updates.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RmtesCache {
    bytes: Vec<u8>,
}

impl RmtesCache {
    /// An empty value.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// The value as RMTES bytes, without any partial updates in it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text of the value.
    pub fn text(&self) -> Cow<'_, str> {
        to_utf8(&self.bytes)
    }

    /// Replaces the value, or changes the parts of it that a partial update names. A position beyond the end of the value
    /// fills the gap with zero bytes, which have no text.
    ///
    /// # Errors
    /// Truncated in an escape sequence; invalid for an unknown one after `ESC [`, or for a position or repetition beyond
    /// [`MAX_LEN`]. The value is as before then.
    pub fn apply(&mut self, data: &[u8]) -> Result<(), DecodeError> {
        if !is_partial(data) {
            if data.len() > MAX_LEN {
                return Err(DecodeError::invalid("length of an RMTES value", MAX_LEN));
            }
            self.bytes.clear();
            self.bytes.extend_from_slice(data);
            return Ok(());
        }
        check_partial(data)?;
        let mut at = 0;
        let mut previous = 0;
        let mut rest = data;
        while let [byte, ref tail @ ..] = *rest {
            rest = tail;
            match command(byte, tail) {
                Some(Command { number, verb: b'`', len }) => {
                    at = number;
                    rest = &tail[len..];
                }
                Some(Command { number, len, .. }) => {
                    for _ in 0..number {
                        self.put(&mut at, previous);
                    }
                    rest = &tail[len..];
                }
                None => {
                    self.put(&mut at, byte);
                    previous = byte;
                    // The byte after an escape belongs to it and is never a command of its own.
                    if let (ESC, [next, tail @ ..]) = (byte, tail) {
                        self.put(&mut at, *next);
                        rest = tail;
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, at: &mut usize, byte: u8) {
        if *at >= self.bytes.len() {
            self.bytes.resize(*at + 1, 0);
        }
        self.bytes[*at] = byte;
        *at += 1;
    }
}

/// A cursor movement or repetition.
struct Command {
    number: usize,
    verb: u8,
    /// Bytes after the escape.
    len: usize,
}

/// The command that begins with `byte`, if it is one: `ESC [ digits` and a verb.
fn command(byte: u8, tail: &[u8]) -> Option<Command> {
    let (ESC, [b'[', digits @ ..]) = (byte, tail) else { return None };
    let count = digits.iter().position(|b| !b.is_ascii_digit())?;
    let number =
        digits[..count].iter().fold(0, |n: usize, d| n.saturating_mul(10).saturating_add(usize::from(d - b'0')));
    Some(Command { number, verb: digits[count], len: count + 2 })
}

/// Checks a partial update before anything of it is applied: escapes complete, commands known, nothing beyond the limit.
fn check_partial(data: &[u8]) -> Result<(), DecodeError> {
    let mut at = 0usize;
    let mut i = 0;
    while let Some(&byte) = data.get(i) {
        let tail = &data[i + 1..];
        match (byte, tail) {
            (ESC, []) => return Err(DecodeError::truncated("RMTES escape", i)),
            (ESC, [b'[', ..]) => {
                let command = command(byte, tail).ok_or(DecodeError::truncated("RMTES escape", i))?;
                at = match command.verb {
                    b'`' => command.number,
                    b'b' => at.saturating_add(command.number),
                    _ => return Err(DecodeError::invalid("RMTES command", i)),
                };
                i += 1 + command.len;
            }
            (ESC, _) => {
                at += 2;
                i += 2;
            }
            _ => {
                at += 1;
                i += 1;
            }
        }
        if at > MAX_LEN {
            return Err(DecodeError::invalid("position in an RMTES value", i));
        }
    }
    Ok(())
}

/// The four sets and where they are invoked.
struct Sets {
    g: [Charset; 4],
    lower: usize,
    upper: usize,
    /// A set that holds for one character alone.
    single_shift: Option<usize>,
}

impl Sets {
    const INITIAL: Self = Self {
        g: [Charset::Basic1, Charset::Basic2, Charset::Katakana, Charset::Kanji],
        lower: 0,
        upper: 1,
        single_shift: None,
    };
}

/// What an escape sequence does.
#[derive(Clone, Copy)]
enum Escape {
    Designate(usize, Charset),
    LockLower(usize),
    LockUpper(usize),
    Utf8,
    /// Control sets, of which there is only one each, and sequences without meaning for text.
    Nothing,
}

/// The escape sequence after `ESC`, and its length.
fn escape(tail: &[u8]) -> Option<(Escape, usize)> {
    use Escape::{Designate, LockLower, LockUpper, Nothing, Utf8};
    Some(match *tail {
        [b'!', b'@', ..] | [b'"', b'0', ..] => (Nothing, 2),
        [b'n', ..] => (LockLower(2), 1),
        [b'o', ..] => (LockLower(3), 1),
        [b'~', ..] => (LockUpper(1), 1),
        [b'}', ..] => (LockUpper(2), 1),
        [b'|', ..] => (LockUpper(3), 1),
        [b'%', b'0', ..] => (Utf8, 2),
        [b'$', g @ b'('..=b'+', set, ..] => (Designate((g - b'(') as usize, Charset::of_two_bytes(g, set)?), 3),
        [b'&', b'@', ESC, b'$', b'B', ..] => (Designate(0, Charset::Kanji), 5),
        [b'&', b'@', ESC, b'$', g @ b')'..=b'+', b'B', ..] => (Designate((g - b'(') as usize, Charset::Kanji), 6),
        [g @ b'('..=b'+', set, ..] => (Designate((g - b'(') as usize, Charset::of_one_byte(g, set)?), 2),
        [b'[', ref digits @ ..] => (Nothing, digits.iter().position(|b| !b.is_ascii_digit())? + 2),
        _ => return None,
    })
}

/// Fate of movements and repetitions in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edits {
    /// Movements have no text.
    PassedOver,
    /// Movements stand there as they are; sets and UTF-8 go on behind them.
    Kept,
}

impl Edits {
    /// The sequence of so many bytes after the escape at the beginning of some bytes, if it is one and is kept.
    fn kept(self, data: &[u8], len: usize) -> Option<&str> {
        let sequence = data.get(..=len)?;
        let is_kept = self == Self::Kept && sequence.get(1) == Some(&b'[') && is_edit(*sequence.last()?);
        if is_kept { str::from_utf8(sequence).ok() } else { None }
    }
}

/// Appends the text of a value. Gives the offset of the first byte that makes no sense; U+FFFD stands for each of those.
fn convert(data: &[u8], edits: Edits, text: &mut String) -> Option<usize> {
    let mut fault = None;
    let mut sets = Sets::INITIAL;
    let mut i = 0;
    while let Some(&byte) = data.get(i) {
        let tail = &data[i + 1..];
        let legal = match byte {
            0x00 => true,
            0x0E => {
                sets.lower = 1;
                true
            }
            0x0F => {
                sets.lower = 0;
                true
            }
            // The end of the text, whatever follows.
            0x1C => return fault,
            ESC => match escape(tail) {
                Some((Escape::Utf8, len)) => return fault.or(utf8(data, i + 1 + len, edits, text)),
                Some((what, len)) => {
                    text.push_str(edits.kept(&data[i..], len).unwrap_or_default());
                    i += len;
                    sets.apply(what);
                    true
                }
                None => false,
            },
            0x8E | 0x8F => sets.single_shift.replace(usize::from(byte - 0x8C)).is_none(),
            0x01..=0x20 => {
                text.push(char::from(byte));
                sets.single_shift.take().is_none()
            }
            0x80..=0x9F => false,
            _ => {
                let (set, code) = sets.select(byte);
                let used = set.convert(code, tail.first().copied(), byte & 0x80, text);
                i += used.saturating_sub(1);
                used > 0
            }
        };
        if !legal {
            text.push(char::REPLACEMENT_CHARACTER);
            fault = fault.or(Some(i));
        }
        i += 1;
    }
    match sets.single_shift {
        Some(_) => fault.or(Some(data.len())),
        None => fault,
    }
}

impl Sets {
    fn apply(&mut self, what: Escape) {
        match what {
            Escape::Designate(g, set) => self.g[g] = set,
            Escape::LockLower(g) => self.lower = g,
            Escape::LockUpper(g) => self.upper = g,
            Escape::Utf8 | Escape::Nothing => {}
        }
    }

    /// The set for a graphic byte, and the byte's code in the set: 0x20 to 0x7F.
    fn select(&mut self, byte: u8) -> (Charset, u8) {
        let invoked = if byte < 0x80 { self.single_shift.take().unwrap_or(self.lower) } else { self.upper };
        (self.g[invoked], byte & 0x7F)
    }
}

/// Appends the rest of a value in UTF-8, without zero bytes and escape sequences but those that are kept.
fn utf8(data: &[u8], start: usize, edits: Edits, text: &mut String) -> Option<usize> {
    let mut fault = None;
    let mut i = start;
    while i < data.len() {
        let run = data[i..].iter().position(|b| matches!(*b, 0 | ESC)).unwrap_or(data.len() - i);
        for chunk in data[i..i + run].utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
                fault = fault.or(Some(i));
            }
        }
        i += run;
        match data.get(i) {
            Some(&ESC) => {
                let len = escape(&data[i + 1..]).map_or(0, |(_, len)| len);
                text.push_str(edits.kept(&data[i..], len).unwrap_or_default());
                i += 1 + len;
            }
            Some(_) => i += 1,
            None => {}
        }
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kanji_by_each_way_in() {
        // 東 is 0x456C, 京 is 0x357E in JIS X 0208.
        let ways: &[&[u8]] = &[
            b"\x1B&@\x1B$B\x45\x6C\x35\x7E\x1B(B",
            b"\x1Bo\x45\x6C\x35\x7E",
            b"\x1B|\xC5\xEC\xB5\xFE",
            b"\x8F\x45\x6C\x8F\x35\x7E",
            b"\x1B&@\x1B$)B\x0E\x45\x6C\x35\x7E\x0F",
        ];
        for way in ways {
            assert_eq!(decode(way).unwrap(), "東京", "{way:x?}");
        }
    }

    #[test]
    fn chinese_planes_and_katakana() {
        // 一 is 0x4421 in plane 1 of CNS 11643, 乂 is 0x2121 in plane 2.
        assert_eq!(decode(b"\x1B$)G\xC4\xA1").unwrap(), "一");
        assert_eq!(decode(b"\x1B$)H\xA1\xA1").unwrap(), "乂");
        assert_eq!(decode(b"\x8E\x31\x8E\x32").unwrap(), "ｱｲ");
        assert_eq!(decode(b"\x1B(J\x5C100").unwrap(), "¥100");
    }

    #[test]
    fn what_makes_no_sense_is_replaced_and_reported() {
        assert_eq!(to_utf8(b"a\x1B"), "a\u{FFFD}");
        assert!(decode(b"a\x1B").is_err());
        assert_eq!(to_utf8(b"a\x7Fb\x9Fc"), "a\u{FFFD}b\u{FFFD}c");
        assert_eq!(to_utf8(b"\x1B%0\xFFok"), "\u{FFFD}ok");
        assert!(decode(b"\x8E").is_err());
        assert_eq!(to_utf8(b"ab\x1Ccd"), "ab");
    }

    #[test]
    fn partial_updates_keep_their_sequences_in_messages() {
        for (value, expected) in [
            (&b"\x1B[14`19-Nov-24"[..], "\x1B[14`19-Nov-24"),
            // A repetition is written over what is held, from byte 0 on.
            (b"-\x1B[4b+", "-\x1B[4b+"),
            // Sets and UTF-8 go on behind an edit, as in the SDK's converter.
            ("\x1B%0é\x1B[5`é".as_bytes(), "é\x1B[5`é"),
            ("\x1B[5`\x1B%0é\x1B[2b".as_bytes(), "\x1B[5`é\x1B[2b"),
            (b"\x1Bo\x45\x6C\x1B[9`\x35\x7E", "東\x1B[9`京"),
            (b"\xE9\x1B[3`\xE9", "é\x1B[3`é"),
        ] {
            assert_eq!(message_text(value), expected, "{}", value.escape_ascii());
        }
        assert_eq!(image_text(b"-\x1B[4b+"), "-----+");
        assert_eq!(image_text(b"\x1B[3`ab\x1B[0`c"), "c  ab");
        assert_eq!(image_text("\x1B%0é".as_bytes()), "é");
        // An escape takes the byte behind it.
        assert!(!is_partial(b"\x1B\x1B[3`") && !is_partial(b"\x1B[5m\x1B[3`") && is_partial(b"\x1Bn\x1B[3`"));
    }

    #[test]
    fn partial_updates_are_bounded_and_all_or_nothing() {
        let mut cache = RmtesCache::new();
        cache.apply(b"ABC").unwrap();
        for hostile in [&b"\x1B[99999999999999999999`x"[..], b"x\x1B[70000b", b"Z\x1B[1`y\x1B[5q", b"Z\x1B[1`\x1B"] {
            assert!(cache.apply(hostile).is_err());
            assert_eq!(cache.bytes(), b"ABC");
        }
        cache.apply(b"\x1B[5`Z").unwrap();
        assert_eq!(cache.bytes(), b"ABC\0\0Z");
        assert_eq!(cache.text(), "ABCZ");
    }
}
