//! The cost of an application's updates: every field of every update decoded, and what a service of many items takes of memory. `peers/clients/run.sh`
//! runs this beside others.
//!
//!     consume session|connection HOST:PORT ITEMS WARMUP SECONDS
//!     consume provide ITEMS        (listens, updates each of its items ten times a second until its input ends, and says its memory)

use client::fields::Field;
use client::publication::PublicationConfig;
use client::queue::QueueConfig;
use client::visits::{Visitor, visit};
use client::{Delivery, Interest};
use client_io::{Connection, Publisher, Session, SessionConfig};
use net::memory::Memory;
use omm::consumer::ItemRequest;
use rwf::dictionary::Dictionary;
use rwf::msg::MsgClass;
use rwf::{Primitive, Real, Time};
use std::error::Error;
use std::hint::black_box;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The service of `sink-driven-src`.
const SERVICE: &str = "DIRECT_FEED";
const SECOND: u64 = 1_000_000_000;
const USAGE: &str = "consume session|connection HOST:PORT ITEMS WARMUP SECONDS, or consume provide ITEMS";

/// Messages so far.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    images: usize,
    updates: u64,
    fields: u64,
    /// All parts of all values added up, as ETA's program does, too.
    sum: u64,
}

/// Adds all parts of all values up.
struct Sum(u64);

impl Sum {
    const fn add(&mut self, value: u64) {
        self.0 = self.0.wrapping_add(value);
    }
}

impl<'a> Visitor<'a> for Sum {
    fn other(&mut self, field: Field<'a, '_>, _: Primitive<'a>) {
        panic!("{} has a value that no update of the file has", field.name());
    }
    fn real(&mut self, _: Field<'a, '_>, value: Real) {
        self.add((value.mantissa as u64).wrapping_add(u64::from(value.hint.0)));
    }
    fn uint(&mut self, _: Field<'a, '_>, value: u64) {
        self.add(value);
    }
    fn enumeration(&mut self, _: Field<'a, '_>, value: u16) {
        self.add(u64::from(value));
    }
    fn time(&mut self, _: Field<'a, '_>, value: Time) {
        let of_minute = u64::from(value.second) + u64::from(value.millisecond);
        self.add(u64::from(value.hour) + u64::from(value.minute) + of_minute);
    }
    fn text(&mut self, _: Field<'a, '_>, value: &'a [u8]) {
        self.add(value.len() as u64);
    }
}

impl Seen {
    fn take(&mut self, class: MsgClass, msg: &[u8], dictionary: &Dictionary) {
        match class {
            MsgClass::UPDATE => {
                self.updates += 1;
                let (body, mut sum) = (rwf::peek::body(msg).unwrap_or_default(), Sum(self.sum));
                let count = visit(body, dictionary, &mut sum).expect("values of the dictionary's types");
                self.fields += count as u64;
                self.sum = black_box(sum.0);
            }
            MsgClass::REFRESH => self.images += 1,
            other => panic!("the provider refuses: {other:?}"),
        }
    }
}

/// The measured time: from when all images are there and a time has passed.
struct Times {
    items: usize,
    warmup_ns: u64,
    length_ns: u64,
    all_images_at: Option<u64>,
    /// Time, processor time, and what was seen, at its begin.
    begin: Option<(u64, u64, Seen)>,
}

impl Times {
    const fn new(items: usize, warmup_s: u64, seconds: u64) -> Self {
        let (warmup_ns, length_ns) = (warmup_s * SECOND, seconds * SECOND);
        Self { items, warmup_ns, length_ns, all_images_at: None, begin: None }
    }

    /// After each batch: whether it is over, which is said.
    fn is_over(&mut self, seen: &Seen) -> bool {
        let now = net::clock::now();
        if self.all_images_at.is_none() && seen.images >= self.items {
            self.all_images_at = Some(now);
        }
        let Some((at, cpu, before)) = self.begin else {
            if self.all_images_at.is_some_and(|at| now >= at + self.warmup_ns) {
                self.begin = Some((now, net::clock::process_cpu(), *seen));
            }
            return false;
        };
        if now < at + self.length_ns {
            return false;
        }
        let (updates, took) = ((seen.updates - before.updates) as f64, net::clock::process_cpu() - cpu);
        let a_second = |ns: u64| updates / (ns as f64 / SECOND as f64);
        let each = (seen.fields - before.fields) as f64 / updates;
        println!(
            "{:.0} updates a second, of {each:.1} fields, {:.0} for a second of the processor",
            a_second(now - at),
            a_second(took)
        );
        true
    }
}

fn interest(items: usize) -> Interest {
    let names = (0..items).map(|item| format!("RDT{item}")).collect();
    Interest { request: ItemRequest::new(SERVICE, ""), names }
}

/// A session's thread reads, this one decodes.
fn session(config: SessionConfig, mut times: Times) -> Result<(), Box<dyn Error>> {
    let session = Session::connect(config)?;
    let status = session.wait(Duration::from_secs(30), |status| status.dictionary.is_some());
    let dictionary = status.dictionary.ok_or("no dictionary in 30 s")?;
    let mut items = session.subscribe_to(interest(times.items), QueueConfig::default())?;
    let mut seen = Seen::default();
    while !times.is_over(&seen) {
        for message in items.next_batch(Some(Duration::from_secs(1)))? {
            seen.take(message.class, message.msg, &dictionary);
        }
    }
    Ok(())
}

/// A single thread reads and decodes.
fn connection(config: SessionConfig, mut times: Times) -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::new(config)?;
    let dictionary: Arc<Dictionary> = loop {
        connection.turn(Some(net::clock::now() + SECOND), &mut |_, _| {})?;
        if let Some(dictionary) = connection.client.dictionary() {
            break Arc::clone(dictionary);
        }
    };
    let mut seen = Seen::default();
    connection.client.subscribe(net::clock::now(), &interest(times.items), &mut |_| {})?;
    while !times.is_over(&seen) {
        let mut take = |_, d: Delivery<'_>| seen.take(d.class, d.msg, &dictionary);
        connection.turn(Some(net::clock::now() + SECOND), &mut take)?;
    }
    Ok(())
}

/// A service of so many items, each with an image of thirty fields.
fn provide(items: usize) -> Result<(), Box<dyn Error>> {
    let before = Memory::of_self()?.resident;
    let provider = Publisher::listen(PublicationConfig::new(SERVICE), ([127, 0, 0, 1], 0).into())?;
    let dictionary = provider.dictionary();
    let reals = dictionary.fields().filter(|field| field.data_type() == rwf::DataType::REAL);
    let names: Vec<String> = reals.take(30).map(|field| field.acronym().to_owned()).collect();
    for item in 0..items {
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), Primitive::Double(item as f64 + 0.25))).collect();
        provider.publish(&format!("RDT{item}"), &fields)?;
    }
    provider.flush();
    println!("ready {}", provider.address().ok_or("no address")?);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The end of the input ends it, and so does what cannot be read.
            let _ = std::io::stdin().read(&mut [0]);
            is_over.store(true, Ordering::Relaxed);
        });
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            round += 1;
            std::thread::sleep(Duration::from_millis(100));
            for item in 0..items {
                let bid = Primitive::Double(f64::from(round) / 4.0);
                provider.publish(&format!("RDT{item}"), &[("BID", bid), ("ASK", bid)])?;
            }
        }
        Ok::<(), client_io::PublishError>(())
    })?;
    let Memory { resident, peak, .. } = Memory::of_self()?;
    let status = provider.status();
    println!(
        "{items} items of {} fields, {} connections: {:.1} MB, at most {:.1} MB, of which {:.1} MB before the first",
        names.len(),
        status.connections,
        resident as f64 / 1e6,
        peak as f64 / 1e6,
        before as f64 / 1e6
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` gives a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["provide", items] => provide(items.parse()?),
        [how @ ("session" | "connection"), address, items, warmup, seconds] => {
            let config = SessionConfig::new(address, "user")?;
            let times = Times::new(items.parse()?, warmup.parse()?, seconds.parse()?);
            if how == "session" { session(config, times) } else { connection(config, times) }
        }
        _ => Err(USAGE.into()),
    }
}
