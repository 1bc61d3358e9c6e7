//! Kafka.

use crate::brokers::{kafka_class_path, start_kafka};
use crate::{ITEMS, PATIENCE, Writing, beside, config, send_all, until};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::UnknownTopicHandling;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Key, id and content of all messages of a topic of one partition.
fn topic_of(port: u16, topic: &str) -> Vec<(String, String, Value)> {
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).expect("UTF-8");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let read = async {
            let client = ClientBuilder::new(vec![format!("127.0.0.1:{port}")]).build().await.expect("a broker");
            let partition = client.partition_client(topic, 0, UnknownTopicHandling::Error).await.expect("a topic");
            let (mut found, mut at) = (Vec::new(), 0);
            loop {
                let (records, end) = partition.fetch_records(at, 1..1_000_000, 1_000).await.expect("records");
                for record in records {
                    at = record.offset + 1;
                    let id = text(record.record.headers.get("Quoteway-Id").map(Vec::as_slice));
                    let content =
                        serde_json::from_slice(record.record.value.as_deref().unwrap_or_default()).expect("JSON");
                    found.push((text(record.record.key.as_deref()), id, content));
                }
                if at >= end {
                    return found;
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("in time")
    })
}

#[test]
fn ticks_are_in_the_topic_by_item_and_a_second_sender_goes_on_where_the_first_was() {
    let Some(class_path) = kafka_class_path() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let mut writing = Writing::begin(&recording);
    writing.ticks(50);
    let broker = start_kafka(&class_path, folder.path());
    let target = format!("kafka://127.0.0.1:{}/ticks", broker.port);
    // While it is written.
    let (done, _) = beside(&config(&recording, &target, false), 180, |progress| {
        until("what was there", || progress().sent >= 150);
        writing.ticks(10);
    });
    assert_eq!((done.sent, done.behind), (180, 0));
    writing.ticks(10);
    writing.end();
    assert_eq!(send_all(&recording, &target).sent, 30);
    let found = topic_of(broker.port, "ticks");
    let ids: BTreeSet<&str> = found.iter().map(|(_, id, _)| id.as_str()).collect();
    assert_eq!((found.len(), ids.len()), (210, 210));
    let mut of_key: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (key, _, content) in &found {
        of_key.entry(key).or_default().push(content["sequence"].as_u64().expect("a number"));
    }
    assert_eq!(of_key.len(), ITEMS.len());
    assert!(ITEMS.iter().all(|name| of_key.contains_key(format!("FEED/6/{name}").as_str())), "{of_key:?}");
    assert!(of_key.values().all(|sequences| sequences.is_sorted() && sequences.len() == 70));
}
