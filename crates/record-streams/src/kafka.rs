//! Apache Kafka.

use crate::message::{Message, Taken};
use crate::target::Access;
use rskafka::BackoffConfig;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// A broker that says nothing for so long is taken for lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the records of a request, and of the longest message: what a broker takes that was not told otherwise (`message.max.bytes`, 1,048,588) with
/// room for what stands around records.
const REQUEST_BYTES: usize = 900_000;
/// Partitions and copies of a topic that is made.
const PARTITIONS: i32 = 1;
const COPIES: i16 = 1;

/// The partitions of a topic.
pub(crate) struct Kafka {
    partitions: Vec<PartitionClient>,
}

impl Kafka {
    /// Connects, and makes the topic if it is not there.
    ///
    /// # Errors
    /// What the broker or the system says.
    pub(crate) async fn connect(brokers: &[String], topic: &str, access: &Access) -> Result<Self, String> {
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
            deadline: Some(PATIENCE),
        };
        let mut builder = ClientBuilder::new(brokers.to_vec()).client_id("quoteway").backoff_config(backoff);
        if let Some((user, password)) = &access.login {
            let credentials = Credentials { username: user.clone(), password: password.clone() };
            builder = builder.sasl_config(SaslConfig::Plain(credentials));
        }
        let client = in_time(builder.build()).await?;
        let partitions = if let Some(known) = partitions_of(&client, topic).await? {
            known
        } else {
            let controller = client.controller_client().map_err(|error| error.to_string())?;
            let patience = PATIENCE.as_millis() as i32;
            in_time(controller.create_topic(topic, PARTITIONS, COPIES, patience)).await?;
            (0..PARTITIONS).collect()
        };
        let mut clients = Vec::with_capacity(partitions.len());
        for partition in partitions {
            clients.push(in_time(client.partition_client(topic, partition, UnknownTopicHandling::Retry)).await?);
        }
        if clients.is_empty() {
            return Err(format!("topic {topic} has no partition"));
        }
        Ok(Self { partitions: clients })
    }

    /// Sends messages and waits until all copies of the topic have them. Messages of an item stay in order, since they are in one partition; a gap goes into
    /// each.
    ///
    /// # Errors
    /// What the broker or the system says; some of the messages may have been taken.
    pub(crate) async fn send(&self, messages: &[Message]) -> Result<Taken, String> {
        let mut taken = Taken::default();
        let count = self.partitions.len();
        let mut of_partition: Vec<Vec<Record>> = (0..count).map(|_| Vec::new()).collect();
        for message in messages {
            let record = record_of(message);
            if record.approximate_size() > REQUEST_BYTES {
                taken.too_long += 1;
                continue;
            }
            taken.new += 1;
            match &record.key {
                Some(key) => of_partition[partition_of(key, count)].push(record),
                None => of_partition.iter_mut().for_each(|records| records.push(record.clone())),
            }
        }
        for (partition, records) in self.partitions.iter().zip(of_partition) {
            for part in parts(records) {
                in_time(partition.produce(part, Compression::NoCompression)).await?;
            }
        }
        Ok(taken)
    }
}

/// Partitions of a topic, if there is one.
async fn partitions_of(client: &Client, topic: &str) -> Result<Option<Vec<i32>>, String> {
    let topics = in_time(client.list_topics()).await?;
    Ok(topics.into_iter().find(|known| known.name == topic).map(|known| known.partitions.into_iter().collect()))
}

async fn in_time<T>(work: impl Future<Output = rskafka::client::error::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(2 * PATIENCE, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", 2 * PATIENCE.as_secs())),
    }
}

fn record_of(message: &Message) -> Record {
    let headers: BTreeMap<String, Vec<u8>> =
        message.headers().into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes())).collect();
    Record {
        key: message.item.is_some().then(|| message.key().into_bytes()),
        value: Some(message.payload.clone()),
        headers,
        timestamp: timestamp_of(message.time, SystemTime::now()),
    }
}

/// The time of a message, Unix nanoseconds, or now if it lies ahead: a broker refuses what is an hour ahead of its own clock
/// (`message.timestamp.after.max.ms`), and would refuse it for ever. The time as recorded is in the message.
fn timestamp_of(time: u64, now: SystemTime) -> DateTime<Utc> {
    let recorded = DateTime::from_timestamp_nanos(i64::try_from(time).unwrap_or(i64::MAX));
    recorded.min(DateTime::<Utc>::from(now))
}

/// Records in parts of a size that a broker takes.
fn parts(records: Vec<Record>) -> Vec<Vec<Record>> {
    let (mut parts, mut size): (Vec<Vec<Record>>, usize) = (Vec::new(), usize::MAX);
    for record in records {
        let bytes = record.approximate_size() + 64;
        if size.saturating_add(bytes) > REQUEST_BYTES {
            size = 0;
            parts.push(Vec::new());
        }
        size += bytes;
        if let Some(part) = parts.last_mut() {
            part.push(record);
        }
    }
    parts
}

/// The partition of a key, of so many: that which Kafka's own Java client takes (murmur2), so that other producers of the topic agree.
pub fn partition_of(key: &[u8], count: usize) -> usize {
    let positive = murmur2(key) & 0x7FFF_FFFF;
    positive as usize % count.max(1)
}

fn murmur2(data: &[u8]) -> u32 {
    const MIX: u32 = 0x5BD1_E995;
    let mut hash = 0x9747_B28C ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(MIX);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MIX) ^ k.wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_are_hashed_as_javas_client_does() {
        for (key, expected) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn no_message_is_ahead_of_the_clock() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let seconds = |time: u64| timestamp_of(time, now).timestamp();
        assert_eq!((seconds(999_000_000_000), seconds(1_001_000_000_000), seconds(u64::MAX)), (999, 1_000, 1_000));
    }

    #[test]
    fn requests_are_no_longer_than_a_broker_takes() {
        let record = |bytes: usize| Record {
            key: None,
            value: Some(vec![0; bytes]),
            headers: BTreeMap::new(),
            timestamp: rskafka::chrono::DateTime::from_timestamp_nanos(0),
        };
        let sizes = [400_000, 400_000, 400_000, 10, 899_000, 5];
        let parts = parts(sizes.into_iter().map(record).collect());
        let lengths: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 2, 2]);
        assert!(parts.iter().all(|part| part.iter().map(Record::approximate_size).sum::<usize>() <= REQUEST_BYTES));
    }
}
