//! Steps of the consumer in front of a provider under test: lines that begin with `C`.

use crate::step_messages::{Message, Stream, message};

/// Items that one step opens at most.
const ITEMS_MAX: usize = 100_000;
/// Items of one batch at most: its message has to hold their names.
const BATCH_MAX: usize = 1_000;

/// A deed of the consumer.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// `C opens N items of NAMES [in a batch] [WORDS]`.
    Opens(Opens),
    /// `C asks for dictionaries`.
    Dictionaries,
    /// `C sends CLASS STREAM WORDS`: a reissue, a close, a post, a generic message.
    Sends(Message),
    /// `C breaks off inside CLASS STREAM WORDS`: half of the message, and a reset.
    BreaksOff(Message),
    /// `C sends a malformed request`.
    Malformed,
    /// `C posts STREAM`: something else each time, with a request for an ack.
    Posts(Stream),
    /// `C connects once more`.
    Connects,
    /// `C goes away`, `C is cut off`: its connections end, and none is made until it comes back.
    GoesAway {
        /// By a reset.
        reset: bool,
    },
    /// `C comes back`.
    ComesBack,
    /// `C resets`: its connections are reset, and made again.
    Resets,
    /// `C does not log in`.
    WithoutLogin,
    /// `C logs in`: now, and by itself on connections from now on.
    LogsIn,
    /// `C stops reading`, `C reads`.
    Reads(bool),
    /// `C stops pinging`, `C pings`.
    Pings(bool),
    /// `C sends N bytes a second`, `C sends at full speed` (`None`).
    Pace(Option<u64>),
}

impl Ask {
    /// Whether a provider may end the connection of a consumer that does this.
    pub fn excuses(&self) -> bool {
        matches!(self, Self::BreaksOff(_) | Self::Malformed | Self::Reads(false) | Self::Pings(false) | Self::Pace(_))
            || matches!(self, Self::WithoutLogin)
            || matches!(self, Self::Sends(message) if message.stream == Stream::Login && message.class == "CLOSE")
    }
}

/// Which items are opened, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opens {
    /// So many, or as many as the list has.
    pub count: usize,
    /// Names between commas, or a name with a star, in place of which a number from 1 stands.
    pub list: String,
    /// All by one request.
    pub batch: bool,
    /// The service, if it is not the first that can be used.
    pub service: Option<String>,
    /// Other words of the request.
    pub words: Vec<String>,
}

impl Opens {
    /// The names.
    pub fn names(&self) -> Vec<String> {
        match self.list.split_once('*') {
            Some((before, after)) => (1..=self.count).map(|number| format!("{before}{number}{after}")).collect(),
            None => self.list.split(',').take(self.count).map(str::to_owned).collect(),
        }
    }
}

/// What a step says, behind the `C`; `words` are the same ones.
///
/// # Errors
/// There is no such step; the text says what there is.
pub fn ask(all: &[&str], words: &[String]) -> Result<Ask, String> {
    Ok(match all {
        ["opens", count, "item" | "items", "of", list, ..] => Ask::Opens(opens(count, list, &words[5..])?),
        ["opens", ..] => return Err("C opens N items of NAMES".to_owned()),
        ["asks", "for", "dictionaries"] => Ask::Dictionaries,
        ["sends", "a", "malformed", "request"] => Ask::Malformed,
        ["sends", "at", "full", "speed"] => Ask::Pace(None),
        ["sends", bytes, "bytes", "a", "second"] => {
            Ask::Pace(Some(bytes.parse::<u64>().map_err(|_| format!("{bytes} is no number"))?.max(1)))
        }
        ["sends", class, stream, ..] => Ask::Sends(own(message(class, stream, words[3..].to_vec())?)?),
        ["breaks", "off", "inside", class, stream, ..] => {
            Ask::BreaksOff(own(message(class, stream, words[5..].to_vec())?)?)
        }
        ["closes", stream] => Ask::Sends(message("CLOSE", stream, Vec::new())?),
        ["posts", stream] => Ask::Posts(message("POST", stream, Vec::new())?.stream),
        ["connects", "once", "more"] => Ask::Connects,
        ["goes", "away"] => Ask::GoesAway { reset: false },
        ["is", "cut", "off"] => Ask::GoesAway { reset: true },
        ["comes", "back"] => Ask::ComesBack,
        ["resets"] => Ask::Resets,
        ["does", "not", "log", "in"] => Ask::WithoutLogin,
        ["logs", "in"] => Ask::LogsIn,
        ["stops", "reading"] => Ask::Reads(false),
        ["reads"] => Ask::Reads(true),
        ["stops", "pinging"] => Ask::Pings(false),
        ["pings"] => Ask::Pings(true),
        _ => return Err("the consumer C has no such step; docs/operating/scenarios.md has those that there are".into()),
    })
}

fn own(message: Message) -> Result<Message, String> {
    if ["REQUEST", "CLOSE", "POST", "GENERIC"].contains(&message.class.as_str()) {
        return Ok(message);
    }
    Err(format!("{} is no message of a consumer: REQUEST, CLOSE, POST, GENERIC", message.class))
}

fn opens(count: &str, list: &str, rest: &[String]) -> Result<Opens, String> {
    let count = count.parse().ok().filter(|count| (1..=ITEMS_MAX).contains(count));
    let count = count.ok_or_else(|| format!("C opens N items: from 1 to {ITEMS_MAX}"))?;
    let mut words = rest.to_vec();
    let batch = words.starts_with(&["in".to_owned(), "a".to_owned(), "batch".to_owned()]);
    if batch {
        words.drain(..3);
        if count > BATCH_MAX {
            return Err(format!("a batch has {BATCH_MAX} items at most"));
        }
    }
    let service = words.iter().position(|word| word.starts_with("service=")).map(|at| words.remove(at));
    let service = service.map(|word| word["service=".len()..].to_owned());
    Ok(Opens { count, list: list.to_owned(), batch, service, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(step: &str) -> Result<Ask, String> {
        let words = crate::script::split(step).expect("words");
        let all: Vec<&str> = words.iter().map(String::as_str).collect();
        ask(&all, &words)
    }

    #[test]
    fn what_is_opened_has_names_and_words() {
        let Ok(Ask::Opens(opens)) = read("opens 3 items of S*.N in a batch service=FEED view=22,25") else {
            panic!("a step")
        };
        assert_eq!(opens.names(), ["S1.N", "S2.N", "S3.N"]);
        assert!(opens.batch && opens.service.as_deref() == Some("FEED") && opens.words == ["view=22,25"]);
        let Ok(Ask::Opens(opens)) = read("opens 200 items of IBM.N,TRI.N snapshot") else { panic!("a step") };
        assert_eq!(opens.names(), ["IBM.N", "TRI.N"]);
    }

    #[test]
    fn what_no_consumer_does_is_said() {
        for (step, why) in [
            ("sends REFRESH first", "no message of a consumer"),
            ("opens many items of A*", "from 1 to"),
            ("opens 5000 items of A* in a batch", "1000 items at most"),
            ("flies away", "no such step"),
            ("sends REQUST first", "did you mean REQUEST?"),
        ] {
            let error = read(step).expect_err(step);
            assert!(error.contains(why), "{step}: {error}");
        }
    }
}
