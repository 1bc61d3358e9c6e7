//! What the machine gives to the same shape without the product: one thread writes blocks of messages to bare TCP sockets, each read by a thread
//! of its own that says by 16 bytes a message what it had.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};

/// Bytes of one write to a receiver: as many as a session hands to the kernel at once.
const BLOCK: usize = 65_507;
/// Bytes that name a consumed message.
const REPORT: usize = 16;

fn reader(mut socket: TcpStream, bytes: usize) -> anyhow::Result<()> {
    let (mut room, mut had) = (vec![0; 65_536], 0);
    loop {
        let count = socket.read(&mut room)?;
        if count == 0 {
            return Ok(());
        }
        let before = had / bytes;
        had += count;
        let report = vec![1; REPORT * (had / bytes - before)];
        // The writer has ended.
        if socket.write_all(&report).is_err() {
            return Ok(());
        }
    }
}

/// Takes reports that have come; returns their bytes.
fn reports(socket: &mut TcpStream, room: &mut [u8]) -> anyhow::Result<usize> {
    match socket.read(room) {
        Ok(0) => Err(anyhow!("a reader has gone")),
        Ok(count) => Ok(count),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(e) => Err(e.into()),
    }
}

/// Messages of so many bytes that are reported a second by so many readers, of which each has its part of all.
pub(crate) fn rate(time: Duration, bytes: usize, readers: usize) -> anyhow::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (mut sockets, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..readers {
        let socket = TcpStream::connect(listener.local_addr()?)?;
        threads.push(std::thread::spawn(move || reader(socket, bytes)));
        let (socket, _) = listener.accept()?;
        socket.set_nonblocking(true)?;
        sockets.push(socket);
    }
    let (began, mut reported, mut room, message) = (Instant::now(), 0, vec![0; 65_536], vec![7; bytes]);
    let mut block = Vec::with_capacity(BLOCK + bytes);
    while began.elapsed() < time {
        for socket in &mut sockets {
            block.clear();
            while block.len() < BLOCK {
                block.extend_from_slice(&message);
            }
            let mut rest = &block[..];
            while !rest.is_empty() {
                match socket.write(rest) {
                    Ok(count) => rest = &rest[count..],
                    Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(e) => return Err(e.into()),
                }
                reported += reports(socket, &mut room)?;
            }
        }
    }
    let rate = (reported / REPORT) as f64 / began.elapsed().as_secs_f64();
    drop(sockets);
    for thread in threads {
        // A reader whose writer ends with reports unread is reset.
        let _ = thread.join().map_err(|_| anyhow!("a reader"))?;
    }
    ensure!(reported > 0, "nothing came");
    Ok(rate)
}
