//! RSSL in an HTTP request, as ETA's connection type `HTTP` sends it.

use std::io::{Read, Write};

use rssl::{ClientConfig, Connection};

use super::{Seen, Server, read_all};

const HEAD: &str = "POST / HTTP/1.1\r\nAccept: application/octet-stream\r\nUser-Agent: ETA/Java\r\nHost: h:14002\r\n\
                    Content-Length: 2147473647\r\nCache-Control: no-cache\r\n";
const HELLO: [u8; 13] = [0, 13, 0x80, 0, 0, 0, 0, 1, 2, 127, 0, 0, 1];

#[derive(Default)]
struct Messages(Vec<Vec<u8>>);

impl rssl::Sink for Messages {
    fn message(&mut self, msg: &[u8]) {
        self.0.push(msg.to_vec());
    }
}

/// The chunks that are whole, of a chunked body; they are taken away from it. Read as HTTP has it: a size in hexadecimal digits, and what
/// stands behind a semicolon.
fn chunks(body: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let line = std::str::from_utf8(&body[..end]).expect("a size");
        let size = usize::from_str_radix(line.split(';').next().unwrap_or(""), 16).expect("digits");
        let (from, to) = (end + 2, end + 2 + size);
        if body.len() < to + 2 {
            break;
        }
        assert_eq!(body[to..to + 2], *b"\r\n");
        found.push(body[from..to].to_vec());
        body.drain(..to + 2);
    }
    found
}

#[test]
fn rssl_comes_in_an_http_request_too() {
    let mut server = Server::new(|_| {});
    let mut client = server.client();
    let mut rssl = Connection::client(ClientConfig { key_exchange: false, ..ClientConfig::default() });
    let mut request = [format!("{HEAD}\r\n").as_bytes(), &HELLO].concat();
    rssl.start(0, &mut request);
    // In pieces that end within the header, within the body's beginning and within the connect request.
    let header = HEAD.len() + 2;
    let mut from = 0;
    for to in [10, header - 1, header, header + 1, header + 12, header + 20, request.len()] {
        client.write_all(&request[from..to]).unwrap();
        client.flush().unwrap();
        from = to;
    }
    let Seen::Opened(spoken) = server.next() else { panic!() };
    assert!(spoken.ends_with("RSSL in HTTP"), "{spoken}");

    let conn = server.recorder.conns[0];
    server.io.send(0, conn, |packer| {
        packer.push(&vec![9; 20_000], None);
        packer.push(b"one", None);
        packer.push(b"two", None);
    });
    let (mut body, mut out, mut messages, mut is_answered) = (Vec::new(), Vec::new(), Messages::default(), false);
    let mut sizes = Vec::new();
    while messages.0.len() < 3 {
        let mut buf = [0; 4096];
        let count = client.read(&mut buf).expect("bytes");
        assert!(count > 0, "closed");
        body.extend_from_slice(&buf[..count]);
        if !is_answered {
            let Some(end) = body.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(body.drain(..end + 4).collect()).expect("text");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"), "{head}");
            is_answered = true;
        }
        for chunk in chunks(&mut body) {
            sizes.push(chunk.len());
            if sizes.len() > 1 {
                // A chunk is a frame, whole and alone.
                assert_eq!(usize::from(u16::from_be_bytes([chunk[0], chunk[1]])), chunk.len());
                rssl.receive(0, &chunk, &mut out, &mut messages).expect("RSSL");
            }
        }
    }
    assert_eq!(sizes[0], 7);
    assert_eq!(messages.0, [vec![9; 20_000], b"one".to_vec(), b"two".to_vec()]);

    // What the client says goes on in the body as it is.
    let mut more = Vec::new();
    rssl.write(0, b"a message of the client", &mut more).expect("connected");
    client.write_all(&more).unwrap();
    assert_eq!(server.next(), Seen::Message(b"a message of the client".to_vec()));
    drop(client);
    assert!(matches!(server.next(), Seen::Closed { established: true, .. }));
}

#[test]
fn a_page_of_a_browser_has_no_tunnel() {
    let mut server = Server::new(|_| {});
    for (field, status) in [("Origin: http://127.0.0.1:14002\r\n", "403"), ("Transfer-Encoding: chunked\r\n", "400")] {
        let mut client = server.client();
        client.write_all(&[format!("{HEAD}{field}\r\n").as_bytes(), &HELLO].concat()).unwrap();
        let Seen::Closed { established: false, why } = server.next() else { panic!() };
        assert!(why.contains(&format!("HTTP request answered with {status}")), "{why}");
        assert!(read_all(client).starts_with(&format!("HTTP/1.1 {status} ")));
    }
}
