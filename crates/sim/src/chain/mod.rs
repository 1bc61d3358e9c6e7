//! The whole chain without an operating system: simulated providers and consumers around real Source Distributors and
//! P2PSs, joined by the bytes of the hub stream.
//!
//! One seed decides everything, so a run is a pure function of the code and the seed. Time is a number. Each consumer is
//! an oracle of its own, made from the rules that real clients depend on (`watch`, `consumer`): for each message it knows
//! what must have come before. Each provider checks what it is asked for (`provider`). In the end all faults heal, time
//! passes, and everything has to be current (`world`); then everyone leaves, and nothing may be left behind.
//!
//! | module | what it is |
//! |---|---|
//! | `content` | items and all their versions, so that any value can be judged |
//! | `filtering` | which fields pass where, in worlds whose services are filtered |
//! | `provider`, `publisher` | interactive and non-interactive providers |
//! | `consumer`, `watch` | consumers, and the oracle of one item stream |
//! | `hub` | the machines under test, and the blocks between them |
//! | `network` | the network between them: losses, broken connections, partitions, freezes, restarts |
//! | `wire` | connections as bytes, by real RSSL sessions, some of them within WebSocket |
//! | `json` | connections of clients that speak JSON in WebSocket, by real sessions and texts |
//! | `world` | who acts when, and the checks at rest |

mod clock;
mod consumer;
mod content;
mod filtering;
mod hub;
mod json;
mod network;
mod provider;
mod publisher;
pub(crate) mod random;
mod socket;
mod standby;
mod watch;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

/// Rules that a run has broken.
#[derive(Debug)]
pub struct Failure {
    /// The seed that does it again.
    pub seed: u64,
    /// The rule, in the words of the assertion.
    pub what: String,
    /// Events of before, oldest first.
    pub log: Vec<String>,
}

/// The link between the two sides of the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Function calls, or rings.
    Nothing,
    /// A network that loses blocks, breaks connections, parts and stands still.
    Network,
}

/// Runs the world of one seed.
///
/// # Errors
/// A rule was broken; the run is repeated with a log to say what led to it.
pub fn run(seed: u64, between: Between) -> Result<(), Failure> {
    let attempt = |logged| {
        let mut world = World::new(seed, between, logged);
        let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            (text.unwrap_or_default(), world.log().to_vec())
        })
    };
    if attempt(false).is_ok() {
        return Ok(());
    }
    let (what, log) = attempt(true).expect_err("a run is repeatable");
    Err(Failure { seed, what, log })
}

/// Everything that happens in the world of one seed, a line each, up to its end or to the first rule that is broken.
pub fn history(seed: u64, between: Between) -> Vec<String> {
    let mut world = World::new(seed, between, true);
    let _ = catch_unwind(AssertUnwindSafe(|| world.run()));
    world.log().to_vec()
}
