//! Lines as people read them, and as objects of JSON.

use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// The time of day, as lines have it.
pub(super) fn now() -> String {
    let mut time = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time.truncate(time.trim_end().len());
    time
}

/// A line for people.
pub(super) fn in_words(level: &str, text: &str) -> String {
    format!("{} {level:>5} {text}\n", now())
}

/// A line as a JSON object.
pub(super) fn object(level: &str, text: &str) -> String {
    format!("{{\"time\":{:?},\"level\":{level:?},\"text\":{}}}\n", now(), serde_json::Value::from(text))
}

pub(super) fn name_of(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}
