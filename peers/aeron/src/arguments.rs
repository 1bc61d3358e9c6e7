//! The command line.

use crate::Result;

const HELP: &str = "\
aeron-peer latency|throughput [--name value]...
  --medium udp|multicast|ipc   (udp)
  --payload BYTES              at least 8 (64)
  --rate N                     messages a second; 0: latency one by one, throughput as fast as it goes (0)
  --mtu BYTES                  (1408)
  --idle yield|spin|noop       of driver and clients when there is nothing to do (yield)
  --seconds S                  that count (2)
  --warmup S                   before them (0.5)
  --buffer BYTES               socket buffers and receive window (2097152)
  --term BYTES                 term buffers (16777216)
  --address A                  of the interface (127.0.0.1)
  --group G                    odd, for multicast (224.0.1.1)
  --port P                     and the next one (24501)";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Latency,
    Throughput,
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
}

impl Idle {
    /// Aeron's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yield => "yield",
            Self::Spin => "spin",
            Self::Noop => "noop",
        }
    }

    #[inline]
    pub fn wait(self) {
        match self {
            Self::Yield => std::thread::yield_now(),
            Self::Spin => std::hint::spin_loop(),
            Self::Noop => {}
        }
    }
}

#[derive(Clone)]
pub struct Arguments {
    pub kind: Kind,
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
            _ => {
                println!("{HELP}");
                std::process::exit(2);
            }
        };
        let mut all = Self {
            kind,
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
                "--idle" => {
                    let known = [Idle::Yield, Idle::Spin, Idle::Noop];
                    all.idle = known.into_iter().find(|idle| idle.name() == value).ok_or_else(wrong)?;
                }
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
        Ok(all)
    }

    /// What was measured, as the beginning of a JSON object.
    pub fn json(&self) -> String {
        let medium = match self.medium {
            Medium::Udp => "udp",
            Medium::Multicast => "multicast",
            Medium::Ipc => "ipc",
        };
        let Self { payload, rate, mtu, .. } = self;
        let idle = self.idle.name();
        format!(r#""peer":"aeron","medium":"{medium}","payload":{payload},"asked":{rate},"mtu":{mtu},"idle":"{idle}""#)
    }
}
