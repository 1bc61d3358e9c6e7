//! A context's report to whoever connects to its socket. One test: it looks at all contexts of the process.

use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

#[path = "all/world/mod.rs"]
mod world;

use lbm_io::{Context, SOCKET_PREFIX};

/// Sockets of this process's contexts.
fn sockets() -> Vec<String> {
    let own = format!("{SOCKET_PREFIX}{}/", std::process::id());
    let list = std::fs::read_to_string("/proc/net/unix").expect("readable");
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(7)?.strip_prefix('@'));
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&own)).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// What the context of the socket says while it is driven.
fn ask(context: &mut Context, socket: &str) -> String {
    let address = SocketAddr::from_abstract_name(socket).expect("a name");
    let mut stream = UnixStream::connect_addr(&address).expect("somebody listens");
    stream.set_nonblocking(true).expect("set");
    let mut text = Vec::new();
    loop {
        context.poll(Some(Duration::from_millis(1)), &mut world::Ear::default()).expect("a turn");
        match stream.read_to_end(&mut text) {
            Ok(_) => return String::from_utf8(text).expect("text"),
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn who_connects_is_told_the_counters() {
    let mut hidden = Context::new(&world::options("context statistics 0")).expect("a context");
    assert_eq!(sockets(), [""; 0]);
    let options = world::options("source transport lbtrm\ncontext context_name here");
    let mut context = Context::new(&options).expect("a context");
    let source = context.source("md.tab\there", &options).expect("a source");
    context.send(source, b"one", lbm_io::SendFlags::FLUSH).expect("sent");
    hidden.poll(Some(Duration::ZERO), &mut world::Ear::default()).expect("a turn");
    let [socket] = &sockets()[..] else { panic!("{:?}", sockets()) };
    let text = ask(&mut context, socket);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("context\there\tpid={}\t", std::process::id())), "{text}");
    assert!(lines[1].starts_with("sending\tLBTRM:127.0.0.1:") && lines[1].contains("\tdatagrams=1\t"), "{text}");
    assert!(lines[2].starts_with("source\tmd.tab?here\tmessages=1\t"), "{text}");
    assert_eq!(lines.last(), Some(&"end"));
    // Who asks again and again is sent away, and the context lives on.
    let answers = (0..200).filter(|_| !ask(&mut context, socket).is_empty()).count();
    assert!((1..200).contains(&answers), "{answers} answers");
    drop(context);
    assert_eq!(sockets(), [""; 0]);
}
