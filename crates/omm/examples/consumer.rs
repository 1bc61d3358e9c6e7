//! A consumer over a blocking socket: `cargo run -p quoteway-omm --example consumer -- localhost:14002 DIRECT_FEED IBM.N TRI.N`
//! prints what comes until Ctrl-C, and goes on through restarts of the server. Several servers: `a:14002,b:14002`.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example has I/O"
)]

use omm::consumer::{Consumer, ConsumerConfig, Event, ItemRequest};
use omm::{ConnectionList, Server};
use rssl::{ClientConfig, Connection, Sink};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

type Fault = Box<dyn std::error::Error>;

/// Hands messages from the session to the consumer.
struct Inbox<'c> {
    consumer: &'c mut Consumer,
    now: u64,
}

impl Sink for Inbox<'_> {
    fn connected(&mut self, _info: &rssl::Negotiated) {
        self.consumer.handle_connected(self.now);
    }

    fn message(&mut self, msg: &[u8]) {
        let dictionary = self.consumer.dictionary().cloned();
        if let Some(given) = self.consumer.handle_message(self.now, msg) {
            println!("{}", rwf::text::message(given.msg, dictionary.as_deref()));
        }
        report(self.consumer);
    }
}

fn report(consumer: &mut Consumer) {
    while let Some(event) = consumer.poll_event() {
        match event {
            Event::ItemState { item, state } => println!("item {}: {}", item.stream_id(), state.as_state()),
            Event::ServiceUp { name, .. } => println!("service {name} is up"),
            Event::ServiceDown { name, .. } => println!("service {name} is down"),
            Event::Dictionary(dictionary) => println!("dictionary of {} fields", dictionary.len()),
            Event::LoginRefused(state) => println!("login refused: {}", state.as_state()),
            _ => {}
        }
    }
}

/// One connection, until it is lost.
fn session(consumer: &mut Consumer, address: (&str, u16), clock: Instant) -> Result<(), Fault> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let mut connection = Connection::client(ClientConfig::default());
    let (mut out, mut bytes) = (Vec::new(), vec![0; 65_536]);
    let now = || clock.elapsed().as_nanos() as u64;
    connection.start(now(), &mut out);
    loop {
        while let Some(msg) = consumer.poll_transmit() {
            connection.write(now(), msg, &mut out)?;
        }
        socket.write_all(&out)?;
        out.clear();
        match socket.read(&mut bytes) {
            Ok(0) => return Err("the server has closed the connection".into()),
            Ok(len) => connection.receive(now(), &bytes[..len], &mut out, &mut Inbox { consumer, now: now() })?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        connection.on_timer(now(), &mut out)?; // pings
        consumer.handle_timeout(now());
        report(consumer);
    }
}

fn main() -> Result<(), Fault> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or("localhost:14002".into());
    let servers = servers.split(',').map(|server| {
        let (host, port) = server.split_once(':').unwrap_or((server, "14002"));
        Ok(Server::new(host, port.parse()?))
    });
    let servers = servers.collect::<Result<_, Fault>>()?;
    let service = arguments.next().unwrap_or("DIRECT_FEED".into());
    let mut consumer = Consumer::new(ConsumerConfig::new(ConnectionList::new(servers), "user"));
    for name in arguments {
        consumer.open(0, ItemRequest::new(&service, name))?;
    }
    let clock = Instant::now();
    loop {
        let now = clock.elapsed().as_nanos() as u64;
        if let Some(Server { host, port }) = consumer.poll_connect(now).cloned() {
            let ended = session(&mut consumer, (&host, port), clock);
            println!("{host}:{port}: {}", ended.err().map_or_else(String::new, |fault| fault.to_string()));
            consumer.handle_disconnected(clock.elapsed().as_nanos() as u64);
            report(&mut consumer);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
