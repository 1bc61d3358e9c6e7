//! The transports of the hub that a scenario compares, and at which losses.

use std::fmt;
use std::str::FromStr;

use floor::Middle;

use super::{Point, Scenario, ScenarioError};

/// A transport of the hub, in the configuration's words, those of Aeron with its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// `tcp`
    Tcp,
    /// `lbt-tcp`
    LbtTcp,
    /// `lbt-rm`
    LbtRm,
    /// `lbt-ru`
    LbtRu,
    /// `lbt-ipc`
    LbtIpc,
    /// `aeron`, medium `ipc`
    AeronIpc,
    /// `aeron`, medium `unicast`
    AeronUnicast,
    /// `aeron`, medium `multicast`
    AeronMulticast,
}

/// All of them, and their names.
const ALL: [(Transport, &str); 8] = [
    (Transport::Tcp, "tcp"),
    (Transport::LbtTcp, "lbt-tcp"),
    (Transport::LbtRm, "lbt-rm"),
    (Transport::LbtRu, "lbt-ru"),
    (Transport::LbtIpc, "lbt-ipc"),
    (Transport::AeronIpc, "aeron-ipc"),
    (Transport::AeronUnicast, "aeron-unicast"),
    (Transport::AeronMulticast, "aeron-multicast"),
];

impl FromStr for Transport {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        let known = ALL.iter().find(|(_, name)| *name == text);
        known.map(|(transport, _)| *transport).ok_or_else(|| ScenarioError::Transport(text.to_owned()))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find(|(transport, _)| transport == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl Transport {
    /// What the bare relay has in its place.
    pub(crate) fn middle(self) -> (Middle, &'static str) {
        match self {
            Self::Tcp | Self::LbtTcp => (Middle::Tcp, "tcp"),
            Self::LbtRu | Self::AeronUnicast => (Middle::Udp, "udp"),
            Self::LbtRm | Self::AeronMulticast => (Middle::Multicast, "multicast"),
            Self::LbtIpc | Self::AeronIpc => (Middle::Local, "local"),
        }
    }

    /// The transport's datagrams may be lost: elsewhere the kernel repairs, or nothing can be.
    fn is_lossy(self) -> bool {
        matches!(self.middle().0, Middle::Udp | Middle::Multicast)
    }

    pub(crate) fn is_aeron(self) -> bool {
        matches!(self, Self::AeronIpc | Self::AeronUnicast | Self::AeronMulticast)
    }
}

/// A transport at a loss, in percent of the datagrams that reach a node of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The transport.
    pub transport: Transport,
    /// The loss.
    pub loss: u32,
}

impl Cell {
    /// The row of the table: a word.
    pub(crate) fn label(self, point: Point) -> String {
        let loss = if self.loss > 0 { format!("-{}%", self.loss) } else { String::new() };
        let rate = if point == Point::Max { "-max" } else { "" };
        format!("{}{loss}{rate}", self.transport)
    }

    /// The chain over it: memory needs both sides of the hub on one node, a network each on its own.
    pub(crate) fn of(self, scenario: &Scenario) -> Scenario {
        let nodes = if self.transport.middle().0 == Middle::Local { 2 } else { 3 };
        let hub = self.transport.to_string();
        Scenario { hub, nodes, loss: self.loss, split: true, ..scenario.clone() }
    }
}

/// The rows of a scenario: each transport without loss, and at each loss those whose datagrams can be lost.
///
/// # Errors
/// A word that is no transport, or no percentage.
pub fn cells(scenario: &Scenario) -> Result<Vec<Cell>, ScenarioError> {
    let loss = |word: &str| word.parse().ok().filter(|loss| *loss < 100);
    let losses = scenario.losses.split_whitespace();
    let losses = losses.map(|word| loss(word).ok_or_else(|| ScenarioError::Loss(word.to_owned())));
    let losses: Vec<u32> = losses.collect::<Result<_, _>>()?;
    let mut cells = Vec::new();
    for word in scenario.transports.split_whitespace() {
        let transport: Transport = word.parse()?;
        let of = losses.iter().filter(|loss| **loss == 0 || transport.is_lossy());
        cells.extend(of.map(|loss| Cell { transport, loss: *loss }));
    }
    Ok(cells)
}
