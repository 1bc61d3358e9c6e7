//! The content of a file, plain or packed: gzip of any number of members, zstd of any number of frames, a zip of one file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use capture::gzip::{Ending, Gunzip, MAGIC};

use crate::replay::ticks::zipped;

/// First bytes of a zstd frame, and of one that is to be skipped.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const ZIP: &[u8] = b"PK\x03\x04";
const PIECE: usize = 256 * 1024;

/// A file that is read piece by piece; a packed one that is cut off gives what was before the cut.
pub(super) struct Bytes {
    input: Input,
    /// What is wrong with the file, once that is known.
    trouble: Option<String>,
}

enum Input {
    Plain(BufReader<File>),
    Gzip(Box<Gunzip<BufReader<File>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<File>>>),
    Zip(Box<dyn Read>),
}

impl Bytes {
    /// Opens a file; what it is packed by is told by its first bytes.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let head = head_of(File::open(path)?)?;
        let file = BufReader::with_capacity(PIECE, File::open(path)?);
        let input = if head.starts_with(&MAGIC) {
            Input::Gzip(Box::new(Gunzip::new(file)))
        } else if head.starts_with(&ZSTD) {
            Input::Zstd(Box::new(zstd::stream::read::Decoder::with_buffer(file)?))
        } else if head.starts_with(ZIP) {
            Input::Zip(zipped(path)?)
        } else {
            Input::Plain(file)
        };
        Ok(Self { input, trouble: None })
    }

    /// The next piece into `out`, which is overwritten; false at the end.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> bool {
        out.resize(PIECE, 0);
        let count = loop {
            let read = match &mut self.input {
                Input::Plain(input) => input.read(out),
                Input::Gzip(input) => input.read(out),
                Input::Zstd(input) => input.read(out),
                Input::Zip(input) => input.read(out),
            };
            match read {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
                    self.trouble =
                        Some(if is_cut { "the file is cut off at its end".to_owned() } else { error.to_string() });
                    break 0;
                }
            }
        };
        out.truncate(count);
        if let (0, Input::Gzip(input)) = (count, &self.input) {
            match input.ending() {
                Ending::Whole => {}
                Ending::Cut => self.trouble = Some("the file is cut off at its end".to_owned()),
                Ending::Garbage(bytes) => {
                    self.trouble =
                        Some(format!("{bytes} bytes behind the end of the gzip data are no gzip and were not read"));
                }
            }
        }
        count > 0
    }

    /// What is wrong with the file, as far as it has been read.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

fn head_of(mut file: File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.by_ref().take(4).read_to_end(&mut head)?;
    Ok(head)
}
