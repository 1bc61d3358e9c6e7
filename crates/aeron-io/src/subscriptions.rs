//! The receiving end: subscriptions, polled by a thread.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use net::Sleeper;
use net::ring::{Reader, Writer, spsc};
use rusteron_client::{
    Aeron, AeronAsyncAddSubscription, AeronControlledFragmentClosureAssembler, AeronImage, AeronSubscription, Handler,
};

use crate::client::{self, ASK_AGAIN, LOOK_AGAIN, Report, c_path, c_string};
use crate::driver::Driver;
use crate::idling::Idling;
use crate::intake::{self, Intake, Source};
use crate::{AeronError, Counters, Event, Settings};

/// Fragments of one poll.
const FRAGMENTS: usize = 256;
/// Pause before records that found the ring full are tried again, while there is no driver.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// Subscriptions to a stream. See the crate's description.
#[derive(Debug)]
pub struct Subscriptions {
    ring: Ring,
    bell: Sleeper,
    report: Arc<Report>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Wakes the thread when something has come.
    driver: Option<Arc<Driver>>,
}

/// The owner's end of the ring. It is asleep except while it is read.
struct Ring(Reader);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Subscriptions {
    /// Subscribes as soon as there is a media driver, and again whenever there is another.
    ///
    /// # Errors
    /// See [`AeronError`].
    pub fn new(settings: &Settings) -> Result<Self, AeronError> {
        let report = Arc::new(Report::default());
        let (dir, driver) = Driver::of(settings, &report)?;
        let (writer, mut reader) = spsc(settings.ring_bytes);
        let bell = Sleeper::new()?;
        reader.wake_with(bell.waker());
        reader.prepare_sleep();
        let stop = Arc::new(AtomicBool::new(false));
        let channels = settings.subscriptions();
        let poller = Poller {
            dir: c_path(&dir)?,
            channels: channels.iter().map(|channel| c_string(channel)).collect::<Result<_, _>>()?,
            settings: settings.clone(),
            report: report.clone(),
            stop: stop.clone(),
        };
        let thread = Builder::new().name("aeron receiver".into()).spawn(move || poller.run(writer))?;
        if let Some(driver) = &driver {
            driver.sleepers().add(thread.thread().clone());
        }
        Ok(Self { ring: Ring(reader), bell, report, stop, thread: Some(thread), driver })
    }

    /// Hands out what has come, at most `limit` events. `true`: there is more, though the descriptor is quiet.
    pub fn read(&mut self, limit: usize, mut to: impl FnMut(Event<'_>)) -> bool {
        self.ring.0.awake();
        // The kernel has no reason to refuse; what it would not give back is given the next time.
        let _ = self.bell.sleep(Some(Duration::ZERO));
        self.ring.0.read(limit, |tag, record| {
            if let Some(event) = intake::event(tag, record) {
                to(event);
            }
        });
        !self.ring.0.prepare_sleep()
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.report.counters()
    }

    /// What the operator should know, each once.
    pub fn warnings(&mut self) -> Vec<String> {
        self.report.warnings()
    }
}

impl AsFd for Subscriptions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            if let Some(driver) = &self.driver {
                driver.sleepers().remove(thread.thread().id());
            }
            thread.thread().unpark();
            // A thread that has panicked has said so.
            let _ = thread.join();
        }
    }
}

/// What the polling thread begins with.
struct Poller {
    dir: CString,
    channels: Vec<CString>,
    settings: Settings,
    report: Arc<Report>,
    stop: Arc<AtomicBool>,
}

/// A publication has come, or gone.
enum Change {
    Begins(Source, String),
    Ends(Source),
}

type Changes = Arc<Mutex<Vec<Change>>>;

/// One subscription.
struct Subscription {
    state: State,
    assembler: AeronControlledFragmentClosureAssembler,
}

enum State {
    Adding(AeronAsyncAddSubscription),
    Open(AeronSubscription),
    /// The driver has refused it.
    Refused(Instant),
}

impl Poller {
    fn run(self, writer: Writer) {
        let report = self.report.clone();
        let mut intake = Intake::new(writer, &report, self.settings.patience);
        while !self.stop.load(Ordering::Acquire) {
            let pause = match client::connect(&self.dir, self.settings.silence, &self.report) {
                Ok(Some(aeron)) => {
                    let why = self.serve(&aeron, &mut intake);
                    intake.end_all(&why);
                    if !self.stop.load(Ordering::Acquire) {
                        report.warn(why);
                        report.drivers_lost.fetch_add(1, Ordering::Relaxed);
                    }
                    LOOK_AGAIN
                }
                Ok(None) => LOOK_AGAIN,
                Err(e) => {
                    report.warn(client::reason(&e));
                    ASK_AGAIN
                }
            };
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.stop.load(Ordering::Acquire) {
                intake.publish();
                std::thread::sleep(TRY_AGAIN);
            }
        }
    }

    /// Polls as long as the driver lives; says why it ends.
    fn serve(&self, aeron: &Aeron, intake: &mut Intake<'_>) -> String {
        let changes = Changes::default();
        let added = (0..self.channels.len()).map(|n| self.add(aeron, n, &changes)).collect::<Result<Vec<_>, _>>();
        let mut all = match added {
            Ok(all) => all,
            Err(why) => return why,
        };
        let (mut idle, mut count_at) = (Idling::new(self.settings.idle), Instant::now());
        while !self.stop.load(Ordering::Acquire) {
            let mut work = match aeron.main_do_work() {
                Ok(work) if !aeron.is_closed() => work > 0,
                _ => return "the media driver is gone".to_owned(),
            };
            take(&changes, intake);
            work |= self.turn(aeron, &mut all, &changes, intake);
            work |= intake.publish();
            if !work && Instant::now() >= count_at {
                count_at = Instant::now() + ASK_AGAIN;
                self.report.take_counters(aeron);
            }
            idle.turn(work);
        }
        "it is stopped".to_owned()
    }

    fn add(&self, aeron: &Aeron, number: usize, changes: &Changes) -> Result<Subscription, String> {
        let asked = self.ask(aeron, number, changes)?;
        let assembler = AeronControlledFragmentClosureAssembler::new().map_err(|e| client::reason(&e))?;
        Ok(Subscription { state: State::Adding(asked), assembler })
    }

    fn ask(&self, aeron: &Aeron, number: usize, changes: &Changes) -> Result<AeronAsyncAddSubscription, String> {
        let (beginning, ending) = (changes.clone(), changes.clone());
        let begins = Handler::new(move |_: AeronSubscription, image: AeronImage| {
            let Ok(constants) = image.get_constants() else { return };
            let source = Source { subscription: number, session: constants.session_id() };
            note(&beginning, Change::Begins(source, constants.source_identity().to_owned()));
        });
        let ends = Handler::new(move |_: AeronSubscription, image: AeronImage| {
            let Ok(constants) = image.get_constants() else { return };
            note(&ending, Change::Ends(Source { subscription: number, session: constants.session_id() }));
        });
        let (channel, stream) = (&self.channels[number], self.settings.stream);
        aeron.async_add_subscription(channel, stream, Some(&begins), Some(&ends)).map_err(|e| client::reason(&e))
    }

    fn turn(&self, aeron: &Aeron, all: &mut [Subscription], changes: &Changes, intake: &mut Intake<'_>) -> bool {
        let mut work = false;
        for (number, one) in all.iter_mut().enumerate() {
            let channel = || self.channels[number].to_string_lossy();
            let next = match &one.state {
                State::Open(subscription) => {
                    if intake.poll(number) {
                        let polled = one.assembler.poll(
                            subscription,
                            intake,
                            |intake: &mut Intake<'_>, bytes, header| intake.message(bytes, &header),
                            FRAGMENTS,
                        );
                        work |= polled.is_ok_and(|fragments| fragments > 0);
                    }
                    continue;
                }
                State::Adding(adding) => match adding.poll() {
                    Ok(None) => continue,
                    Ok(Some(subscription)) => State::Open(subscription),
                    Err(e) => {
                        self.report.warn(format!("the subscription to {}: {}", channel(), client::reason(&e)));
                        State::Refused(Instant::now() + ASK_AGAIN)
                    }
                },
                State::Refused(until) if *until > Instant::now() => continue,
                State::Refused(_) => match self.ask(aeron, number, changes) {
                    Ok(adding) => State::Adding(adding),
                    Err(_) => State::Refused(Instant::now() + ASK_AGAIN),
                },
            };
            one.state = next;
            work = true;
        }
        work
    }
}

fn note(changes: &Changes, change: Change) {
    if let Ok(mut all) = changes.lock() {
        all.push(change);
    }
}

/// Tells the owner of publications that have come and gone, in their order.
fn take(changes: &Changes, intake: &mut Intake<'_>) {
    let Ok(mut all) = changes.lock() else { return };
    for change in all.drain(..) {
        match change {
            Change::Begins(source, from) => intake.begin(source, &from),
            Change::Ends(source) => {
                intake.end(source, "its publication is gone, or this end has not read for too long");
            }
        }
    }
}
