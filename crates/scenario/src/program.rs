//! Steps as what is to be done, read before anything runs: a step that there is not is said with its line.

use crate::asks::{self, Ask};
use crate::commands::Command;
use crate::file::{FileError, Judges, Line, ScenarioFile, nearest};
use crate::numbers::SECOND;
use crate::standby::StandbyPart;
use crate::step_messages::message;
pub use crate::step_messages::{Message, Stream};

/// How long an event is waited for where a step says nothing, nanoseconds.
const PATIENCE: u64 = 10 * SECOND;

/// A clock is set by so many seconds at most: ten days.
const CLOCK_MAX_S: i64 = 864_000;

/// Steps in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// The step as it stands there.
    pub text: String,
    /// The server that it is about: 0 for `S`, 1 for `S2`.
    pub server: usize,
    /// Its meaning.
    pub deed: Deed,
}

/// A step's meaning. Times are nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// `after 1.5 ping-timeouts`: so many of the ping timeout that the handshake agreed on.
    AfterPings(f64),
    /// `after 2 s`, `after 1..3 s`: time passes, of a range so much as the seed says.
    After(u64, u64),
    /// `S has ..`, `S gets ..`: waits for something; the client is at fault where it does not come.
    Until(Event, u64),
    /// `needs ..`: waits for something without which the scenario judges nothing; so long as clients are given to start, where it says no time.
    Needs(Event, Option<u64>),
    /// `S gets no CLASS STREAM for T s`: the client is at fault where it comes.
    Never(Message, u64),
    /// `S sends CLASS STREAM WORDS`.
    Send(Message),
    /// `S sends DIRECTORY SERVICE WORDS`.
    Directory(String, Vec<String>),
    /// `S breaks off inside CLASS STREAM WORDS`: half of the message, and a reset.
    BreakOff(Message),
    /// A command of `sink-driven-src`.
    Command(Command<f64>),
    /// A change of the server, from now on or once.
    Server(Server),
    /// A deed of the consumer in front of a provider under test.
    Ask(Ask),
}

/// Changes of a server, beside the commands that `sink-driven-src` has too.
#[derive(Debug, Clone, PartialEq)]
pub enum Server {
    /// `S goes away`: it closes its connections and listens no longer.
    GoesAway,
    /// `S comes back`: it listens again.
    ComesBack,
    /// `S resets`: its connections are reset; it goes on listening.
    Resets,
    /// `S grants logins`, also those that wait.
    Grants,
    /// `S refuses logins "text"`.
    Refuses(String),
    /// `S ignores logins`.
    IgnoresLogins,
    /// `S grants tokens for T s`: logins by token are accepted and have to be renewed so many seconds after.
    Tokens(f64),
    /// `S stops reading`, `S reads`.
    Reads(bool),
    /// `S sends N bytes a second`, `S sends at full speed` (`None`).
    Pace(Option<u64>),
    /// `S stops pinging`, `S pings`.
    Pings(bool),
    /// `S changes values`: images and updates have other values from now on.
    Values,
    /// `S answers in N parts`: images come in so many messages.
    Parts(usize),
    /// `S acks posts`, `S naks posts CODE`, `S ignores posts`.
    Posts(Posts),
    /// `S closes requests STATE "text"`: each request for an item is answered so, until `S answers`.
    Closes(Vec<String>),
    /// `S answers late by T s`.
    Late(u64),
    /// `S renumbers services`: they have other ids on the connections that come from now on.
    Renumbers,
    /// `S repeats updates N`, `S swaps updates N`.
    Repeats(u64),
    /// As there: pairs of updates in the wrong order, with the sequence numbers of the right one.
    Swaps(u64),
    /// `S ignores directories`, `S gives directories`, also those that wait.
    Directories(bool),
    /// `S refuses dictionaries`, `S ignores dictionaries`, `S gives dictionaries`.
    Dictionaries(Dictionaries),
    /// `S vanishes`: nothing of its connections is heard any more, nor said on them, not even their end. It goes on listening.
    Vanishes,
    /// `S sends with jitter of T s`: each message is late by up to that, by the seed, and none overtakes another; `S sends without jitter` (0).
    Jitter(u64),
    /// `S sets its clock ahead by T s`, `S sets its clock back by T s`: the time fields leap by so many seconds.
    Clock(i64),
    /// `S leaves out 30,31`, `S leaves out nothing`: images and updates do not have these fields.
    LeavesOut(Vec<i16>),
}

/// Answers to requests for dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dictionaries {
    /// The dictionary.
    Given,
    /// A close: there is none of the name.
    Refused,
    /// Nothing comes.
    Ignored,
    /// One in which bid and ask have other names and types.
    Wrong,
}

/// Answers to posts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posts {
    /// Acks; without the sequence numbers that they had, if so.
    Acked {
        /// The ack has the post's sequence number.
        numbered: bool,
    },
    /// Refusals with the code of this name.
    Naked(String),
    /// Nothing comes.
    Ignored,
}

/// An event that a step waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// `has a connection`.
    Connection,
    /// `has no connection`.
    NoConnection,
    /// `has a login`: one is accepted.
    Login,
    /// `has N items open [domain=MarketByOrder]`: so many have their image.
    Items(usize, Option<String>),
    /// `has a directory`: it has come on each connection.
    Directory,
    /// `has all answered`: no request waits for its answer.
    Answered,
    /// `has N items published`: so many are published whole.
    Published(usize),
    /// `has a post`: one came in since the step before.
    Post,
    /// `has a report`: the client has said what it uses of an item.
    Report,
    /// `has the part active`, `has the part standby`: the client has said that the server is that to it.
    Part(StandbyPart),
    /// `gets CLASS STREAM WORDS`.
    Message(Message),
}

/// Reads the steps of a scenario.
///
/// # Errors
/// The first step that there is not.
pub fn compile(scenario: &ScenarioFile) -> Result<Program, FileError> {
    let step = |line: &Line| {
        let read = server_of(&line.words, !scenario.standby_services.is_empty())
            .and_then(|(server, words)| Ok((server, deed(words, scenario.judges)?)));
        let (server, deed) = read.map_err(|why| FileError { file: scenario.file.clone(), line: line.number, why })?;
        Ok(Step { line: line.number, text: line.text.clone(), server, deed })
    };
    Ok(Program { steps: scenario.steps.iter().map(step).collect::<Result<_, _>>()? })
}

/// The words that come second in a step, or behind the name of the server.
const VERBS: [&str; 40] = [
    "vanishes",
    "sets",
    "leaves",
    "has",
    "gets",
    "sends",
    "breaks",
    "goes",
    "comes",
    "resets",
    "grants",
    "refuses",
    "ignores",
    "stops",
    "reads",
    "pings",
    "changes",
    "answers",
    "acks",
    "naks",
    "closes",
    "renumbers",
    "repeats",
    "swaps",
    "gives",
    "ur",
    "down",
    "up",
    "suspect",
    "ok",
    "close",
    "recover",
    "image",
    "malformed",
    "gap",
    "mute",
    "answer",
    "hang",
    "delay",
    "cut",
];

/// The server that a step is about, and its words with `S` for it: `S2 ..` and `needs .. at S2` are about the second.
fn server_of(words: &[String], is_paired: bool) -> Result<(usize, Vec<String>), String> {
    let mut words = words.to_vec();
    let at = words.windows(2).position(|two| two[0] == "at" && two[1] == "S2");
    match (words.first().map(String::as_str), at) {
        (Some("S2"), _) => "S".clone_into(&mut words[0]),
        (Some("needs"), Some(at)) => {
            words.drain(at..at + 2);
        }
        _ => return Ok((0, words)),
    }
    if is_paired {
        Ok((1, words))
    } else {
        Err("there is no second server S2: standby-services = [\"..\"] has its services".to_owned())
    }
}

fn deed(mut words: Vec<String>, judges: Judges) -> Result<Deed, String> {
    let within = taken_time(&mut words, "within")?;
    let patience = within.unwrap_or(PATIENCE);
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    if within.is_some() && !matches!(all.as_slice(), ["needs", ..] | [_, "has" | "gets", ..]) {
        return Err("within T s is for steps that wait: has, gets, needs".to_owned());
    }
    let other = match (all.first(), judges) {
        (Some(&"S"), Judges::Provider) => {
            Some("S is the server in front of consumers and publishers; a provider has C")
        }
        (Some(&"C"), Judges::Consumer | Judges::Publisher) => Some("C is the consumer in front of a provider"),
        _ => None,
    };
    if let Some(other) = other {
        return Err(format!("{other}, and this scenario judges a {}", judges.name()));
    }
    match all.as_slice() {
        ["after", time, "s"] => {
            let (least, most) = time.split_once("..").unwrap_or((time, time));
            let (least, most) = (seconds(least)?, seconds(most)?);
            if least > most { Err("after LEAST..MOST s".to_owned()) } else { Ok(Deed::After(least, most)) }
        }
        ["after", times, "ping-timeouts"] => match times.parse::<f64>() {
            Ok(times) if (0.0..=10.0).contains(&times) => Ok(Deed::AfterPings(times)),
            _ => Err(format!("{times} is no number of ping timeouts: up to 10")),
        },
        ["needs", rest @ ..] => Ok(Deed::Needs(event(rest, &words[1..])?, within)),
        ["S", verb, ..] if !VERBS.contains(verb) => Err(format!("S {verb} is no step{}", nearest(verb, VERBS))),
        ["S" | "C", "has", rest @ ..] => Ok(Deed::Until(event(rest, &words[2..])?, patience)),
        ["S" | "C", "gets", "no", class, stream, ..] => {
            let mut rest = words[5..].to_vec();
            let time = taken_time(&mut rest, "for")?.ok_or(".. gets no CLASS STREAM WORDS for T s")?;
            Ok(Deed::Never(message(class, stream, rest)?, time))
        }
        ["S" | "C", "gets", class, stream, ..] => {
            Ok(Deed::Until(Event::Message(message(class, stream, words[4..].to_vec())?), patience))
        }
        ["C", rest @ ..] => Ok(Deed::Ask(asks::ask(rest, &words[1..])?)),
        ["S", "sends", _, "full" | "bytes" | "jitter", ..] => match server(&all[1..])? {
            Some(server) => Ok(Deed::Server(server)),
            None => Err("S sends N bytes a second, at full speed, with jitter of T s, or without jitter".to_owned()),
        },
        ["S", "sends", "DIRECTORY", service, ..] => Ok(Deed::Directory((*service).to_owned(), words[4..].to_vec())),
        ["S", "sends", class, stream, ..] => Ok(Deed::Send(message(class, stream, words[4..].to_vec())?)),
        ["S", "breaks", "off", "inside", class, stream, ..] => {
            Ok(Deed::BreakOff(message(class, stream, words[6..].to_vec())?))
        }
        ["S", rest @ ..] => match server(rest)? {
            Some(server) => Ok(Deed::Server(server)),
            None => match Command::parse(&rest.join(" ")) {
                Ok(Some(Command::Status | Command::Help | Command::Quit | Command::Delay(_)) | None) | Err(_) => {
                    Err("this is no step that there is".to_owned())
                }
                Ok(Some(command)) => Ok(Deed::Command(command)),
            },
        },
        [other, ..] => Err(format!(
            "{other}: a step begins with after, needs, S (the server) or C (the consumer){}",
            nearest(other, ["after", "needs", "S", "C", "repeat", "end"])
        )),
        [] => Err("a step has words".to_owned()),
    }
}

/// Takes `WORD T s` off the end.
fn taken_time(words: &mut Vec<String>, word: &str) -> Result<Option<u64>, String> {
    match words.as_slice() {
        [.., before, time, unit] if before == word && unit == "s" => {
            let time = seconds(time)?;
            words.truncate(words.len() - 3);
            Ok(Some(time))
        }
        _ => Ok(None),
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=3_600.0).contains(&seconds) => Ok((seconds * SECOND as f64) as u64),
        _ => Err(format!("{text} is no time: seconds up to 3600")),
    }
}

fn text(word: &str) -> String {
    word.trim_matches('"').to_owned()
}

fn event(all: &[&str], words: &[String]) -> Result<Event, String> {
    match all {
        ["a", "connection"] => Ok(Event::Connection),
        ["no", "connection"] => Ok(Event::NoConnection),
        ["a", "login"] => Ok(Event::Login),
        ["a", "post"] => Ok(Event::Post),
        ["a", "report"] => Ok(Event::Report),
        ["a", "directory"] => Ok(Event::Directory),
        ["the", "part", "active"] => Ok(Event::Part(StandbyPart::Active)),
        ["the", "part", "standby"] => Ok(Event::Part(StandbyPart::Standby)),
        ["all", "answered"] => Ok(Event::Answered),
        [count, "item" | "items", "published"] => {
            Ok(Event::Published(count.parse().map_err(|_| format!("{count} is no number of items"))?))
        }
        [count, "item" | "items", "open", rest @ ..] => {
            let domain = match rest {
                [] => None,
                [domain] => Some(domain.strip_prefix("domain=").ok_or("N items open domain=NAME")?.to_owned()),
                _ => return Err("N items open domain=NAME".to_owned()),
            };
            Ok(Event::Items(count.parse().map_err(|_| format!("{count} is no number of items"))?, domain))
        }
        ["gets", class, stream, ..] => Ok(Event::Message(message(class, stream, words[3..].to_vec())?)),
        _ => {
            Err("what is waited for is: a connection, no connection, a login, a directory, a post, a report, N items open, N items published, all answered, \
                 the part active, the part standby"
                .to_owned())
        }
    }
}

fn server(words: &[&str]) -> Result<Option<Server>, String> {
    let count = |count: &str| count.parse::<u64>().map_err(|_| format!("{count} is no number"));
    Ok(Some(match words {
        ["goes", "away"] => Server::GoesAway,
        ["comes", "back"] => Server::ComesBack,
        ["resets"] => Server::Resets,
        ["grants", "logins"] => Server::Grants,
        ["grants", "tokens", "for", time, "s"] => Server::Tokens(seconds(time)? as f64 / SECOND as f64),
        ["refuses", "logins", why] => Server::Refuses(text(why)),
        ["ignores", "logins"] => Server::IgnoresLogins,
        ["stops", "reading"] => Server::Reads(false),
        ["reads"] => Server::Reads(true),
        ["stops", "pinging"] => Server::Pings(false),
        ["pings"] => Server::Pings(true),
        ["sends", "at", "full", "speed"] => Server::Pace(None),
        ["sends", bytes, "bytes", "a", "second"] => Server::Pace(Some(count(bytes)?.max(1))),
        ["sends", "with", "jitter", "of", time, "s"] => Server::Jitter(seconds(time)?),
        ["sends", "without", "jitter"] => Server::Jitter(0),
        ["vanishes"] => Server::Vanishes,
        ["sets", "its", "clock", way @ ("ahead" | "back"), "by", time, "s"] => {
            let by = time.parse().ok().filter(|by| (0..=CLOCK_MAX_S).contains(by));
            let by = by.ok_or_else(|| format!("{time} is no time: whole seconds, up to {CLOCK_MAX_S}"))?;
            Server::Clock(if *way == "ahead" { by } else { -by })
        }
        ["leaves", "out", "nothing"] => Server::LeavesOut(Vec::new()),
        ["leaves", "out", fids] => {
            let fids = fids.split(',').map(|fid| fid.parse().map_err(|_| format!("{fid} is no number of a field")));
            Server::LeavesOut(fids.collect::<Result<_, _>>()?)
        }
        ["changes", "values"] => Server::Values,
        ["answers", "in", parts, "parts"] => Server::Parts(count(parts)?.clamp(1, 100) as usize),
        ["answers", "late", "by", time, "s"] => Server::Late(seconds(time)?),
        ["acks", "posts"] => Server::Posts(Posts::Acked { numbered: true }),
        ["acks", "posts", "without", "numbers"] => Server::Posts(Posts::Acked { numbered: false }),
        ["naks", "posts", code] => Server::Posts(Posts::Naked((*code).to_owned())),
        ["ignores", "posts"] => Server::Posts(Posts::Ignored),
        ["closes", "requests", rest @ ..] if !rest.is_empty() => {
            Server::Closes(rest.iter().map(|word| (*word).to_owned()).collect())
        }
        ["renumbers", "services"] => Server::Renumbers,
        ["repeats", "updates", times] => Server::Repeats(count(times)?),
        ["swaps", "updates", times] => Server::Swaps(count(times)?),
        ["gives", "dictionaries"] => Server::Dictionaries(Dictionaries::Given),
        ["gives", "wrong", "dictionaries"] => Server::Dictionaries(Dictionaries::Wrong),
        ["gives", "directories"] => Server::Directories(true),
        ["ignores", "directories"] => Server::Directories(false),
        ["refuses", "dictionaries"] => Server::Dictionaries(Dictionaries::Refused),
        ["ignores", "dictionaries"] => Server::Dictionaries(Dictionaries::Ignored),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(step: &str) -> Result<Deed, String> {
        let words = crate::script::split(step).expect("words");
        deed(server_of(&words, true)?.1, Judges::Consumer)
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(read("after 1..2.5 s"), Ok(Deed::After(SECOND, 5 * SECOND / 2)));
        assert_eq!(read("S has 3 items open within 5 s"), Ok(Deed::Until(Event::Items(3, None), 5 * SECOND)));
        assert_eq!(read("S suspect IBM.N"), Ok(Deed::Command(Command::Suspect(Some("IBM.N".to_owned())))));
        assert_eq!(read("S refuses logins \"not today\""), Ok(Deed::Server(Server::Refuses("not today".to_owned()))));
        assert_eq!(read("S2 sets its clock back by 60 s"), Ok(Deed::Server(Server::Clock(-60))));
        assert_eq!(read("S sends with jitter of 0.5 s"), Ok(Deed::Server(Server::Jitter(SECOND / 2))));
        assert_eq!(read("S leaves out 30,31"), Ok(Deed::Server(Server::LeavesOut(vec![30, 31]))));
        let needs = Deed::Needs(Event::Items(1, None), Some(5 * SECOND));
        assert_eq!(read("needs 1 item open at S2 within 5 s"), Ok(needs));
        let words = ["S2", "vanishes"].map(str::to_owned);
        assert_eq!(server_of(&words, true).map(|(server, _)| server), Ok(1));
        assert!(server_of(&words, false).is_err_and(|why| why.contains("standby-services")));
        let message = Message { class: "REQUEST".into(), stream: Stream::First, words: vec!["streaming".into()] };
        assert_eq!(read("S gets no REQUEST first streaming for 2 s"), Ok(Deed::Never(message, 2 * SECOND)));
    }

    #[test]
    fn steps_that_there_are_not_are_said_with_the_nearest() {
        for (step, why) in [
            ("S suspct IBM.N", "did you mean suspect?"),
            ("S sends REFRSH first", "did you mean REFRESH?"),
            ("S up now", "no step"),
            ("S down within 2 s", "steps that wait"),
            ("afte 2 s", "did you mean after?"),
            ("after x s", "no time"),
            ("needs many items open", "no number"),
            ("S vanshes", "did you mean vanishes?"),
            ("S leaves out BID", "no number of a field"),
            ("S sets its clock back by 1.5 s", "whole seconds"),
            ("S sends with jitter", "with jitter of T s"),
        ] {
            let error = read(step).expect_err(step);
            assert!(error.contains(why), "{step}: {error}");
        }
    }
}
