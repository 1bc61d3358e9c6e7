//! What a stage hands back: numbers on one line, among them what it cost.

use net::clock::{Usage, thread_usage};

use super::Cost;

/// Numbers on one line, as a stage hands them back.
pub(super) fn numbers(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// The other way round.
pub(super) fn parse(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The end of a stage: messages, calls, and the CPU it used.
pub(super) fn usage(messages: u64, calls: u64) -> [u64; 4] {
    // The process of a stage has one thread.
    let Usage { user, system } = thread_usage();
    [messages, calls, user, system]
}

impl Cost {
    pub(super) fn new(name: &str, usage: &[u64]) -> Self {
        let [messages, calls, user, system] = usage.try_into().unwrap_or([0; 4]);
        let each = |ns: u64| ns as f64 / messages.max(1) as f64;
        Self {
            name: name.to_owned(),
            user_ns: each(user),
            system_ns: each(system),
            batch: messages as f64 / calls.max(1) as f64,
        }
    }

    pub(super) fn to_json(&self) -> String {
        let Self { name, user_ns, system_ns, batch } = self;
        format!(r#"{{"stage":"{name}","user_ns":{user_ns:.1},"system_ns":{system_ns:.1},"batch":{batch:.1}}}"#)
    }
}
