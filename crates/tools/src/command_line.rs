//! What the programs of the workspace have in common at their command line.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

/// `println!` panics when the reader of standard output has gone (`| head`): that is no fault, and ends the process quietly.
/// The signal's default would do so for sockets, too.
pub fn end_with_the_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let text = info.payload_as_str().unwrap_or_default();
        if text.starts_with("failed printing to stdout") && text.contains("Broken pipe") {
            std::process::exit(0);
        }
        usual(info);
    }));
}

/// To standard output, whose reader may have enough before the end (`| head`).
///
/// # Errors
/// Standard output cannot be written for another reason.
pub fn print(text: impl AsRef<[u8]>) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_ref()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(std::io::Error::new(e.kind(), format!("standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Lines of standard input, read by a thread of their own; whoever waits is woken by each.
pub fn lines_of_input(waker: net::Waker) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
            waker.wake();
        }
    });
    receiver
}
