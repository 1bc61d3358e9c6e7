//! Commands to a source: everything that an application has to live with. `sink-driven-src` reads them from its standard input, a scenario has
//! them behind the name of its server (`S suspect IBM.N`).

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// A command. An item is `None` for all of them; `R` is what the source has for a rate of updates.
#[derive(Clone, Debug, PartialEq)]
pub enum Command<R> {
    /// `ur RATE`: another update rate.
    UpdateRate(R),
    /// `down`: the service goes down; nothing is published, requests are refused.
    Down,
    /// `up`: the service comes back.
    Up,
    /// `suspect [ITEM]`: items are open, but their data is suspect.
    Suspect(Option<String>),
    /// `ok [ITEM]`: their data is good again.
    Ok(Option<String>),
    /// `close [ITEM]`: their streams end for good.
    Close(Option<String>),
    /// `recover [ITEM]`: their streams end, and may be opened again.
    Recover(Option<String>),
    /// `image [ITEM]`: they are sent again, unsolicited.
    Image(Option<String>),
    /// `malformed [ITEM]`: an update that cannot be decoded.
    Malformed(Option<String>),
    /// `gap [COUNT]`: so many updates are numbered and not sent.
    Gap(u64),
    /// `mute`: item requests are not answered.
    Mute,
    /// `answer`: item requests are answered again.
    Answer,
    /// `hang SECONDS`: nothing at all is done, not even pings.
    Hang(Duration),
    /// `delay SECONDS`: the work is done so long after it was due, in one go; 0 ends it.
    Delay(Duration),
    /// `cut`: all connections are cut off.
    Cut,
    /// `status`: what is open and sent.
    Status,
    /// `help`: these commands.
    Help,
    /// `quit`: the end.
    Quit,
}

/// Longest time that `hang` takes, in seconds.
const HANG_MAX: f64 = 3_600.0;
/// Longest `delay`, in seconds: beyond it connections would look dead.
const DELAY_MAX: f64 = 10.0;

/// Help on the commands, for people.
pub const HELP: &str = "\
ur RATE            updates a second: 50000, 1.5M, max, 0
down, up           the service goes down (nothing is published, requests are refused) and comes back
suspect [ITEM]     items stay open, their data is suspect; without ITEM all of them
ok [ITEM]          their data is good again
close [ITEM]       their streams end for good (Closed)
recover [ITEM]     their streams end and may be opened again (ClosedRecover)
image [ITEM]       they are sent again without having been asked for
malformed [ITEM]   an update that cannot be decoded
gap [COUNT]        so many updates (1) are numbered and not sent: a loss
mute, answer       item requests are not answered, and answered again
hang SECONDS       nothing is done at all, not even pings
delay SECONDS      everything comes late: work is done only every so many seconds; 0 ends it
cut                all connections are cut off
status, help, quit";

impl<R: FromStr<Err: Display>> Command<R> {
    /// Reads a line; `None` for an empty one or a comment (`#`).
    ///
    /// # Errors
    /// A text for the user.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        // Item names may end in blanks, which nobody can type at the end of a line; inside they may have some.
        let rest = rest.trim();
        let item = || (!rest.is_empty()).then(|| rest.to_owned());
        let alone = |command: Self| {
            if rest.is_empty() { Ok(Some(command)) } else { Err(format!("{word} takes nothing behind it")) }
        };
        match word {
            "" => Ok(None),
            comment if comment.starts_with('#') => Ok(None),
            "ur" => rest.parse().map(|rate| Some(Self::UpdateRate(rate))).map_err(|error: R::Err| error.to_string()),
            "down" => alone(Self::Down),
            "up" => alone(Self::Up),
            "suspect" => Ok(Some(Self::Suspect(item()))),
            "ok" => Ok(Some(Self::Ok(item()))),
            "close" => Ok(Some(Self::Close(item()))),
            "recover" => Ok(Some(Self::Recover(item()))),
            "image" => Ok(Some(Self::Image(item()))),
            "malformed" => Ok(Some(Self::Malformed(item()))),
            "gap" if rest.is_empty() => Ok(Some(Self::Gap(1))),
            "gap" => rest.parse().map(|count| Some(Self::Gap(count))).map_err(|_| format!("{rest:?} is no count")),
            "mute" => alone(Self::Mute),
            "answer" => alone(Self::Answer),
            "hang" => time(rest, HANG_MAX).map(|time| Some(Self::Hang(time))),
            "delay" => time(rest, DELAY_MAX).map(|time| Some(Self::Delay(time))),
            "cut" => alone(Self::Cut),
            "status" => alone(Self::Status),
            "help" | "?" => alone(Self::Help),
            "quit" | "exit" | "q" => alone(Self::Quit),
            _ => Err(format!("{word:?} is no command; help shows them")),
        }
    }
}

fn time(text: &str, max: f64) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=max).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("{text:?} is no time; write seconds up to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_help_is_understood() {
        let words = HELP.lines().flat_map(|line| line.split("  ").next().unwrap_or_default().split(", "));
        let mut count = 0;
        for word in words {
            let name = word.split_whitespace().next().unwrap();
            let line = match name {
                "ur" => "ur 50",
                "hang" => "hang 0.5",
                "delay" => "delay 0.2",
                name => name,
            };
            assert!(matches!(Command::<u32>::parse(line), Ok(Some(_))), "{line}");
            count += 1;
        }
        assert_eq!(count, 18);
    }

    #[test]
    fn items_counts_and_comments_are_read() {
        let parse = |line: &str| Command::<u32>::parse(line).unwrap();
        assert_eq!(parse(" suspect  IBM.N "), Some(Command::Suspect(Some("IBM.N".to_owned()))));
        assert_eq!(parse("close"), Some(Command::Close(None)));
        assert_eq!((parse("gap"), parse("gap 12")), (Some(Command::Gap(1)), Some(Command::Gap(12))));
        assert_eq!((parse(""), parse("# down")), (None, None));
        assert_eq!(parse("ur 50"), Some(Command::UpdateRate(50)));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, part) in [
            ("ur fast", "invalid digit"),
            ("gap x", "no count"),
            ("hang", "seconds"),
            ("hang -1", "seconds"),
            ("delay 11", "up to 10"),
            ("down now", "nothing behind"),
            ("explode", "help"),
        ] {
            let text = Command::<u32>::parse(line).unwrap_err();
            assert!(text.contains(part), "{line}: {text}");
        }
    }
}
