//! Market data by lines: commands on standard input, what comes on standard output, columns with tabs between them.
//!
//! ```text
//! cargo run -p client-io --example console -- watch localhost:14002 USER [token] [roots=FILE: TLS] [websocket]
//!   open DIRECT_FEED IBM.N [snapshot] [private] [domain=NUMBER] [view=FIELD,FIELD]     open DIRECT_FEED A,B,C: a batch
//!   close IBM.N      post IBM.N BID=1.5      generic IBM.N BID=1.5      contribute DIRECT_FEED IBM.N BID=1.5 (off-stream)
//!
//! cargo run -p client-io --example console -- listen 14010 MY_FEED [waits] [takes-posts] [certificate=FILE key=FILE]
//! cargo run -p client-io --example console -- dial localhost:14003 MY_FEED USER
//!   publish EUR=X BID=1.0712 ASK=1.0714      image EUR=X BID=1.0      list ALL=X EUR=X,JPY=X      answer BID=2 (the last generic message)
//!   end EUR=X the text
//! ```
//!
//! The program ends with its input.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

mod provide;
mod values;
mod watch;

use std::error::Error;
use std::io::BufRead as _;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Thread;

/// A line of standard input, or something of a thread's own; `None` when the input ends.
type Inputs<T> = Receiver<Option<T>>;

/// Reads lines into a channel, and wakes who waits for them.
fn read_lines<T: Send + 'static>(
    into: impl Fn(String) -> T + Send + 'static,
    wakes: Thread,
) -> (Sender<Option<T>>, Inputs<T>) {
    let (give, take) = mpsc::channel();
    let gives = give.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if gives.send(Some(into(line))).is_err() {
                return;
            }
            wakes.unpark();
        }
        // Nobody may be left to hear that it ends.
        let _ = gives.send(None);
        wakes.unpark();
    });
    (give, take)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["watch", servers, user, options @ ..] => watch::run(servers, user, options),
        ["listen", port, service, options @ ..] => provide::listen(port.parse()?, service, options),
        ["dial", servers, service, user] => provide::dial(servers, service, user),
        _ => Err("watch SERVERS USER, listen PORT SERVICE or dial SERVERS SERVICE USER".into()),
    }
}
