//! The client's side of a WebSocket session as a load generator needs it: frames are found, their payload is not looked into.

use rssl::ws::frame::{self, Header, OpCode};

/// The request for a session, for a protocol where the server wants one.
pub fn request(port: u16, protocol: Option<&str>) -> Vec<u8> {
    let protocol = protocol.map_or(String::new(), |name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
    format!(
        "GET /WebSocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: cXVvdGV3YXktbGFiLTAwMQ==\r\nSec-WebSocket-Version: 13\r\n{protocol}\r\n"
    )
    .into_bytes()
}

/// A frame of the client.
pub fn frame(op: OpCode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(&mut out, op, true, false, Some(*b"mask"), payload);
    out
}

/// The messages that a session has received.
#[derive(Debug, Default)]
pub struct Link {
    is_open: bool,
    /// The begin of a frame, or of the answer to the request, that is not whole.
    rest: Vec<u8>,
}

impl Link {
    /// Takes bytes, wherever they are cut; `each` gets the payload of each whole frame of data. True if the session is open since these
    /// bytes.
    ///
    /// # Errors
    /// The server refused the session, ended it, or sent what is no frame.
    pub fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Result<bool, String> {
        let was_open = self.is_open;
        if self.rest.is_empty() {
            let used = self.parse(bytes, each)?;
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            let mut all = std::mem::take(&mut self.rest);
            all.extend_from_slice(bytes);
            let used = self.parse(&all, each)?;
            all.drain(..used);
            self.rest = all;
        }
        Ok(self.is_open && !was_open)
    }

    /// Takes what is whole; gives how much that was.
    fn parse(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Result<usize, String> {
        let mut at = 0;
        if !self.is_open {
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(0) };
            if !bytes.starts_with(b"HTTP/1.1 101 ") {
                return Err(format!("the server refuses WebSocket: {}", String::from_utf8_lossy(&bytes[..end])));
            }
            self.is_open = true;
            at = end + 4;
        }
        while let Some(header) = Header::parse(&bytes[at..]).map_err(str::to_owned)? {
            let end = header.length + header.payload as usize;
            let Some(whole) = bytes[at..].get(..end) else { break };
            let payload = &whole[header.length..];
            match header.op {
                OpCode::Text | OpCode::Binary if header.fin => each(payload),
                OpCode::Close => {
                    let reason = payload.get(2..).unwrap_or_default();
                    return Err(format!("the server closes the session: {:?}", String::from_utf8_lossy(reason)));
                }
                OpCode::Text | OpCode::Binary | OpCode::Continuation => return Err("a message in fragments".to_owned()),
                OpCode::Ping | OpCode::Pong => {}
            }
            at += end;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_wherever_the_bytes_are_cut() {
        let mut bytes = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec();
        let payloads = [vec![b'a'; 5], vec![b'b'; 300], vec![b'c'; 70_000]];
        for payload in &payloads {
            frame::write(&mut bytes, OpCode::Text, true, false, None, payload);
            frame::write(&mut bytes, OpCode::Ping, true, false, None, b"p");
        }
        for step in [1, 7, 1000, bytes.len()] {
            let (mut link, mut seen, mut opened) = (Link::default(), Vec::new(), 0);
            for piece in bytes.chunks(step) {
                opened += u32::from(link.take(piece, &mut |payload| seen.push(payload.to_vec())).unwrap());
            }
            assert_eq!((opened, &seen[..]), (1, &payloads[..]), "in pieces of {step}");
        }
    }

    #[test]
    fn refusals_and_ends_are_told() {
        let refused = Link::default().take(b"HTTP/1.1 400 Bad Request\r\n\r\n", &mut |_| {});
        assert!(refused.is_err_and(|why| why.contains("400")));
        let mut bytes = b"HTTP/1.1 101 x\r\n\r\n".to_vec();
        frame::write(&mut bytes, OpCode::Close, true, false, None, b"\x03\xE8slow consumer");
        assert!(Link::default().take(&bytes, &mut |_| {}).is_err_and(|why| why.contains("slow consumer")));
    }
}
