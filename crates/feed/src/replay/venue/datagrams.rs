//! UDP datagrams of a capture, fragments put together.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use capture::ip::{self, Ip};
use capture::{Fragments, LeftOut, Reader};

/// A datagram whose payload is in [`Datagrams::payload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    /// Nanoseconds since 1970.
    pub at: u64,
    /// To which group and port it was sent: what tells lines apart.
    pub destination: SocketAddr,
    /// Bytes of it that were sent and not captured.
    pub missing: usize,
}

/// A capture as a series of datagrams.
pub(super) struct Datagrams {
    reader: Reader<File>,
    fragments: Fragments,
    payload: Vec<u8>,
    trouble: Option<String>,
}

impl Datagrams {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let reader = Reader::new(File::open(path)?)?;
        Ok(Self { reader, fragments: Fragments::default(), payload: Vec::new(), trouble: None })
    }

    /// The next datagram; `None` at the end, or where the file cannot be read on.
    pub(super) fn next(&mut self) -> Option<Datagram> {
        loop {
            let frame = match self.reader.next_frame() {
                Ok(frame) => frame?,
                Err(error) => {
                    self.trouble = Some(error.to_string());
                    return None;
                }
            };
            let at = frame.nanos;
            let whole;
            let mut packet = ip::of_frame(&frame);
            if let Some(part) = packet.filter(Ip::is_fragment) {
                let Some(payload) = self.fragments.add(&part) else { continue };
                whole = payload;
                packet = Some(Ip { offset: 0, more: false, payload: &whole, ..part });
            }
            let Some(datagram) = packet.and_then(|packet| packet.udp()) else { continue };
            self.payload.clear();
            self.payload.extend_from_slice(datagram.payload);
            return Some(Datagram { at, destination: datagram.destination, missing: datagram.missing });
        }
    }

    pub(super) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// What is wrong with the file, as far as it has been read; that frames of any protocol are short is not.
    pub(super) fn trouble(&self) -> Option<String> {
        let left_out = LeftOut { short_frames: 0, ..self.reader.left_out() };
        self.trouble.clone().or_else(|| (!left_out.is_whole_file()).then(|| left_out.to_string()))
    }

    /// The file ends within a packet: nobody knows what followed.
    pub(super) fn is_cut(&self) -> bool {
        self.reader.left_out().is_cut
    }
}
