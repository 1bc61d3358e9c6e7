//! A consumer: `cargo run -p omm-io --example consumer -- 127.0.0.1:14002 DIRECT_FEED IBM.N TRI.N` prints what comes until Ctrl-C, and goes on
//! through restarts of the server.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::net::SocketAddr;

use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, Event, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use rssl_io::{Ended, Handler, Opened, RsslIo};

struct Watch(Client<Consumer, SocketAddr>);

impl Watch {
    fn report(&mut self) {
        while let Some(event) = self.0.role.poll_event() {
            match event {
                Event::ItemState { item, state } => println!("item {}: {}", item.stream_id(), state.as_state()),
                Event::ServiceUp { name, .. } => println!("service {name} is up"),
                Event::ServiceDown { name, .. } => println!("service {name} is down"),
                Event::LoginRefused(state) => println!("login refused: {}", state.as_state()),
                Event::Disconnect(_) => self.0.leave(),
                _ => {}
            }
        }
    }
}

impl Handler for Watch {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.0.opened(now, conn);
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let dictionary = self.0.role.dictionary().cloned();
        if let Some(given) = self.0.role.handle_message(now, msg) {
            println!("{}", rwf_text::message(given.msg, dictionary.as_deref()));
        }
        self.report();
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if self.0.closed(now, conn, ended) == Closed::Lost {
            println!("{}: {}", self.0.server(), ended.why);
            self.report();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().unwrap_or("127.0.0.1:14002".into()).parse()?;
    let service = arguments.next().unwrap_or("DIRECT_FEED".into());
    let list = ConnectionList::new(vec![Server::new(address.ip().to_string(), address.port())]);
    let mut consumer = Consumer::new(ConsumerConfig::new(list, "user"));
    for name in arguments {
        consumer.open(0, ItemRequest::new(&service, name))?;
    }
    let mut watch = Watch(Client::new(consumer, address));
    let mut io = RsslIo::new(net::clock::now())?;
    loop {
        if let Err(error) = watch.0.connect(net::clock::now(), &mut io) {
            println!("{address}: {error}");
        }
        watch.report();
        let due = watch.0.role.timeout();
        let now = io.turn(due, &mut watch)?;
        watch.0.send(now, &mut io);
    }
}
