//! The character sets of RMTES.
//!
//! The two-byte sets are tables of 94 rows of 94 big-endian 16-bit code points, 0 where nothing is assigned:
//! JIS X 0208-1990, and planes 1 and 2 of CNS 11643-1986.

/// A set of graphic characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Charset {
    /// ASCII.
    Basic1,
    /// The upper half of Latin 1 with some changes, among them price fractions, and signs of two characters.
    Basic2,
    /// JIS X 0201, Latin: ASCII with yen sign and overline.
    JapaneseLatin,
    /// JIS X 0201, half-width katakana.
    Katakana,
    /// JIS X 0208.
    Kanji,
    /// CNS 11643, plane 1.
    Chinese1,
    /// CNS 11643, plane 2.
    Chinese2,
}

static KANJI: &[u8; 17_672] = include_bytes!("jisx0208.bin");
static CHINESE_1: &[u8; 17_672] = include_bytes!("cns11643_1.bin");
static CHINESE_2: &[u8; 17_672] = include_bytes!("cns11643_2.bin");

impl Charset {
    /// The set that `ESC $ g set` designates to G0 to G3 (`g` is `(` to `+`).
    pub(super) const fn of_two_bytes(g: u8, set: u8) -> Option<Self> {
        Some(match (g, set) {
            (_, b'G') | (b'*', b'5') => Self::Chinese1,
            (_, b'H') | (b'+', b'6') => Self::Chinese2,
            (b'+', b'4') => Self::Kanji,
            _ => return None,
        })
    }

    /// The set that `ESC g set` designates to G0 to G3 (`g` is `(` to `+`).
    pub(super) const fn of_one_byte(g: u8, set: u8) -> Option<Self> {
        Some(match (g, set) {
            (b'(' | b')', b'B') => Self::Basic1,
            (b')', b'1') => Self::Basic2,
            (b'(' | b')', b'I') | (b'*', b'2') => Self::Katakana,
            (b'(' | b')', b'J') | (b'+', b'3') => Self::JapaneseLatin,
            _ => return None,
        })
    }

    /// Appends the character of `code` (0x20 to 0x7F) and, in a two-byte set, of the byte that follows it, which must be of
    /// the same `half`. Gives the bytes used; 0 if there is no such character.
    pub(super) fn convert(self, code: u8, next: Option<u8>, half: u8, text: &mut String) -> usize {
        if !(0x21..=0x7E).contains(&code) {
            return 0;
        }
        let c = match self {
            Self::Basic1 => char::from(code),
            Self::Basic2 => match basic2(code) {
                (c, None) => c,
                (c, Some(second)) => {
                    text.push(c);
                    second
                }
            },
            Self::JapaneseLatin => match code {
                0x5C => '\u{A5}',
                0x7E => '\u{203E}',
                _ => char::from(code),
            },
            Self::Katakana => match char::from_u32(0xFF61 + u32::from(code - 0x21)) {
                Some(c) if c <= '\u{FF9F}' => c,
                _ => return 0,
            },
            Self::Kanji => return two_bytes(KANJI, code, next, half, text),
            Self::Chinese1 => return two_bytes(CHINESE_1, code, next, half, text),
            Self::Chinese2 => return two_bytes(CHINESE_2, code, next, half, text),
        };
        text.push(c);
        1
    }
}

/// A character of the second basic set, as it lies in the upper half; some signs are a low line and a letter.
fn basic2(code: u8) -> (char, Option<char>) {
    let c = match code | 0x80 {
        0xA4 => return ('_', Some('r')),
        0xA6 => return ('_', Some('w')),
        0xB4 => return ('_', Some('t')),
        0xD0 => return ('_', Some('p')),
        0xF0 => return ('_', Some('u')),
        0xA8 => '\u{A4}',
        eighths @ 0xAC..=0xAF => return (['⅛', '⅜', '⅝', '⅞'][usize::from(eighths - 0xAC)], None),
        0xB8 => '\u{2407}',
        0xD7 => '\u{152}',
        0xDD => '\u{178}',
        0xDE => '\u{21E7}',
        0xF7 => '\u{153}',
        0xFD => '\u{FF}',
        0xFE => '\u{21E9}',
        latin1 => char::from(latin1),
    };
    (c, None)
}

fn two_bytes(table: &[u8], row: u8, next: Option<u8>, half: u8, text: &mut String) -> usize {
    let Some(cell) = next.filter(|n| n & 0x80 == half).map(|n| n & 0x7F) else { return 0 };
    if !(0x21..=0x7E).contains(&cell) {
        return 0;
    }
    let at = (usize::from(row - 0x21) * 94 + usize::from(cell - 0x21)) * 2;
    let code = u32::from(u16::from_be_bytes([table[at], table[at + 1]]));
    // An unassigned position is a character all the same, only one that nobody knows.
    text.push(char::from_u32(code).filter(|c| *c != '\0').unwrap_or(char::REPLACEMENT_CHARACTER));
    2
}
