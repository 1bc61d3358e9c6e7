//! What every long-running process does: takes its place, says that it is ready, ends on signals.

use std::io::Write;
use std::net::SocketAddr;

use super::service::{self, Pulse, Watched};

/// Has SIGINT and SIGTERM ask for the end; [`stopped`] tells.
///
/// # Errors
/// The kernel refuses.
pub fn install_signals() -> Result<(), String> {
    net::signal::install().map_err(|e| format!("signals cannot be caught: {e}"))
}

/// True once a signal has asked for the end.
pub fn stopped() -> bool {
    net::signal::stop_requested() > 0
}

/// Sees to it that so many descriptors can be open, or says what will be missing.
pub fn raise_open_files(wanted: u64) {
    match net::rlimit::raise_open_files(wanted) {
        Ok(limits) if limits.soft < wanted => tracing::warn!(
            "max_mounts needs {wanted} open files and the limit is {} (ulimit -n {wanted} raises it): later clients will be turned away",
            limits.soft
        ),
        Ok(_) => {}
        Err(e) => tracing::warn!("the limit of open files cannot be read: {e}"),
    }
}

/// What a serving thread asks after each turn: the turn is counted for the supervisor's watchdog, then [`stopped`] answers.
pub fn turn_over(pulse: &Pulse) -> bool {
    pulse.beat();
    stopped()
}

/// Everything is open: signals may end turns of the first thread from now on, the line is printed that says so, and a supervisor is told.
pub fn announce(line: &str, threads: Vec<Watched>) {
    if let Some((_, waker)) = threads.first() {
        net::signal::wake(waker);
    }
    println!("{line}");
    let _ = std::io::stdout().flush();
    service::ready(line, threads);
}

/// Tells this start from every other one of this host: hundredths of a second, which come again after 497 days.
pub fn incarnation() -> u32 {
    (net::clock::wall() / 10_000_000) as u32
}

/// An address that can be connected to from this host.
pub fn show(a: SocketAddr) -> String {
    if a.ip().is_unspecified() { format!("127.0.0.1:{}", a.port()) } else { a.to_string() }
}

/// The part of a ready line that says where WebSocket clients connect; empty if they may not.
pub fn show_websocket(at: Option<SocketAddr>) -> String {
    at.map_or(String::new(), |at| format!(" websocket=ws://{}/WebSocket", show(at)))
}
