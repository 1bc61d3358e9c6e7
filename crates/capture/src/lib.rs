//! Packet captures: files of pcap and pcapng, and what IP packets are in them.
//!
//! * [`Reader`] takes bytes from any [`std::io::Read`] (a file, a pipe, memory), gzipped or not, and gives [`Frame`]s. What it could not
//!   give is in [`Reader::left_out`]: a file that ends within a frame, garbage behind gzip's members, frames of which the capture has a part.
//! * [`ip`] finds the IP packet in a frame, and UDP or TCP in that.
//! * [`Fragments`] puts IP fragments together, [`Order`] the segments of one direction of a TCP connection.
//! * [`write`](mod@write) makes captures.
//!
//! Files are named by nobody but the caller, and no socket, clock or thread is used. Bytes may be cut short or forged everywhere: what is not
//! understood is `None` or an error, and memory is bounded by constants, not by what a file says of itself.
//!
//! ```
//! let mut file = Vec::new();
//! let pcap = capture::write::Pcap::begin(capture::link::RAW, &mut file);
//! pcap.frame(1_700_000_000_000_000_000, &[0x45; 20], 20, &mut file);
//!
//! let mut reader = capture::Reader::new(&file[..])?;
//! let frame = reader.next_frame()?.expect("a frame");
//! assert_eq!((frame.number, frame.nanos, frame.bytes.len()), (1, 1_700_000_000_000_000_000, 20));
//! assert!(reader.next_frame()?.is_none() && reader.left_out().is_none());
//! # Ok::<(), capture::CaptureError>(())
//! ```
//!
//! Formats: the drafts of the IETF (`draft-ietf-opsawg-pcap`, `-pcapng`), tcpdump's registry of link types, RFC 1952 (gzip: a file is a
//! series of members), RFC 791, 8200, 768 and 9293.

#![forbid(unsafe_code)]

mod fragments;
pub mod gzip;
pub mod ip;
pub mod link;
mod reader;
mod tcp;
pub mod write;

pub use fragments::Fragments;
pub use reader::{CaptureError, Frame, LeftOut, Reader, is_capture};
pub use tcp::{Order, Piece};
