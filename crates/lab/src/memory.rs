//! Bytes of an item and of a watcher in the server, as slopes of its resident size; bytes of a cached image, as the difference of two
//! servers' sizes.

use super::chain::{Chain, PATIENCE, Spacing};
use super::images::wait_for_images;
use super::load::swarm::{SERVICE, Swarm, request};
use super::nodes::Nodes;
use super::results::{Metrics, Outcome, Side};
use super::scenario::{Clients, Scenario};
use super::session::{Run, Session};
use measure::process::{Fault, Process, pause};

/// The size counts as settled when it has changed by less than this share ...
const SETTLED: f64 = 0.002;
/// ... for so many looks, a quarter of a second apart.
const LOOKS: u32 = 6;
const LOOKS_MAX: u32 = 60;
/// Items of the two runs whose difference are mounts: few, since what their watchers take is subtracted, and is an estimate itself.
const ITEMS_OF_MOUNTS: u32 = 1_000;
/// How many times as many mounts the second of them has.
const TIMES_AS_MANY: u32 = 5;

/// Seconds that the scenario is expected to take.
pub fn estimate(scenario: &Scenario, pairs: u32) -> f64 {
    if scenario.clients == Clients::Json {
        return (5.0 + f64::from(scenario.mounts) / 2_000.0) * f64::from(pairs);
    }
    if !scenario.variant.is_empty() {
        return (2.0 * (6.0 + f64::from(scenario.items) / 100_000.0) + 2.0) * f64::from(pairs);
    }
    let mounts = f64::from(scenario.mounts);
    let streams = 3.0 * f64::from(scenario.items) + 3.0 * f64::from(few(scenario)) * mounts;
    let streams = streams + f64::from(ITEMS_OF_MOUNTS * (1 + TIMES_AS_MANY)) * mounts;
    (6.0 * 3.0 + streams / 150_000.0) * f64::from(pairs)
}

/// Items of the runs with many mounts: a fifth, so that the watchers stay few enough.
fn few(scenario: &Scenario) -> u32 {
    (scenario.items / 5).max(1)
}

/// Runs the scenario.
///
/// # Errors
/// The lab was stopped.
pub fn run(session: &mut Session, scenario: &Scenario, outcome: &mut Outcome) -> Result<(), Fault> {
    if scenario.clients == Clients::Json {
        let ours: Run<'_> = Box::new(|| idle(scenario));
        return session.row(outcome, "clients", vec![(Side::Ours, estimate(scenario, 1), ours)]);
    }
    if let Some(variant) = scenario.variant()? {
        let ours: Run<'_> = Box::new(move || cached(scenario, &variant));
        return session.row(outcome, "cache", vec![(Side::Ours, estimate(scenario, 1), ours)]);
    }
    let ours: Run<'_> = Box::new(|| {
        let one = Scenario { mounts: 1, common: 1.0, ..scenario.clone() };
        let many = Scenario { items: few(scenario), common: 1.0, ..scenario.clone() };
        let single = slope(&one)?;
        let multiple = slope(&many)?;
        let mut metrics = solve(single, multiple, f64::from(scenario.mounts));
        metrics.push("server_empty_bytes", single.empty);
        let watcher = metrics.get("watcher_bytes").unwrap_or(0.0);
        metrics.push("mount_bytes", mount(scenario, watcher)?);
        Ok(metrics)
    });
    session.row(outcome, "server", vec![(Side::Ours, estimate(scenario, 1), ours)])
}

/// Bytes of a mount beside its watchers: how the size grows with mounts of a short watchlist. What a server takes once, and the scatter of
/// the slopes over items, are not in it, as they would be in what is left of the size with a long one.
fn mount(scenario: &Scenario, watcher: f64) -> Result<f64, Fault> {
    let resident_with = |mounts: u32| {
        let of = Scenario { mounts, common: 1.0, ..scenario.clone() };
        resident(&of, ITEMS_OF_MOUNTS).map(|(_, size)| size)
    };
    let (few, many) = (scenario.mounts.max(1), scenario.mounts.max(1) * TIMES_AS_MANY);
    Ok(grown_by([resident_with(few)?, resident_with(many)?], f64::from(many - few), watcher))
}

/// Bytes of a mount beside its watchers, by the sizes of servers of which the second has so many mounts more.
fn grown_by([few, many]: [f64; 2], more: f64, watcher: f64) -> f64 {
    (many - few) / more - watcher * f64::from(ITEMS_OF_MOUNTS)
}

/// What a client costs that has logged in by JSON and watches nothing.
fn idle(scenario: &Scenario) -> Result<Metrics, Fault> {
    let chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let server = chain.server()?;
    let empty = server.resident()? as f64;
    let mut clients = chain.json_clients(scenario, (scenario.mounts, 0), (0.0, 3600.0), None)?;
    clients.wait_for("ready ", PATIENCE)?;
    let size = settled(server)?;
    let mut metrics = Metrics::default();
    metrics.push("server_empty_bytes", empty);
    metrics.push("client_bytes", (size - empty) / f64::from(scenario.mounts));
    Ok(metrics)
}

/// What a server has more for each item than one without a cache, beside the bytes of the item's image.
fn cached(scenario: &Scenario, without: &Scenario) -> Result<Metrics, Fault> {
    let (_, plain) = resident(without, scenario.items)?;
    let (_, full) = resident(scenario, scenario.items)?;
    Ok(beyond((full - plain) / f64::from(scenario.items), image_bytes(without)?))
}

/// What a cached item takes beyond 1.3 times the bytes of its image.
fn beyond(item: f64, image: f64) -> Metrics {
    let mut metrics = Metrics::default();
    metrics.push("cached_item_bytes", item);
    metrics.push("image_bytes", image);
    metrics.push("beyond_bytes", item - 1.3 * image);
    metrics
}

/// Bytes of the payload of an image.
fn image_bytes(scenario: &Scenario) -> Result<f64, Fault> {
    let chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let mut swarm = Swarm::new(chain.endpoint()?, net::tcp::SocketOptions::default())?;
    swarm.bring(1)?;
    let service = swarm.service(SERVICE)?;
    swarm.say(|w| request(service, b"RDT7", 5).encode(w))?;
    swarm.until("an image", |crowd| crowd.images > 0)?;
    Ok(swarm.crowd().image_bytes as f64)
}

/// How the size grows from N to 2N items.
#[derive(Clone, Copy, Debug)]
struct Growth {
    /// Bytes without a client.
    empty: f64,
    /// Bytes for each further item.
    per_item: f64,
}

/// Two equations, two unknowns: an item with one watcher, and one with many.
fn solve(single: Growth, multiple: Growth, mounts: f64) -> Metrics {
    let watcher = (multiple.per_item - single.per_item) / (mounts - 1.0).max(1.0);
    let mut metrics = Metrics::default();
    metrics.push("item_bytes", single.per_item - watcher);
    metrics.push("watcher_bytes", watcher);
    metrics.push("item_and_watcher_bytes", single.per_item);
    metrics
}

fn slope(scenario: &Scenario) -> Result<Growth, Fault> {
    let (empty, at_n) = resident(scenario, scenario.items)?;
    let (_, at_2n) = resident(scenario, 2 * scenario.items)?;
    Ok(Growth { empty, per_item: (at_2n - at_n) / f64::from(scenario.items) })
}

/// Bytes of a fresh server before the client came, and with its whole watchlist.
fn resident(scenario: &Scenario, items: u32) -> Result<(f64, f64), Fault> {
    let chain = Chain::start(scenario, Nodes::loopback(), Spacing::Even, None)?;
    let server = chain.server()?;
    let empty = server.resident()? as f64;
    let mut client = chain.client(scenario, &format!("RDT{{0..{}}}", items - 1), "-I 0.5 --seconds 3600 -l 1")?;
    wait_for_images(&mut client, u64::from(items) * u64::from(scenario.mounts))?;
    Ok((empty, settled(server)?))
}

/// Resident bytes once they do not change any more.
pub(super) fn settled(server: &Process) -> Result<f64, Fault> {
    settled_size(|| Ok(server.resident()? as f64))
}

/// A size once it does not change any more.
pub(super) fn settled_size(look: impl Fn() -> Result<f64, Fault>) -> Result<f64, Fault> {
    let (mut size, mut calm) = (0.0, 0);
    for _ in 0..LOOKS_MAX {
        pause(0.25)?;
        let now = look()?;
        calm = if (now - size).abs() <= SETTLED * size { calm + 1 } else { 0 };
        size = now;
        if calm >= LOOKS {
            break;
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_may_have_room_to_grow() {
        let metrics = beyond(250.0, 100.0);
        assert_eq!((metrics.get("cached_item_bytes"), metrics.get("beyond_bytes")), (Some(250.0), Some(120.0)));
    }

    #[test]
    fn items_and_watchers_are_told_apart() {
        let size = |items: f64, mounts: f64| 5e6 + mounts * 1_000.0 + items * (250.0 + mounts * 20.0);
        let growth = |items: f64, mounts: f64| Growth {
            empty: 5e6,
            per_item: (size(2.0 * items, mounts) - size(items, mounts)) / items,
        };
        let (single, multiple) = (growth(1e5, 1.0), growth(2e4, 50.0));
        let metrics = solve(single, multiple, 50.0);
        let near = |name: &str, value: f64| assert!((metrics.get(name).unwrap() - value).abs() < 1e-6, "{metrics:?}");
        near("item_bytes", 250.0);
        near("watcher_bytes", 20.0);
        near("item_and_watcher_bytes", 270.0);
        // Memory that a server takes once with the first client is in neither.
        let sizes = [50.0, 250.0].map(|mounts| 4e5 + size(f64::from(ITEMS_OF_MOUNTS), mounts));
        assert!((grown_by(sizes, 200.0, 20.0) - 1_000.0).abs() < 1e-3);
    }
}
