//! Batches that take many turns, of a JSON client: what it says behind them is done behind them, in the server and in what the server knows
//! of the client's streams.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::chain::{serve, source};

/// A JSON client over WebSocket.
pub(crate) struct Json(TcpStream);

impl Json {
    pub(crate) fn connect(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("set");
        let request = "GET /WebSocket HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: tr_json2\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self(stream)
    }

    pub(crate) fn say(&mut self, message: &Value) {
        let text = message.to_string();
        // A single text frame, masked with zeros.
        let mut frame = vec![0x81, 0x80 | 0x7E];
        frame.extend_from_slice(&u16::try_from(text.len()).expect("a short text").to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(text.as_bytes());
        self.0.write_all(&frame).expect("sent");
    }

    /// The messages of the next text frame; `None` when the server has closed.
    fn frame(&mut self) -> Option<Vec<Value>> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).ok()?;
        let length = match head[1] {
            126 => {
                let mut length = [0; 2];
                self.0.read_exact(&mut length).ok()?;
                usize::from(u16::from_be_bytes(length))
            }
            127 => {
                let mut length = [0; 8];
                self.0.read_exact(&mut length).ok()?;
                u64::from_be_bytes(length) as usize
            }
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        if head[0] & 0xF == 8 {
            return None;
        }
        let value: Value = serde_json::from_slice(&payload).expect("JSON");
        Some(value.as_array().cloned().unwrap_or_else(|| vec![value]))
    }

    /// Reads until a message is as wanted; `each` gets all of them.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool, mut each: impl FnMut(&Value)) {
        let mut last = Vec::new();
        loop {
            let messages = self.frame().unwrap_or_else(|| panic!("the server has closed, after {last:?}"));
            last.clone_from(&messages);
            messages.iter().for_each(&mut each);
            if messages.iter().any(&wanted) {
                return;
            }
        }
    }
}

const OLD: &str = "RDT0";
const NEW: &str = "RDT999";

fn names(first: u32) -> Vec<String> {
    (first..first + 60).map(|n| format!("RDT{n}")).collect()
}

#[test]
fn what_a_json_client_says_behind_a_batch_is_done_behind_it() {
    let (_source, at) = source(&["-U", "5k"]);
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), "[p2ps]\nwork_per_turn = 1\n").expect("written");
    let (_server, port) = serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let mut client = Json::connect(port);
    client.say(&json!({"ID": 1, "Domain": "Login", "Key": {"Name": "user"}}));
    client.until(|msg| msg["Type"] == "Refresh" && msg["Domain"] == "Login", |_| {});
    client.say(&json!({"ID": 2, "Domain": "Source", "Key": {"Filter": 63}}));
    client.until(|msg| msg["Domain"] == "Source" && msg.to_string().contains("DIRECT_FEED"), |_| {});
    let is = |msg: &Value, kind: &str, name: &str| msg["ID"] == 5 && msg["Type"] == kind && msg["Key"]["Name"] == name;
    client.say(&json!({"ID": 5, "Key": {"Name": OLD}}));
    client.until(|msg| is(msg, "Update", OLD), |_| {});
    client.say(&json!([
        {"ID": 100, "Key": {"Name": names(1)}},
        {"ID": 5, "Type": "Close"},
        {"ID": 5, "Key": {"Name": NEW}},
    ]));
    let (mut batch_at, mut new_at, mut count) = (None, None, 0);
    client.until(
        |msg| is(msg, "Update", NEW),
        |msg| {
            count += 1;
            if msg["ID"] == 100 {
                assert_eq!(msg["State"]["Text"], "Processed 60 total items from Batch Request. 60 Ok.");
                batch_at = Some(count);
            }
            if is(msg, "Refresh", NEW) {
                new_at = Some(count);
            }
            let name = if new_at.is_some() { NEW } else { OLD };
            assert!(msg["ID"] != 5 || msg["Key"]["Name"] == name, "{name} is on the stream: {msg}");
        },
    );
    assert!(batch_at < new_at, "{batch_at:?} {new_at:?}");
    // A logout behind a batch ends the connection when it is done.
    client.say(&json!([{"ID": 300, "Key": {"Name": names(101)}}, {"ID": 1, "Type": "Close", "Domain": "Login"}]));
    let mut opened = 0;
    while let Some(messages) = client.frame() {
        opened += messages.iter().filter(|msg| msg["ID"] == 300).count();
    }
    assert_eq!(opened, 1, "the batch was taken");
}
