//! NATS `JetStream`.

use crate::brokers::{nats_server, start_nats};
use crate::{ITEMS, PATIENCE, Writing, beside, config, forget_the_place, send_all, until};
use async_nats::jetstream::stream::Stream;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Subject, id and content of all messages of a stream, in order.
fn stream_of(port: u16, stream: &str) -> Vec<(String, String, Value)> {
    with_stream(port, stream, async |mut stream| {
        let count = stream.info().await.expect("its state").state.messages;
        let mut found = Vec::new();
        for sequence in 1..=count {
            let message = stream.get_raw_message(sequence).await.expect("a message");
            let id = message.headers.get("Nats-Msg-Id").map(ToString::to_string).unwrap_or_default();
            let content = serde_json::from_slice(&message.payload).expect("JSON");
            found.push((message.subject.to_string(), id, content));
        }
        found
    })
}

/// Asks something of a stream.
fn with_stream<T>(port: u16, stream: &str, ask: impl AsyncFnOnce(Stream) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let asking = async {
            let client = async_nats::connect(format!("127.0.0.1:{port}")).await.expect("a server");
            ask(async_nats::jetstream::new(client).get_stream(stream).await.expect("a stream")).await
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("in time")
    })
}

/// All ticks are there once, and those of an item in order.
fn check(found: &[(String, String, Value)], ticks: u64) {
    let ids: BTreeSet<&str> = found.iter().map(|(_, id, _)| id.as_str()).collect();
    assert_eq!((found.len() as u64, ids.len()), (ticks, found.len()));
    let mut of_subject: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (subject, _, content) in found {
        let sequence = content["sequence"].as_u64().expect("a number");
        of_subject.entry(subject).or_default().push(sequence);
        assert_eq!(content["kind"], "update");
    }
    let subjects: Vec<&str> = of_subject.keys().copied().collect();
    assert_eq!(subjects, ["TICKS.FEED.6.%2EDJI", "TICKS.FEED.6.A%20B.C", "TICKS.FEED.6.IBM.N"]);
    for sequences in of_subject.values() {
        assert!(sequences.is_sorted() && sequences.len() as u64 == ticks / ITEMS.len() as u64, "{sequences:?}");
    }
}

/// Two items tick with the same numbers of their own: with those as ids `JetStream` would keep one of each pair.
#[test]
fn every_tick_of_every_item_is_in_the_stream_once_however_often_it_is_sent() {
    let Some(program) = nats_server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let mut writing = Writing::begin(&recording);
    writing.ticks(50);
    writing.end();
    let broker = start_nats(&program, folder.path(), None);
    let target = format!("nats://127.0.0.1:{}/TICKS", broker.port);
    let done = send_all(&recording, &target);
    assert_eq!((done.sent, done.known, done.too_long), (150, 0, 0));
    check(&stream_of(broker.port, "TICKS"), 150);
    // The place says that all was taken.
    assert_eq!(send_all(&recording, &target).sent, 0);
    // Without it all is sent again, and the stream has it already.
    forget_the_place(&recording);
    let again = send_all(&recording, &target);
    assert_eq!((again.sent, again.known, again.gone), (0, 150, 0));
    check(&stream_of(broker.port, "TICKS"), 150);
}

/// A purge leaves a stream's ids, and so the server says of each message that it has it.
#[test]
fn messages_that_a_stream_says_it_has_and_has_no_more_are_told() {
    let Some(program) = nats_server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let mut writing = Writing::begin(&recording);
    writing.ticks(50);
    writing.end();
    let broker = start_nats(&program, folder.path(), None);
    let target = format!("nats://127.0.0.1:{}/TICKS", broker.port);
    assert_eq!(send_all(&recording, &target).sent, 150);
    with_stream(broker.port, "TICKS", async |stream| stream.purge().keep(30).await.expect("it is purged"));
    forget_the_place(&recording);
    let again = send_all(&recording, &target);
    assert_eq!((again.sent, again.known, again.gone), (0, 150, 120));
}

#[test]
fn what_is_recorded_while_the_broker_is_away_is_sent_when_it_is_back() {
    let Some(program) = nats_server() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let mut writing = Writing::begin(&recording);
    writing.ticks(10);
    let broker = start_nats(&program, folder.path(), None);
    let port = broker.port;
    let config = config(&recording, &format!("nats://127.0.0.1:{port}/TICKS"), false);
    let mut back = None;
    let (done, troubles) = beside(&config, 90, |progress| {
        until("what was there", || progress().sent + progress().known >= 30);
        broker.kill();
        // The recorder does not wait for anybody.
        writing.ticks(10);
        until("that it is away", || progress().trouble.is_some());
        back = Some(start_nats(&program, folder.path(), Some(port)));
        until("what came meanwhile", || progress().sent + progress().known >= 60);
        writing.ticks(10);
    });
    assert_eq!(done.behind, 0);
    assert!(troubles.iter().any(|text| text.contains(&format!("nats://127.0.0.1:{port}/TICKS"))), "{troubles:?}");
    check(&stream_of(port, "TICKS"), 90);
    drop(back);
}
