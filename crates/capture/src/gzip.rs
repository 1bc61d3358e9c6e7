//! Gzip files read to their end: all members (RFC 1952, 2.2), and what follows the last one.
//!
//! Programs that rotate and append write files of several members; a reader of the first alone loses the rest without a word.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// How a gzip file begins.
pub const MAGIC: [u8; 2] = [0x1F, 0x8B];

/// How a gzip file ended. Zeros behind the last member fill a block of a tape or disk and are no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// As it should; also while it is still being read.
    #[default]
    Whole,
    /// Within a member: its writer was stopped, or still writes.
    Cut,
    /// So many bytes behind the last member are no gzip.
    Garbage(u64),
}

/// The content of a gzip file. A file that is cut short gives what was before the cut; [`Self::ending`] tells.
#[derive(Debug)]
pub struct Gunzip<R> {
    state: State<R>,
    members: u64,
    ending: Ending,
}

#[derive(Debug)]
enum State<R> {
    Member(Box<GzDecoder<R>>),
    Between(R),
    Ended,
}

impl<R: BufRead> Gunzip<R> {
    /// The content of what a reader holds, which begins with [`MAGIC`].
    pub fn new(input: R) -> Self {
        Self { state: State::Member(Box::new(GzDecoder::new(input))), members: 0, ending: Ending::Whole }
    }

    /// How it ended, once it has given all.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Passes over zeros behind a member; what follows is another member, or nothing, or garbage.
    fn between(&mut self, mut input: R) -> io::Result<()> {
        loop {
            let bytes = input.fill_buf()?;
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            let (is_empty, next) = (bytes.is_empty(), bytes.get(zeros).copied());
            if is_empty {
                return Ok(());
            }
            input.consume(zeros);
            match next {
                None => {}
                Some(byte) if byte == MAGIC[0] => {
                    self.state = State::Member(Box::new(GzDecoder::new(input)));
                    return Ok(());
                }
                Some(_) => {
                    self.ending = Ending::Garbage(io::copy(&mut input, &mut io::sink())?);
                    return Ok(());
                }
            }
        }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !out.is_empty() {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => break,
                State::Between(input) => self.between(input)?,
                State::Member(mut member) => match member.read(out) {
                    Ok(0) => {
                        self.members += 1;
                        self.state = State::Between(member.into_inner());
                    }
                    Ok(count) => {
                        self.state = State::Member(member);
                        return Ok(count);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                        self.state = State::Member(member);
                        return Err(e);
                    }
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => self.ending = Ending::Cut,
                    // Garbage that begins with the first byte of gzip's two.
                    Err(_) if self.members > 0 && member.header().is_none() => {
                        let rest = io::copy(&mut member.into_inner(), &mut io::sink())?;
                        self.ending = Ending::Garbage(rest + 1);
                    }
                    Err(e) => return Err(e),
                },
            }
        }
        Ok(0)
    }
}

/// All that is in a gzip file.
///
/// # Errors
/// It is damaged, cut off, or followed by what is no gzip.
pub fn whole(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let (mut unpacked, mut content) = (Gunzip::new(bytes), Vec::new());
    unpacked.read_to_end(&mut content)?;
    match unpacked.ending() {
        Ending::Whole => Ok(content),
        Ending::Cut => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gzip data is cut off at its end")),
        Ending::Garbage(bytes) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, format!("{bytes} bytes behind the gzip data are no gzip")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use std::io::Write as _;

    fn member(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> (io::Result<usize>, Vec<u8>, Ending) {
        let (mut gunzip, mut content) = (Gunzip::new(bytes), Vec::new());
        let result = gunzip.read_to_end(&mut content);
        (result, content, gunzip.ending())
    }

    #[test]
    fn every_member_is_read_and_what_is_behind_the_last_is_told() {
        let two = [member(b"one "), member(b""), member(b"two")].concat();
        for (tail, ending) in [
            (&b""[..], Ending::Whole),
            (&[0; 600], Ending::Whole),
            (b"garbage", Ending::Garbage(7)),
            (&[0, 0, b'x'], Ending::Garbage(1)),
            (&[0x1F], Ending::Cut),
            (&[0x1F, 0x8B, 8, 0], Ending::Cut),
        ] {
            let (result, content, found) = read(&[&two, tail].concat());
            assert_eq!((result.unwrap(), content.as_slice(), found), (7, &b"one two"[..], ending), "{tail:?}");
        }
        let (result, content, ending) = read(&[&two[..], b"\x1Fbut no gzip, by its second byte"].concat());
        assert!(result.is_ok() && content == b"one two" && matches!(ending, Ending::Garbage(_)), "{ending:?}");
        let padded = [member(b"one "), vec![0; 100], member(b"two")].concat();
        assert_eq!(read(&padded).1, b"one two");
    }

    #[test]
    fn a_cut_gives_what_was_before_it_and_damage_is_an_error() {
        let noise: Vec<u8> = (0..60_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let whole = member(&noise);
        for length in [whole.len() / 2, whole.len() - 1, whole.len() - 8] {
            let (result, content, ending) = read(&whole[..length]);
            assert!(result.is_ok() && noise.starts_with(&content) && content.len() > noise.len() / 3, "{length}");
            assert_eq!(ending, Ending::Cut);
        }
        let mut damaged = whole.clone();
        let at = damaged.len() - 6;
        damaged[at] ^= 1;
        assert!(read(&damaged).0.is_err(), "the checksum of the content");
        assert!(read(b"\x1F\x8B\x00\x00").0.is_err() || read(b"\x1F\x8B\x00\x00").2 == Ending::Cut);
    }
}
