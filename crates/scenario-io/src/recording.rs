//! Bytes that passed between server and client, as a packet capture: `quoteway dump` and Wireshark read it.
//!
//! The bytes are those of the connections; the packets around them are made here. A recording of the recording store has no place for what
//! consumers send (`docs/decisions/0019-scenarios.md`).

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use capture::link;
use capture::write::Pcap;
use net::tcp::ConnId;

/// Bytes of a recording at most; what comes later is left out, and said.
const BYTES_MAX: usize = 256 << 20;
/// Bytes of a packet's content.
const PACKET: usize = 16 << 10;

/// A recording, kept in memory until the run has ended; nothing where none is wanted.
pub struct Recording {
    path: Option<PathBuf>,
    pcap: Option<Pcap>,
    bytes: Vec<u8>,
    server_port: u16,
    wall_ns: u64,
    /// Port of the client and the sequence numbers of both directions, by connection.
    flows: BTreeMap<(usize, u32), Flow>,
    is_cut: bool,
    /// The process under test is what was connected to.
    is_dialled: bool,
}

struct Flow {
    port: u16,
    of_client: u32,
    of_server: u32,
}

/// Ports of clients in recordings: a number for each connection, from here on.
const FIRST_PORT: u16 = 40_000;
const SYN: u8 = 0x02;
const PUSH_ACK: u8 = 0x18;

impl Recording {
    /// A recording of a scenario in this folder; `None` for none. `wall_ns` is the wall clock at time 0, nanoseconds since 1970.
    /// `is_dialled`: the process under test is the server.
    pub fn new(folder: Option<&Path>, scenario: &str, server: SocketAddr, wall_ns: u64, is_dialled: bool) -> Self {
        let mut bytes = Vec::new();
        let path = folder.map(|folder| folder.join(format!("{scenario}.pcap")));
        let pcap = path.is_some().then(|| Pcap::begin(link::RAW, &mut bytes));
        Self {
            path,
            pcap,
            bytes,
            server_port: server.port(),
            wall_ns,
            flows: BTreeMap::new(),
            is_cut: false,
            is_dialled,
        }
    }

    /// Bytes passed on a connection; `is_tested`: they are those of the process under test.
    pub fn passed(&mut self, now: u64, conn: ConnId, is_tested: bool, bytes: &[u8]) {
        let from_client = is_tested != self.is_dialled;
        if self.pcap.is_none() {
            return;
        }
        if self.bytes.len() > BYTES_MAX {
            self.is_cut = true;
            return;
        }
        let key = (conn.slot(), conn.generation());
        if !self.flows.contains_key(&key) {
            let port = FIRST_PORT + (self.flows.len() % 20_000) as u16;
            self.flows.insert(key, Flow { port, of_client: 1, of_server: 1 });
            self.packet(now, key, true, SYN, &[]);
            self.packet(now, key, false, SYN, &[]);
        }
        for part in bytes.chunks(PACKET) {
            self.packet(now, key, from_client, PUSH_ACK, part);
        }
    }

    fn packet(&mut self, now: u64, key: (usize, u32), from_client: bool, flags: u8, content: &[u8]) {
        let (Some(pcap), Some(flow)) = (self.pcap, self.flows.get_mut(&key)) else { return };
        let (source, target) = if from_client { (flow.port, self.server_port) } else { (self.server_port, flow.port) };
        let (seq, ack) = if from_client { (flow.of_client, flow.of_server) } else { (flow.of_server, flow.of_client) };
        // A SYN counts for one: it is one before the first byte.
        let seq = if flags == SYN { seq - 1 } else { seq };
        let mut packet = Vec::with_capacity(40 + content.len());
        packet.extend([0x45, 0]);
        packet.extend((40 + content.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend(source.to_be_bytes());
        packet.extend(target.to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(if flags == SYN { 0 } else { ack }.to_be_bytes());
        packet.extend([0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.extend(content);
        pcap.frame(self.wall_ns + now, &packet, packet.len(), &mut self.bytes);
        let moved = if from_client { &mut flow.of_client } else { &mut flow.of_server };
        *moved = moved.wrapping_add(content.len() as u32);
    }

    /// Writes the file. Gives its path, with a remark if it does not have all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self) -> io::Result<Option<String>> {
        let Some(path) = self.path.take() else { return Ok(None) };
        net::output::write(&path, &self.bytes)?;
        let remark = if self.is_cut { " (only its beginning: the run was larger than 256 MB)" } else { "" };
        Ok(Some(format!("{}{remark}", path.display())))
    }
}
