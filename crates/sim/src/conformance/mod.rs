//! Conformance: what consumers and providers may rely on, as scenarios in text files (`crates/sim/conformance`), each a script of steps
//! with the messages and states that have to come.
//!
//! The words are those of the RDM usage guide; `conformance/README.md` explains them, the crate `scenario` reads them. A scenario runs over the whole chain without an
//! operating system, in four variants: without a cache, with one in the Source Distributor, with one in the P2PS, and with the hub's
//! network between the two.
//!
//! Nothing may come that no step expects: what is left over at the end is a failure as well. Within a stream messages come in the order
//! of the steps; between streams no order is said.

mod chain;
mod runner;
mod servers;

pub use chain::Variant;
pub use runner::{Failure, run, run_at};
pub use scenario::script::{Scenario, ScriptError, Step, scenarios};
pub use servers::{Deed, Out, Servers};
