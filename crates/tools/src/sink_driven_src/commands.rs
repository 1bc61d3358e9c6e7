//! Commands while `sink-driven-src` runs.

use feed::pace::Rate;
pub use scenario::commands::HELP;

/// A command, with this source's rates.
pub type Command = scenario::commands::Command<Rate>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_command_line() {
        assert_eq!(Command::parse("ur max"), Ok(Some(Command::UpdateRate(Rate::Max))));
        for (line, part) in [("ur", "no rate"), ("ur fast", "50k")] {
            let text = Command::parse(line).expect_err(line);
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
