//! Stock Wireshark listens on loopback while a source, a store and receivers talk: no errors. Needs `tshark` (`QUOTEWAY_TSHARK` names another
//! binary, or is `none`) and the right to capture, as root has.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::processes::{Record, Role, StoreProcess, lines, with_stores};
use crate::roles;

/// A process that listens on loopback.
struct Capture {
    child: Child,
    seen: mpsc::Receiver<String>,
    folder: tempfile::TempDir,
    probe: UdpSocket,
}

impl Capture {
    /// `None` if this host does not let us.
    fn start(binary: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(binary)
            .args(["-i", "lo", "-B", "64", "-P", "-l", "-f", "udp or tcp", "-w"])
            .arg(folder.path().join("all.pcapng"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = BufReader::new(child.stdout.take()?);
        let (send, seen) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let probe = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut capture = Self { child, seen, folder, probe };
        capture.mark("the stores begin").then_some(capture)
    }

    /// Sends datagrams of a length of their own until tshark has seen one; so all before has been seen as well.
    fn mark(&mut self, text: &str) -> bool {
        let at = self.probe.local_addr().expect("an address");
        let (port, length) = (at.port().to_string(), format!("Len={}", text.len()));
        for _ in 0..200 {
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

    /// Ends in order, so that the file is whole.
    fn stop(&mut self) -> PathBuf {
        assert!(self.mark("the stores have said everything"), "tshark follows");
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().expect("kill runs");
        self.child.wait().expect("it is over");
        self.folder.path().join("all.pcapng")
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn wireshark_reads_what_passes_between_processes() {
    let binary = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    let Some(mut capture) = Some(&binary).filter(|b| *b != "none").and_then(|b| Capture::start(b)) else {
        println!("not run: tshark is not there or may not capture on loopback");
        return;
    };
    let lines = lines("lbtrm");
    let mut store = StoreProcess::start(&lines, true);
    let options = format!("{}source ume_confirmed_delivery_notification 1\n", with_stores(&lines, [&store]));
    let mut record = Record::default();
    let mut receiver = Role::start("receiver", &options, &[]);
    receiver.wait_for("ready", &mut record);
    let more = [(roles::LIFE, "1".to_owned()), (roles::COUNT, "300".to_owned())];
    let mut source = Role::start("source", &options, &more);
    source.wait_for("done", &mut record);
    record.wait_for_stable(&mut receiver);
    // A receiver that is new asks the store for everything.
    let another = format!("{options}receiver ume_session_id 3\n");
    receiver.kill(&mut record);
    record.begin_receiver();
    let mut second = Role::start("receiver", &another, &[]);
    let mut other = Record::default();
    other.stable.clone_from(&record.stable);
    other.wait_for_stable(&mut second);
    store.kill();
    let file = capture.stop();
    let port = store.address.port();
    let ports = format!("{port}");
    let read = |arguments: &[&str]| {
        let output = Command::new(&binary)
            .arg("-r")
            .arg(&file)
            .args(["-o", &format!("lbttcp.store_port_low:{ports}"), "-o", &format!("lbttcp.store_port_high:{ports}")])
            .args(arguments)
            .output()
            .expect("tshark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let errors = read(&["-q", "-z", &format!("expert,error,tcp.port=={port}")]);
    assert!(!errors.contains("Errors ("), "{errors}");
    let malformed = read(&["-Y", &format!("tcp.port=={port} && _ws.malformed"), "-T", "fields", "-e", "frame.number"]);
    assert_eq!(malformed, "");
    for header in ["ume_preg", "ume_preg_resp", "ume_ack", "ume_rxreq", "ume_storeid", "ume_ranged_ack", "sri"] {
        let found = read(&["-Y", &format!("lbmc.{header} && tcp.port=={port}"), "-T", "fields", "-e", "frame.number"]);
        assert!(!found.is_empty(), "no {header} is in the capture");
    }
}
