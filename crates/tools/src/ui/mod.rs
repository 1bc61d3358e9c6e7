//! The view of the demo: a watchlist with live quotes, rates and latencies.
//!
//! [`feed::WatchClient`] is a session that keeps a [`Snapshot`]; [`navigation`] is where the person is in it; [`draw`] and [`plain`]
//! turn them into a screen or a line, and know nothing else. [`run`] joins them: on a terminal the screen, anywhere else lines.

pub mod detail;
pub mod draw;
pub mod feed;
pub mod navigation;
pub mod page;
pub mod plain;
mod screen;
mod snapshot;

pub use screen::{Command, Settings, run};
pub use snapshot::{ClientLine, Direction, Link, Row, Snapshot};

/// Pause before another attempt to connect, nanoseconds: somebody is looking.
const RETRY_NS: u64 = 500_000_000;

/// A session of a view with a server: `HOST:PORT`, or `srv:` with the name of a service.
fn session(server: &str, user: &str, application: &str) -> Result<client_io::SessionConfig, client_io::AddressError> {
    let mut config = client_io::SessionConfig::new(server, user)?;
    let consumer = &mut config.client.consumer;
    consumer.login.attributes.application_name = Some(application.to_owned());
    consumer.dictionary = false;
    (consumer.connections.retry_min_ns, consumer.connections.retry_max_ns) = (RETRY_NS, RETRY_NS);
    Ok(config)
}

/// What is wrong with an item, for people; `None` when it is good, whatever text says so.
fn trouble(state: rwf::State<'_>) -> Option<String> {
    let is_good = state.data == rwf::DataState::OK && !state.stream.is_final();
    (!is_good).then(|| {
        // The text first: where there is little room, the rest is cut.
        let text = state.text_lossy();
        let states = format!("{}/{}", state.stream, state.data);
        if text.is_empty() { states } else { format!("{} ({states})", text.escape_debug()) }
    })
}
