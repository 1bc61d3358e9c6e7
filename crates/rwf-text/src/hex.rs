use std::fmt;

/// Bytes in a line of a dump.
const WIDTH: usize = 16;

/// Bytes as a dump: offset, hexadecimal, ASCII; sixteen to a line.
pub fn hex_dump(bytes: &[u8]) -> HexDump<'_> {
    HexDump { bytes }
}

/// The dump of some bytes.
#[derive(Debug, Clone, Copy)]
pub struct HexDump<'a> {
    bytes: &'a [u8],
}

impl<'a> HexDump<'a> {
    /// The lines, without line feeds.
    pub fn lines(&self) -> impl Iterator<Item = impl fmt::Display + use<'a>> + use<'a> {
        self.bytes.chunks(WIDTH).enumerate().map(|(index, bytes)| Line { offset: index * WIDTH, bytes })
    }
}

impl fmt::Display for HexDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))
    }
}

struct Line<'a> {
    offset: usize,
    bytes: &'a [u8],
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}  ", self.offset)?;
        for index in 0..WIDTH {
            match self.bytes.get(index) {
                Some(byte) => write!(f, "{byte:02x} ")?,
                None => f.write_str("   ")?,
            }
            if index == WIDTH / 2 - 1 {
                f.write_str(" ")?;
            }
        }
        write!(f, " |{}|", Ascii(self.bytes))
    }
}

/// Bytes as they look on a terminal: ASCII, and a dot for everything else.
pub(super) struct Ascii<'a>(pub(super) &'a [u8]);

impl fmt::Display for Ascii<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        self.0
            .iter()
            .try_for_each(|&byte| f.write_char(if byte == b' ' || byte.is_ascii_graphic() { byte.into() } else { '.' }))
    }
}

/// Bytes in hexadecimal, separated by blanks.
pub(super) struct Hex<'a>(pub(super) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
