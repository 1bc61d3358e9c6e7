//! The hub between processes: one suite over every way of joining Source Distributors and P2PSs, and what happens when
//! something between them fails.

/// Runs each of these tests over every transport of the hub.
macro_rules! over_every_transport {
    ($($test:ident),* $(,)?) => {
        over_every_transport!(@module tcp, Tcp, $($test),*);
        over_every_transport!(@module lbt_rm, LbtRm, $($test),*);
        over_every_transport!(@module lbt_rm_direct, LbtRmDirect, $($test),*);
        over_every_transport!(@module lbt_ru, LbtRu, $($test),*);
        over_every_transport!(@module lbt_tcp, LbtTcp, $($test),*);
        over_every_transport!(@module lbt_ipc, LbtIpc, $($test),*);
        over_every_transport!(@module rrcpd, Rrcpd, $($test),*);
        #[cfg(feature = "aeron")]
        over_every_transport!(@module aeron_unicast, AeronUnicast, $($test),*);
        #[cfg(feature = "aeron")]
        over_every_transport!(@module aeron_destinations, AeronDestinations, $($test),*);
        #[cfg(feature = "aeron")]
        over_every_transport!(@module aeron_multicast, AeronMulticast, $($test),*);
        #[cfg(feature = "aeron")]
        over_every_transport!(@module aeron_ipc, AeronIpc, $($test),*);
        #[cfg(feature = "aeron")]
        over_every_transport!(@module aeron_external, AeronExternal, $($test),*);
    };
    (@module $name:ident, $join:ident, $($test:ident),*) => {
        mod $name {
            $(#[test]
            fn $test() {
                super::$test(crate::hub::site::Join::$join);
            })*
        }
    };
}

mod chaos;
mod conformance;
mod desktops;
mod faults;
mod flood;
mod many_items;
mod network;
mod paths;
mod place;
mod provider;
mod scenarios;
mod security;
mod servers;
mod site;
mod soak;
mod takeovers;
mod watcher;

use std::time::{Duration, Instant};

/// How long anything may take before its test fails; a loaded machine is slow.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until something is so that nobody reports: it is looked at again and again; `what` says it for when it does not come.
fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// So many item names.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("ITEM{n}")).collect()
}
