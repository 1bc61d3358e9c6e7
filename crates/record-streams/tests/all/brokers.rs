//! Brokers as processes.

use crate::PATIENCE;
use measure::ports::reserve;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// Where programs of others are put.
fn peers() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("peers")
}

/// Says that a broker cannot be had.
fn missing(what: &str) {
    assert_ne!(std::env::var("QUOTEWAY_BROKERS").as_deref(), Ok("required"), "{what}");
    eprintln!("NOT TESTED: {what}");
}

/// nats-server, which is built once if it is not there.
pub(crate) fn nats_server() -> Option<PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("QUOTEWAY_NATS_SERVER") {
            return Some(PathBuf::from(path));
        }
        let path = peers().join("nats-server");
        let built = Command::new(root().join("scripts/nats-server.sh")).arg(peers()).status();
        if built.is_ok_and(|status| status.success()) && path.exists() {
            return Some(path);
        }
        missing("nats-server cannot be built: it needs Go and the module proxy");
        None
    })
    .clone()
}

/// The class path of a Kafka broker, which Maven brings.
pub(crate) fn kafka_class_path() -> Option<String> {
    static PATH: OnceLock<Option<String>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Ok(path) = std::env::var("QUOTEWAY_KAFKA_CLASS_PATH") {
            return Some(path);
        }
        let file = peers().join("kafka.classpath");
        std::fs::create_dir_all(peers()).expect("a folder");
        let brought = Command::new("mvn")
            .args(["-q", "-B", "dependency:build-classpath", "-f"])
            .arg(root().join("interop/kafka/pom.xml"))
            .arg(format!("-Dmdep.outputFile={}", file.display()))
            .status();
        if brought.is_ok_and(|status| status.success()) {
            return std::fs::read_to_string(&file).ok();
        }
        missing("Kafka cannot be had: it needs a JDK, Maven and Maven Central");
        None
    })
    .clone()
}

/// Moto's S3 server, which pip brings.
pub(crate) fn s3_server() -> Option<PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("QUOTEWAY_S3_SERVER") {
            return Some(PathBuf::from(path));
        }
        let path = peers().join("moto/bin/moto_server");
        let brought = Command::new(root().join("scripts/s3-server.sh")).arg(peers()).status();
        if brought.is_ok_and(|status| status.success()) && path.exists() {
            return Some(path);
        }
        missing("an S3 server cannot be had: it needs Python 3 with venv, and PyPI");
        None
    })
    .clone()
}

/// A process that ends with the test.
pub(crate) struct Broker {
    child: Child,
    pub(crate) port: u16,
}

impl Broker {
    /// Ends it as a machine that fails would.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // One that is gone already is ended, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until somebody listens; false: the process has ended.
fn until_listening(child: &mut Child, port: u16) -> bool {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < end, "nobody listens to port {port}");
        if child.try_wait().expect("a process").is_some() {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    true
}

/// Starts something that wants to know its ports, with others if they were taken meanwhile.
fn start(mut command: impl FnMut([u16; 2]) -> Command, ports: Option<[u16; 2]>) -> Broker {
    for _ in 0..10 {
        let ports = ports.unwrap_or_else(|| [reserve(), reserve()]);
        let mut child =
            command(ports).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().expect("a process");
        if until_listening(&mut child, ports[0]) {
            return Broker { child, port: ports[0] };
        }
    }
    panic!("the broker does not start");
}

/// A NATS server with `JetStream` in a folder, on a port of its own or on this one.
pub(crate) fn start_nats(program: &Path, folder: &Path, port: Option<u16>) -> Broker {
    let command = |[port, _]: [u16; 2]| {
        let mut command = Command::new(program);
        command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(folder.join("jetstream"));
        command
    };
    start(command, port.map(|port| [port, port]))
}

/// An S3 server whose buckets are in its memory, on a port of its own or on this one.
pub(crate) fn start_s3(program: &Path, port: Option<u16>) -> Broker {
    let command = |[port, _]: [u16; 2]| {
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    };
    start(command, port.map(|port| [port, port]))
}

/// A Kafka broker of `KRaft`, alone.
pub(crate) fn start_kafka(class_path: &str, folder: &Path) -> Broker {
    let data = folder.join("kafka");
    let properties = folder.join("server.properties");
    let java = |arguments: &[&str]| {
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp", class_path]).args(arguments).arg(&properties);
        command
    };
    let command = |[port, controller]: [u16; 2]| {
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\ncontroller.listener.names=CONTROLLER\n\
             log.dirs={}\nlog.cleaner.dedupe.buffer.size=2097152\nauto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\nnum.io.threads=2\n",
            data.display()
        );
        std::fs::write(&properties, text).expect("a file");
        // What another attempt has left has other ports.
        let _ = std::fs::remove_dir_all(&data);
        let formatted = java(&["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(formatted.expect("java runs").success(), "Kafka's folder is not made");
        java(&["kafka.Kafka"])
    };
    start(command, None)
}
