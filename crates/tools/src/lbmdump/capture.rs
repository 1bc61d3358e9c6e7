//! Frames out of capture files: pcap and pcapng, either byte order, gzipped or not, from a file or a pipe.

use anyhow::anyhow;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;

use flate2::read::MultiGzDecoder;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

/// The longest block of a file that is read; the longest frame that capture programs write by default is 256 KB.
const BLOCK_MAX: usize = 4 << 20;

/// A captured frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Place in the file, from 1.
    pub(super) number: u64,
    /// When it was captured, nanoseconds since 1970; 0 where the file does not say.
    pub(super) nanos: u64,
    /// How it begins.
    pub(super) link: Linktype,
    /// What was captured of it.
    pub(super) bytes: &'a [u8],
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// As it should.
    Whole,
    /// Within a frame: its writer was stopped, or still writes.
    Cut,
}

/// An interface of a pcapng section: how its frames begin and what their times count.
struct Interface {
    link: Linktype,
    per_second: u64,
    offset_s: i64,
}

/// Gives each frame to `each` until that breaks off.
///
/// # Errors
/// A text for the user: not a capture file, or damaged.
pub(super) fn read(input: impl Read + Send, each: impl FnMut(Frame<'_>) -> ControlFlow<()>) -> anyhow::Result<Ending> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let head = input.fill_buf().map_err(|e| anyhow!("cannot be read: {e}"))?;
    if head.starts_with(&[0x1F, 0x8B]) { unpacked(MultiGzDecoder::new(input), each) } else { unpacked(input, each) }
}

fn unpacked(input: impl Read + Send, mut each: impl FnMut(Frame<'_>) -> ControlFlow<()>) -> anyhow::Result<Ending> {
    let mut reader = create_reader(BLOCK_MAX, input).map_err(|e| match e {
        PcapError::Eof => anyhow!("is empty"),
        _ => anyhow!("is not a capture file (pcap or pcapng)"),
    })?;
    let (mut number, mut link, mut per_second) = (0, Linktype(-1), 1_000_000);
    let mut interfaces: Vec<Interface> = Vec::new();
    loop {
        let length = match reader.next() {
            Ok((length, block)) => {
                let frame = match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        // The upper half may tell of checksums behind the frames, which IP's length leaves out.
                        link = Linktype(header.network.0 & 0xFFFF);
                        per_second = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                        None
                    }
                    PcapBlockOwned::Legacy(b) => {
                        let nanos = u64::from(b.ts_sec) * 1_000_000_000
                            + u64::from(b.ts_usec).saturating_mul(1_000_000_000 / per_second);
                        Some((nanos, link, b.data.get(..b.caplen as usize).unwrap_or(b.data)))
                    }
                    PcapBlockOwned::NG(block) => of_block(&block, &mut interfaces),
                };
                if let Some((nanos, link, bytes)) = frame {
                    number += 1;
                    if each(Frame { number, nanos, link, bytes }).is_break() {
                        return Ok(Ending::Whole);
                    }
                }
                length
            }
            Err(PcapError::Eof) => return Ok(Ending::Whole),
            Err(PcapError::UnexpectedEof) => return Ok(Ending::Cut),
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() {
                    return Ok(Ending::Cut);
                }
                reader.refill().map_err(|_| anyhow!("cannot be read after frame {number}"))?;
                continue;
            }
            Err(PcapError::BufferTooSmall) => {
                return Err(anyhow!("has a block of more than {BLOCK_MAX} bytes after frame {number}"));
            }
            Err(_) => return Err(anyhow!("is damaged after frame {number}")),
        };
        reader.consume(length);
    }
}

/// The frame of a pcapng block, if it has one.
fn of_block<'a>(block: &Block<'a>, interfaces: &mut Vec<Interface>) -> Option<(u64, Linktype, &'a [u8])> {
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(i) => interfaces.push(Interface {
            link: i.linktype,
            per_second: resolution(i.if_tsresol),
            offset_s: i.if_tsoffset,
        }),
        Block::EnhancedPacket(b) => {
            let interface = interfaces.get(b.if_id as usize)?;
            let ticks = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
            let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(interface.per_second);
            let nanos = (nanos as i128).saturating_add(i128::from(interface.offset_s) * 1_000_000_000);
            let bytes = b.data.get(..b.caplen as usize).unwrap_or(b.data);
            return Some((u64::try_from(nanos).unwrap_or(0), interface.link, bytes));
        }
        Block::SimplePacket(b) => {
            let bytes = b.data.get(..b.origlen as usize).unwrap_or(b.data);
            return Some((0, interfaces.first()?.link, bytes));
        }
        _ => {}
    }
    None
}

/// Ticks a second of a pcapng time: a power of ten, or of two if the top bit is set. What cannot be is taken as the default.
fn resolution(code: u8) -> u64 {
    let exponent = u32::from(code & 0x7F);
    let ticks = if code & 0x80 == 0 { 10u64.checked_pow(exponent) } else { 2u64.checked_pow(exponent) };
    ticks.unwrap_or(1_000_000)
}
