//! Signals reach a poll. One test, in a process of its own: signal state belongs to the process.

use std::process::Command;

use net::tcp::{Event, Tcp, TcpConfig};
use net::{clock, signal};

fn send_to_self(name: &str) {
    let sent = Command::new("kill").args([name, &std::process::id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn signals_wake_and_are_counted() {
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    signal::install().expect("handlers");
    assert!(signal::wake(&tcp.waker()));
    assert_eq!(signal::stop_requested(), 0);
    let mut events = Vec::new();
    let start = clock::now();
    for (name, stops) in [("-INT", 1), ("-TERM", 2)] {
        send_to_self(name);
        while signal::stop_requested() < stops {
            tcp.poll(None, &mut events).expect("poll");
            // No event: the signal interrupted the wait itself, in this thread.
            assert!(events.is_empty() || events == [Event::Woken], "{events:?}");
        }
        assert_eq!(signal::stop_requested(), stops);
    }
    assert!(!signal::take_reload());
    send_to_self("-HUP");
    while !signal::take_reload() {
        tcp.poll(None, &mut events).expect("poll");
    }
    assert!(!signal::take_reload(), "taken once");
    assert_eq!(signal::stop_requested(), 2);
    assert!(clock::now() > start);
}
