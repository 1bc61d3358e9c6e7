//! The test tools of the benchmark reports under the names and flags that their users know, and the message dump.
//!
//! `sink-driven-src` publishes, `test-client` watches and measures, `dump` makes bytes readable. The tools are programs of
//! their own behind RSSL, LBM and the administration's HTTP: they use nothing of the servers.
#![forbid(unsafe_code)]

/// In the place of the standard library's, which panics when nobody reads standard error any more ([`net::output::tell`]).
macro_rules! eprintln {
    () => {
        net::output::tell(format_args!(""))
    };
    ($($text:tt)*) => {
        net::output::tell(format_args!($($text)*))
    };
}

pub mod administration;
pub mod command_line;
pub mod consumer;
pub mod ctl;
pub mod delay;
pub mod dump;
pub mod exchange_feed;
pub mod flags;
pub mod hubstat;
pub mod lbmrd;
pub mod lbmrouter;
pub mod lbmsrs;
pub mod lbmstat;
pub mod lbmstore;
pub mod lbmtest;
pub mod lock;
pub mod manual;
pub mod marketfeed_lines;
pub mod names;
pub mod outbox;
pub mod output;
pub mod places;
pub mod recording;
pub mod replay;
pub mod reports;
pub mod sink_driven_src;
pub mod source;
pub mod table;
pub mod test_client;
pub mod top;
pub mod tune;
pub mod ui;

pub use lbmdump;
pub(crate) use record_files::when;

#[cfg(test)]
mod tests;
