//! Captures that are built, and how stock Wireshark reads them: Debian package `tshark`; `QUOTEWAY_TSHARK` names another binary, or is `none`
//! where there is none.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The binary; `None`: there is to be none.
pub fn tshark() -> Option<String> {
    let binary = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    (binary != "none").then_some(binary)
}

/// A classic pcap file: each piece a TCP segment between two addresses. The end whose port is 0 has another one for each piece, so that each
/// is a connection of its own and nothing is out of order.
pub fn pcap(pieces: &[Vec<u8>], from: SocketAddrV4, to: SocketAddrV4) -> Vec<u8> {
    let mut out = 0xA1B2_C3D4u32.to_le_bytes().to_vec();
    out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0]);
    for (n, piece) in pieces.iter().enumerate() {
        let port = |of: SocketAddrV4| if of.port() == 0 { 20_000 + n as u16 } else { of.port() };
        let mut segment = [port(from).to_be_bytes(), port(to).to_be_bytes()].concat();
        segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xFF, 0xFF, 0, 0, 0, 0]);
        segment.extend_from_slice(piece);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend_from_slice(&(segment.len() as u16 + 20).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0x40, 0, 16, 6, 0, 0]);
        frame.extend_from_slice(&from.ip().octets());
        frame.extend_from_slice(&to.ip().octets());
        frame.extend_from_slice(&segment);
        for field in [1_700_000_000 + n as u32, 0, frame.len() as u32, frame.len() as u32] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&frame);
    }
    out
}

/// A capture in a file, and the arguments by which Wireshark reads it.
#[derive(Debug)]
pub struct Readable {
    binary: String,
    file: PathBuf,
    arguments: Vec<String>,
}

impl Readable {
    /// Of a binary and a file, to be read with these arguments (preferences, ports).
    pub fn new(binary: &str, file: &Path, arguments: &[String]) -> Self {
        Self { binary: binary.to_owned(), file: file.to_owned(), arguments: arguments.to_vec() }
    }

    /// The text that the binary prints with more arguments.
    ///
    /// # Panics
    /// The binary does not run, or fails.
    pub fn read(&self, more: &[&str]) -> String {
        let mut command = Command::new(&self.binary);
        command.arg("-r").arg(&self.file).args(&self.arguments).args(more);
        let output = command.output().expect("tshark runs (QUOTEWAY_TSHARK=none where there is none)");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The values of a field, a line for each message that has it.
    ///
    /// # Panics
    /// See [`Readable::read`].
    pub fn field(&self, name: &str) -> Vec<String> {
        self.read(&["-T", "fields", "-e", name, "-Y", name]).lines().map(str::to_owned).collect()
    }

    /// How many frames a filter lets pass.
    ///
    /// # Panics
    /// See [`Readable::read`].
    pub fn count(&self, filter: &str) -> usize {
        self.read(&["-Y", filter, "-T", "fields", "-e", "frame.number"]).lines().count()
    }

    /// Asserts that nothing of what a filter lets pass is an error to Wireshark's experts, or malformed. Without one, that nothing is.
    ///
    /// # Panics
    /// Something is.
    pub fn check(&self, filter: Option<&str>) {
        let (experts, malformed) = match filter {
            Some(filter) => (format!("expert,error,{filter}"), format!("({filter}) && _ws.malformed")),
            None => ("expert,error".to_owned(), "_ws.malformed".to_owned()),
        };
        let errors = self.read(&["-q", "-z", &experts]);
        assert!(!errors.contains("Errors"), "{errors}");
        assert_eq!(self.count(&malformed), 0, "malformed frames");
    }
}

/// Wireshark listening on loopback.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    seen: mpsc::Receiver<String>,
    file: Written,
    probe: UdpSocket,
    binary: String,
}

impl Listening {
    /// Listens for what a capture filter names, into a file beside those of other processes. `None`: there is no tshark, or this host does not
    /// let it capture, which is printed.
    ///
    /// # Panics
    /// The host has no socket for us.
    pub fn start(name: &str, filter: &str) -> Option<Self> {
        let started = tshark().and_then(|binary| Self::of(binary, name, filter));
        if started.is_none() {
            println!("not run: tshark is not there or may not capture on loopback");
        }
        started
    }

    fn of(binary: String, name: &str, filter: &str) -> Option<Self> {
        let file = Written(std::env::temp_dir().join(format!("{name}-{}.pcapng", std::process::id())));
        let probe = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        // The datagrams by which we know how far it is pass in any case.
        let port = probe.local_addr().expect("an address").port();
        let mut child = Command::new(&binary)
            .args(["-i", "lo", "-B", "64", "-P", "-l", "-f", &format!("({filter}) or udp port {port}"), "-w"])
            .arg(&file.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = BufReader::new(child.stdout.take()?);
        let (send, seen) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut listening = Self { child, seen, file, probe, binary };
        listening.mark("the test begins").then_some(listening)
    }

    /// Sends datagrams of a length of their own until tshark has seen one; so all before has been seen as well.
    fn mark(&mut self, text: &str) -> bool {
        let at = self.probe.local_addr().expect("an address");
        let (port, length) = (at.port().to_string(), format!("Len={}", text.len()));
        for _ in 0..1_000 {
            self.probe.send_to(text.as_bytes(), at).expect("sent");
            while let Ok(line) = self.seen.recv_timeout(Duration::from_millis(100)) {
                if line.contains(&port) && line.contains(&length) {
                    return true;
                }
            }
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
        }
        false
    }

    /// Ends in order, so that the file is whole; to be read with these arguments. The file is there as long as this is.
    ///
    /// # Panics
    /// Wireshark does not follow.
    pub fn stop(&mut self, arguments: &[String]) -> Readable {
        assert!(self.mark("the test has said everything"), "tshark follows");
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().expect("kill runs");
        self.child.wait().expect("tshark is over");
        Readable::new(&self.binary, self.file.path(), arguments)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file that is removed with this.
#[derive(Debug)]
pub struct Written(PathBuf);

impl Written {
    /// Writes a capture beside those of other processes.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let file = std::env::temp_dir().join(format!("{name}-{}.pcap", std::process::id()));
        std::fs::write(&file, bytes).expect("written");
        Self(file)
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_has_a_connection_of_its_own() {
        let (a, b) = (SocketAddrV4::new([10, 0, 0, 1].into(), 0), SocketAddrV4::new([10, 0, 0, 2].into(), 7));
        let file = pcap(&[vec![1; 3], vec![2; 4]], a, b);
        assert_eq!(file.len(), 24 + 2 * (16 + 14 + 20 + 20) + 7);
        let ports = |frame: usize| &file[frame + 16 + 34..frame + 16 + 38];
        assert_eq!(ports(24), [78, 32, 0, 7]);
        assert_eq!(ports(24 + 16 + 57), [78, 33, 0, 7]);
    }
}
