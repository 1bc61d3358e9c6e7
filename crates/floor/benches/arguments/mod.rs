//! Command lines of the benchmarks: `-x value`, `--name value`, `--flag`.

use std::fmt::Display;
use std::str::FromStr;

/// What is left of the command line.
pub(crate) struct Arguments {
    rest: Vec<String>,
    /// Run by `cargo test`, not by `cargo bench`: only to see that it works.
    smoke: bool,
}

impl Arguments {
    pub(crate) fn read(help: &str) -> Self {
        let mut rest: Vec<String> = std::env::args().skip(1).collect();
        if rest.iter().any(|argument| argument == "-h" || argument == "--help") {
            println!("{help}");
            std::process::exit(0);
        }
        let smoke = rest.is_empty();
        rest.retain(|argument| argument != "--bench");
        Self { rest, smoke }
    }

    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|argument| argument != name);
        self.rest.len() < before
    }

    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> T {
        let Some(at) = self.rest.iter().position(|argument| argument == name) else { return default };
        let Some(text) = self.rest.get(at + 1).cloned() else { fail(&format!("{name} needs a value")) };
        self.rest.drain(at..at + 2);
        text.parse().unwrap_or_else(|error| fail(&format!("{name} {text}: {error}")))
    }

    pub(crate) fn seconds(&mut self, default: f64) -> f64 {
        let default = if self.smoke { 0.3 } else { default };
        self.value("-s", default)
    }

    pub(crate) fn finish(&self) {
        if let Some(unknown) = self.rest.first() {
            fail(&format!("`{unknown}` is not known; see --help"));
        }
    }
}

/// Says what is wrong and ends.
pub(crate) fn fail(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(2)
}
