//! Connects to an RSSL server and says what was negotiated: `cargo run -p quoteway-rssl --example connect -- host:14002`;
//! without an argument to a server of its own in a second thread, and one message goes each way.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example has I/O"
)]

use rssl::{ClientConfig, Connection, Negotiated, ServerConfig, Sink};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// The received messages.
#[derive(Default)]
struct Received {
    negotiated: Option<Negotiated>,
    messages: Vec<Vec<u8>>,
}

impl Sink for Received {
    fn connected(&mut self, info: &Negotiated) {
        self.negotiated = Some(info.clone());
    }
    fn message(&mut self, msg: &[u8]) {
        self.messages.push(msg.to_vec());
    }
}

/// A session over a blocking socket.
struct Session {
    socket: TcpStream,
    connection: Connection,
    received_messages: Received,
    out: Vec<u8>,
    began: Instant,
}

impl Session {
    fn new(socket: TcpStream, connection: Connection) -> Self {
        let mut session =
            Self { socket, connection, received_messages: Received::default(), out: Vec::new(), began: Instant::now() };
        session.connection.start(0, &mut session.out);
        session
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Sends what there is to send, then reads once.
    fn turn(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.socket.write_all(&self.out)?;
        self.out.clear();
        let mut bytes = vec![0; 65_536];
        let len = self.socket.read(&mut bytes)?;
        if len == 0 {
            return Err("the peer has closed the connection".into());
        }
        let now = self.now();
        let received = self.connection.receive(now, &bytes[..len], &mut self.out, &mut self.received_messages);
        // A refusal is to be sent even if the session is over.
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(received?)
    }

    fn say(&mut self, message: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let now = self.now();
        self.connection.write(now, message, &mut self.out)?;
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    if let Some(address) = std::env::args().nth(1) {
        let mut session = Session::new(TcpStream::connect(address)?, Connection::client(ClientConfig::default()));
        while !session.connection.is_connected() {
            session.turn()?;
        }
        println!("{:#?}", session.received_messages.negotiated);
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut session = Session::new(listener.accept()?.0, Connection::server(ServerConfig::default()));
        while session.received_messages.messages.is_empty() {
            session.turn()?;
        }
        println!("server: got {:?}", String::from_utf8_lossy(&session.received_messages.messages[0]));
        session.say(b"and to you")
    });
    let mut session = Session::new(TcpStream::connect(address)?, Connection::client(ClientConfig::default()));
    while !session.connection.is_connected() {
        session.turn()?;
    }
    println!("{:#?}", session.received_messages.negotiated);
    session.say(b"good morning")?;
    while session.received_messages.messages.is_empty() {
        session.turn()?;
    }
    println!("client: got {:?}", String::from_utf8_lossy(&session.received_messages.messages[0]));
    server.join().map_err(|_| "the server's thread panicked")?
}
