//! The command line.

use floor::Wait;

use crate::Result;

const HELP: &str = "\
aeron-peer driver|latency|throughput|one-way [--name value]...
  --role source|receiver       which side this process is
  --dir DIR                    of the driver, which makes it
  --board FILE[,FILE]...       what the sides tell each other by; a source may have several receivers
  --medium udp|multicast|ipc   (udp)
  --payload BYTES              at least 8, one way at a rate 24 (64)
  --rate N                     messages a second; 0: latency one by one, throughput as fast as it goes (0)
  --mtu BYTES                  (1408)
  --idle yield|spin|noop|block of driver and receivers when there is nothing to do (yield); block: Aeron's backoff
  --pace yield|block           of the source (yield); block: sleeps
  --seconds S                  that count (2)
  --warmup S                   before them (0.5)
  --buffer BYTES               socket buffers and receive window (2097152)
  --term BYTES                 term buffers (16777216)
  --address A                  of the interface here (127.0.0.1)
  --to A                       of the receiver, udp (127.0.0.1)
  --back A                     of the source, udp (127.0.0.1)
  --group G                    odd, for multicast (224.0.1.1)
  --port P                     and the next one (24501)";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Driver,
    Latency,
    Throughput,
    OneWay,
}

/// On what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Udp,
    Multicast,
    Ipc,
}

/// What driver and clients do when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    Yield,
    Spin,
    Noop,
    Block,
}

impl Idle {
    fn parse(value: &str) -> Option<Self> {
        Some(match value {
            "yield" => Self::Yield,
            "spin" => Self::Spin,
            "noop" => Self::Noop,
            "block" => Self::Block,
            _ => return None,
        })
    }

    pub fn as_wait(self) -> Wait {
        match self {
            Self::Block => Wait::Block,
            Self::Spin | Self::Noop => Wait::Spin,
            Self::Yield => Wait::Yield,
        }
    }

    /// Aeron's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Spin => "spin",
            Self::Noop => "noop",
            Self::Block => "backoff",
        }
    }

    #[inline]
    pub fn wait(self) {
        match self {
            Self::Yield => std::thread::yield_now(),
            Self::Spin => std::hint::spin_loop(),
            Self::Noop => {}
            Self::Block => std::thread::sleep(std::time::Duration::from_micros(10)),
        }
    }
}

#[derive(Clone)]
pub struct Arguments {
    pub kind: Kind,
    pub is_source: bool,
    pub dir: String,
    pub boards: String,
    pub pace: Idle,
    pub to: String,
    pub back: String,
    pub medium: Medium,
    pub payload: usize,
    pub rate: f64,
    pub mtu: usize,
    pub idle: Idle,
    pub seconds: f64,
    pub warmup: f64,
    pub buffer: usize,
    pub term: usize,
    pub address: String,
    pub group: String,
    pub port: u16,
}

impl Arguments {
    pub fn parse() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let kind = match words.next().as_deref() {
            Some("latency") => Kind::Latency,
            Some("throughput") => Kind::Throughput,
            Some("one-way") => Kind::OneWay,
            Some("driver") => Kind::Driver,
            _ => {
                println!("{HELP}");
                std::process::exit(2);
            }
        };
        let mut all = Self {
            kind,
            is_source: false,
            dir: String::new(),
            boards: String::new(),
            pace: Idle::Yield,
            to: "127.0.0.1".to_owned(),
            back: "127.0.0.1".to_owned(),
            medium: Medium::Udp,
            payload: 64,
            rate: 0.0,
            mtu: 1408,
            idle: Idle::Yield,
            seconds: 2.0,
            warmup: 0.5,
            buffer: 2 << 20,
            term: 16 << 20,
            address: "127.0.0.1".to_owned(),
            group: "224.0.1.1".to_owned(),
            port: 24_501,
        };
        while let Some(name) = words.next() {
            let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
            let wrong = || format!("{name} {value}: see --help");
            match name.as_str() {
                "--medium" => {
                    all.medium = match value.as_str() {
                        "udp" => Medium::Udp,
                        "multicast" => Medium::Multicast,
                        "ipc" => Medium::Ipc,
                        _ => return Err(wrong().into()),
                    }
                }
                "--idle" => all.idle = Idle::parse(&value).ok_or_else(wrong)?,
                "--pace" => all.pace = Idle::parse(&value).ok_or_else(wrong)?,
                "--role" => {
                    all.is_source = match value.as_str() {
                        "source" => true,
                        "receiver" => false,
                        _ => return Err(wrong().into()),
                    }
                }
                "--dir" => all.dir = value,
                "--board" => all.boards = value,
                "--to" => all.to = value,
                "--back" => all.back = value,
                "--payload" => all.payload = value.parse::<usize>()?.max(8),
                "--rate" => all.rate = value.parse()?,
                "--mtu" => all.mtu = value.parse()?,
                "--seconds" => all.seconds = value.parse()?,
                "--warmup" => all.warmup = value.parse()?,
                "--buffer" => all.buffer = value.parse()?,
                "--term" => all.term = value.parse()?,
                "--address" => all.address = value,
                "--group" => all.group = value,
                "--port" => all.port = value.parse()?,
                _ => return Err(wrong().into()),
            }
        }
        if all.dir.is_empty() || (all.kind != Kind::Driver && all.boards.is_empty()) {
            return Err("--dir and --board are needed: see --help".into());
        }
        Ok(all)
    }
}
