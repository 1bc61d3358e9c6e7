//! Stock Wireshark listens on loopback while contexts talk: no errors, topics by name. Needs `tshark` (`QUOTEWAY_TSHARK` names another
//! binary, or is `none`) and the right to capture, as root has.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::world::World;
use lbm_io::SendFlags;
use lbm_io::options::{ContextOption, Options, Scope};

struct Capture {
    child: Child,
    lines: mpsc::Receiver<String>,
    file: PathBuf,
    probe: UdpSocket,
}

/// Lines of what tshark prints, from a thread of their own.
fn lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Capture {
    /// `None` if this host does not let us.
    fn start(binary: &str) -> Option<Self> {
        let file = std::env::temp_dir().join(format!("lbm-io-{}.pcapng", std::process::id()));
        let mut child = Command::new(binary)
            .args(["-i", "lo", "-B", "64", "-P", "-l", "-f", "udp or tcp", "-w"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let lines = lines(child.stdout.take()?);
        let probe = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut capture = Self { child, lines, file, probe };
        capture.mark("quoteway begins").then_some(capture)
    }

    /// Sends datagrams of a length of their own until tshark has seen one; so all before has been seen as well.
    fn mark(&mut self, text: &str) -> bool {
        let port = self.probe.local_addr().expect("an address").port().to_string();
        for _ in 0..200 {
            self.probe.send_to(text.as_bytes(), self.probe.local_addr().expect("an address")).expect("sent");
            let length = format!("Len={}", text.len());
            while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(100)) {
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
    fn stop(mut self) -> PathBuf {
        assert!(self.mark("quoteway has said everything"));
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        self.file.clone()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the sessions of this test are, for Wireshark.
fn preferences(options: &Options) -> Vec<String> {
    let text = |scope, name: &str| options.text(scope, name).expect("an option");
    let group = text(Scope::Context, "resolver_multicast_address");
    let port = text(Scope::Context, "resolver_multicast_port");
    let low = text(Scope::Context, "transport_lbtrm_multicast_address_low");
    let high = text(Scope::Context, "transport_lbtrm_multicast_address_high");
    let data = text(Scope::Source, "transport_lbtrm_destination_port");
    let mut preferences: Vec<String> = [
        ("lbmr.mc_incoming_address", group),
        ("lbmr.mc_outgoing_address", group),
        ("lbmr.mc_incoming_port", port),
        ("lbmr.mc_outgoing_port", port),
        ("lbtrm.mc_address_low", low),
        ("lbtrm.mc_address_high", high),
        ("lbtrm.dport_low", data),
        ("lbtrm.dport_high", data),
        ("lbtrm.sport_low", "1024"),
        ("lbtrm.sport_high", "65535"),
        ("udp.try_heuristic_first", "TRUE"),
    ]
    .iter()
    .map(|(name, value)| format!("-o{name}:{value}"))
    .collect();
    preferences.push("-2".to_owned());
    preferences
}

fn tshark(binary: &str, file: &Path, preferences: &[String], arguments: &[&str]) -> String {
    let output =
        Command::new(binary).arg("-r").arg(file).args(preferences).args(arguments).output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut text = String::new();
    output.stdout.as_slice().read_to_string(&mut text).expect("text");
    text
}

#[test]
fn wireshark_follows_what_contexts_say() {
    let binary = std::env::var("QUOTEWAY_TSHARK").unwrap_or_else(|_| "tshark".to_owned());
    let Some(capture) = Some(&binary).filter(|b| *b != "none").and_then(|b| Capture::start(b)) else {
        println!("not run: tshark is not there or may not capture on loopback");
        return;
    };
    // Trains would be seen as one packet.
    let mut world = World::new(
        "context udp_offload 0\ncontext transport_lbtrm_datagram_max_size 1472\nsource transport lbtrm
        source transport_lbtrm_ignore_interval 50\nsource transport_lbtrm_sm_minimum_interval 20",
    );
    let options = world.options.clone();
    let source = world.left.source("md.equities.ibm", &options).expect("a source");
    world.right.receiver("md.equities.ibm", &options).expect("a receiver");
    world.introduce(source, "md.equities.ibm");
    world.settle(source, "md.equities.ibm");
    world.right.lose(100_000, 11);
    for i in 0..400usize {
        world.left.send(source, &vec![i as u8; i * 9], SendFlags::NONE).expect("room");
        if i % 20 == 0 {
            world.left.flush(source).expect("a source");
            world.turn();
        }
    }
    world.left.flush(source).expect("a source");
    world.until("all messages", |w| w.ear.topic("md.equities.ibm").messages.len() == 400);
    world.right.lose(0, 0);
    world.turns_for(Duration::from_millis(50));
    let file = capture.stop();
    let preferences = preferences(&options);
    let group = options.get(ContextOption::TRANSPORT_LBTRM_MULTICAST_ADDRESS_LOW);
    let resolver = options.get(ContextOption::RESOLVER_MULTICAST_ADDRESS);
    let fields = |filter: &str, field: &str| -> Vec<String> {
        let text = tshark(&binary, &file, &preferences, &["-Y", filter, "-T", "fields", "-e", field]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    // Not the NAKs: other tests send packets at the same time that look like broken ones, also to this address.
    let ours = format!("ip.dst=={group} || ip.dst=={resolver}");
    let errors = tshark(&binary, &file, &preferences, &["-q", "-z", &format!("expert,error,{ours}")]);
    assert!(!errors.contains("Errors ("), "{errors}");
    // On a loaded machine the capture misses some.
    let data = fields(&format!("lbtrm.data && ip.dst=={group}"), "lbmc.topic");
    assert!(data.len() > 50, "{} datagrams", data.len());
    assert!(data.iter().all(|t| t.split(',').all(|t| t == "md.equities.ibm")), "{data:?}");
    assert!(!fields(&format!("lbtrm.data.flags_fec_type.rx == 1 && ip.dst=={group}"), "lbtrm.data.sqn").is_empty());
    assert!(!fields(&format!("lbtrm.sm && ip.dst=={group}"), "lbtrm.sm.sm_sqn").is_empty());
    assert!(!fields("lbtrm.nak && !_ws.malformed", "lbtrm.nak.list.nak").is_empty());
    assert!(!fields(&format!("lbmr && ip.dst=={resolver}"), "lbmr.tir.name").is_empty());
    let _ = std::fs::remove_file(file);
}
