//! Messages and streams as steps name them.

use crate::file::nearest;

/// A message of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its class, as written: `REFRESH`.
    pub class: String,
    /// Which stream or streams.
    pub stream: Stream,
    /// Its other words.
    pub words: Vec<String>,
}

/// Which stream a step means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stream {
    /// The login.
    Login,
    /// The directory.
    Directory,
    /// All items that are open, by a streaming request.
    All,
    /// The item that was asked for first of all.
    First,
    /// The item of this name.
    Item(String),
    /// `@9999`: a stream of this number, whether it is open or not.
    Number(i32),
}

/// Classes of messages.
const CLASSES: [&str; 8] = ["REQUEST", "REFRESH", "UPDATE", "STATUS", "CLOSE", "ACK", "GENERIC", "POST"];

pub(crate) fn message(class: &str, stream: &str, words: Vec<String>) -> Result<Message, String> {
    if !CLASSES.contains(&class) {
        return Err(format!("{class} is no class of messages{}", nearest(class, CLASSES)));
    }
    let stream = match stream {
        "login" => Stream::Login,
        "directory" => Stream::Directory,
        "*" => Stream::All,
        "first" => Stream::First,
        item => match item.strip_prefix('@').map(str::parse) {
            Some(Ok(number)) => Stream::Number(number),
            Some(Err(_)) => return Err(format!("{item} is no number of a stream")),
            None => Stream::Item(item.to_owned()),
        },
    };
    Ok(Message { class: class.to_owned(), stream, words })
}
