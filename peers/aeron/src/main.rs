//! Aeron's C media driver and C client on the work that `quoteway lab` gives to LBM: round trips, one way at a rate, and one way as
//! fast as it goes. A process is a driver, a side with a client of its own, or both; `quoteway lab` says which. A side prints
//! one line of JSON. Arguments: `--help`.

mod arguments;
mod measure;
mod sides;

use std::error::Error;
use std::ffi::CString;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronImage, AeronOfferError, AeronSubscription, Handlers,
};
use rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED;
use rusteron_media_driver::{AeronDriver, AeronDriverContext};

use arguments::{Arguments, Kind, Medium};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const THERE: i32 = 1001;
const BACK: i32 = 1002;
/// Fragments of one poll.
const LIMIT: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    match (arguments.kind, arguments.is_source) {
        (Kind::Driver, _) => {
            let _driver = Driver::start(&arguments)?;
            println!("ready");
            // Until the one who started it goes.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
        }
        (Kind::Latency, true) => println!("{}", sides::ping(&arguments)?),
        (Kind::Latency, false) => sides::echo(&arguments)?,
        (Kind::Throughput, true) => println!("{}", sides::publish(&arguments)?),
        (Kind::Throughput, false) => sides::count(&arguments)?,
        (Kind::OneWay, true) => println!("{}", sides::publish_paced(&arguments)?),
        (Kind::OneWay, false) => println!("{}", sides::observe(&arguments)?),
    }
    Ok(())
}

/// The driver of a host: shared mode, one thread.
struct Driver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::result::Result<(), rusteron_media_driver::AeronCError>>>,
    _context: AeronDriverContext,
}

impl Driver {
    fn start(arguments: &Arguments) -> Result<Self> {
        let context = AeronDriverContext::new()?;
        context.set_dir(&CString::new(arguments.dir.as_str())?)?;
        context.set_dir_delete_on_start(true)?;
        context.set_dir_delete_on_shutdown(true)?;
        context.set_threading_mode(AERON_THREADING_MODE_SHARED)?;
        context.set_shared_idle_strategy(&CString::new(arguments.idle.name())?)?;
        context.set_term_buffer_sparse_file(false)?;
        context.set_ipc_term_buffer_length(arguments.term)?;
        context.set_term_buffer_length(arguments.term)?;
        // What the loss of a datagram costs less, and a slow receiver more; 128 KB otherwise.
        context.set_rcv_initial_window_length(arguments.buffer)?;
        context.set_socket_so_rcvbuf(arguments.buffer)?;
        context.set_socket_so_sndbuf(arguments.buffer)?;
        context.set_mtu_length(arguments.mtu)?;
        let (stop, thread) = AeronDriver::launch_embedded(context.clone(), false);
        Ok(Self { stop, thread: Some(thread), _context: context })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client of the driver, which may still be starting.
fn client(arguments: &Arguments) -> Result<Aeron> {
    let begun = Instant::now();
    loop {
        let context = AeronContext::new()?;
        context.set_dir(&CString::new(arguments.dir.as_str())?)?;
        context.set_error_handler(Some(|code: i32, text: &str| eprintln!("aeron error {code}: {text}")))?;
        context.set_pre_touch_mapped_memory(true)?;
        match Aeron::new(&context) {
            Ok(aeron) => {
                aeron.start()?;
                return Ok(aeron);
            }
            Err(e) if begun.elapsed() > PATIENCE => return Err(e.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn publication(aeron: &Aeron, arguments: &Arguments, stream: i32) -> Result<AeronExclusivePublication> {
    let channel = CString::new(arguments.channel(stream))?;
    Ok(aeron.async_add_exclusive_publication(&channel, stream)?.poll_blocking(PATIENCE)?)
}

fn subscription(aeron: &Aeron, arguments: &Arguments, stream: i32) -> Result<AeronSubscription> {
    let channel = CString::new(arguments.channel(stream))?;
    Ok(aeron.async_add_subscription(&channel, stream, Handlers::NONE, Handlers::NONE)?.poll_blocking(PATIENCE)?)
}

/// Waits until `so` gives something.
fn until<T>(what: &str, mut so: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = so() {
            return Ok(value);
        }
        if Instant::now() > end {
            return Err(what.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The image of a subscription.
fn image(subscription: &AeronSubscription) -> Result<AeronImage> {
    until("nobody publishes", || subscription.image_at_index(0))
}

/// Waits until a publication has a subscriber.
fn connected(publication: &AeronExclusivePublication) -> Result<()> {
    until("nobody subscribes", || publication.is_connected().then_some(()))
}

/// Offers until it is taken.
#[inline]
fn offer(publication: &AeronExclusivePublication, bytes: &[u8], arguments: &Arguments) -> Result<()> {
    loop {
        match publication.offer(bytes) {
            Ok(_) => return Ok(()),
            Err(AeronOfferError::BackPressured | AeronOfferError::AdminAction) => arguments.idle.wait(),
            Err(e) if e.is_retryable() => arguments.idle.wait(),
            Err(e) => return Err(e.into()),
        }
    }
}

/// The channel of a direction.
impl Arguments {
    fn channel(&self, stream: i32) -> String {
        let port = self.port + u16::try_from(stream - THERE).unwrap_or(0);
        let to = if stream == THERE { &self.to } else { &self.back };
        match self.medium {
            Medium::Ipc => "aeron:ipc".to_owned(),
            Medium::Udp => format!("aeron:udp?endpoint={to}:{port}"),
            Medium::Multicast => {
                // By default the fastest of several receivers says how fast it goes.
                let control = if self.boards.contains(',') { "|fc=min" } else { "" };
                format!("aeron:udp?endpoint={}:{port}|interface={}{control}", self.group, self.address)
            }
        }
    }
}
