//! A consumer that does as little as it can: `cargo run --release -p omm-io --example count -- 127.0.0.1:14002 DIRECT_FEED 'RDT*' 10000` opens RDT0 to RDT9999, counts
//! updates without looking into them, and prints how many came in each quarter of a second, until the server goes or three seconds bring none. What a server gives a client
//! is measured by it where a client that looks at each message would be the limit.

#![allow(clippy::disallowed_macros, reason = "an example prints")]

use std::net::SocketAddr;

use net::tcp::ConnId;
use omm::consumer::{Consumer, ConsumerConfig, ItemRequest};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::MsgClass;

/// Between two lines, nanoseconds.
const QUARTER: u64 = 250_000_000;
/// Quarters without an update after which it ends.
const SILENT: usize = 12;

struct Count {
    client: Client<Consumer, SocketAddr>,
    updates: u64,
    is_over: bool,
}

impl Handler for Count {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        self.client.opened(now, conn);
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        if rwf::peek::class(msg) == Some(MsgClass::UPDATE) {
            self.updates += 1;
            return;
        }
        self.client.role.handle_message(now, msg);
        while self.client.role.poll_event().is_some() {}
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        self.is_over |= self.client.closed(now, conn, ended) == Closed::Lost && self.updates > 0;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address: SocketAddr = arguments.next().unwrap_or("127.0.0.1:14002".into()).parse()?;
    let service = arguments.next().unwrap_or("DIRECT_FEED".into());
    let names = arguments.next().unwrap_or("RDT*".into());
    let items: usize = arguments.next().unwrap_or("10000".into()).parse()?;
    let list = ConnectionList::new(vec![Server::new(address.ip().to_string(), address.port())]);
    let mut consumer = Consumer::new(ConsumerConfig::new(list, "user"));
    for item in 0..items {
        consumer.open(0, ItemRequest::new(&service, names.replace('*', &item.to_string())))?;
    }
    let mut count = Count { client: Client::new(consumer, address), updates: 0, is_over: false };
    let mut now = net::clock::now();
    let mut io = RsslIo::new(now)?;
    let (mut told, mut before, mut silent) = (now, 0, 0);
    while !count.is_over && silent < SILENT {
        if let Err(error) = count.client.connect(now, &mut io) {
            println!("{address}: {error}");
        }
        let due = count.client.role.timeout().map_or(told + QUARTER, |due| due.min(told + QUARTER));
        now = io.turn(Some(due), &mut count)?;
        count.client.send(now, &mut io);
        if now >= told + QUARTER {
            let new = count.updates - before;
            if new > 0 {
                println!("{:.3} M/s", new as f64 * 1e3 / (now - told) as f64);
            }
            silent = if new == 0 && count.updates > 0 { silent + 1 } else { 0 };
            (told, before) = (now, count.updates);
        }
    }
    println!("{} updates", count.updates);
    Ok(())
}
