//! Captures as they are written: into memory, which the caller puts where they belong.

/// A pcap file with times in nanoseconds, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct Pcap;

/// Of the file's head: frames up to this length are there whole.
const SNAP_LENGTH: u32 = 262_144;

impl Pcap {
    /// Bytes before the frames.
    pub const HEAD: usize = 24;
    /// Bytes before each frame.
    pub const FRAME_HEAD: usize = 16;

    /// Appends the head of a file whose frames are of a [link type](crate::link).
    pub fn begin(link: u32, out: &mut Vec<u8>) -> Self {
        for word in [0xA1B2_3C4D, 2 | 4 << 16, 0, 0, SNAP_LENGTH, link] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        Self
    }

    /// Appends a frame: when it was captured in nanoseconds since 1970, what was captured of it, and its length on the wire.
    pub fn frame(self, nanos: u64, captured: &[u8], length: usize, out: &mut Vec<u8>) {
        self.frame_head(nanos, captured.len(), length, out);
        out.extend_from_slice(captured);
    }

    /// Appends what stands before a frame, of which the caller appends `captured` bytes.
    pub fn frame_head(self, nanos: u64, captured: usize, length: usize, out: &mut Vec<u8>) {
        let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        for word in [seconds as u32, rest as u32, captured as u32, length as u32] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// A section of a pcapng file with times in nanoseconds, little-endian. Sections may follow each other in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct PcapNg {
    interfaces: u32,
}

impl PcapNg {
    /// Appends the head of a section.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        let mut body = 0x1A2B_3C4Du32.to_le_bytes().to_vec();
        body.extend_from_slice(&[1, 0, 0, 0]);
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        block(0x0A0D_0D0A, &body, out);
        Self::default()
    }

    /// Appends an interface whose frames are of a [link type](crate::link), and gives its number.
    pub fn interface(&mut self, link: u32, out: &mut Vec<u8>) -> u32 {
        let mut body = (link as u16).to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&SNAP_LENGTH.to_le_bytes());
        // Option 9: times count units of 10^-9 s; option 0 ends the list.
        body.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(1, &body, out);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Appends a frame of an interface: when it was captured in nanoseconds since 1970, what was captured, its length on the wire.
    pub fn frame(self, interface: u32, nanos: u64, captured: &[u8], length: usize, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(24 + captured.len());
        for word in [interface, (nanos >> 32) as u32, nanos as u32, captured.len() as u32, length as u32] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(captured);
        block(6, &body, out);
    }
}

fn block(kind: u32, body: &[u8], out: &mut Vec<u8>) {
    let padded = body.len().next_multiple_of(4);
    let total = (padded as u32 + 12).to_le_bytes();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&total);
    out.extend_from_slice(body);
    out.resize(out.len() + padded - body.len(), 0);
    out.extend_from_slice(&total);
}
