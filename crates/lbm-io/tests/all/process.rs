//! Two processes, and a context inside another epoll set.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::{self, Ear, PATIENCE, World};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, SendFlags, Sources};
use net::tcp::{Event, Tcp, TcpConfig};
use std::os::fd::AsFd;

const TRANSPORT: &str = "LBM_IO_TEST_TRANSPORT";
const BASE: &str = "LBM_IO_TEST_OPTIONS";

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other process: answers each message of "ping" on "pong", for ever. Without the variable it is no test.
#[test]
fn echo_process() {
    let (Ok(transport), Ok(base)) = (std::env::var(TRANSPORT), std::env::var(BASE)) else { return };
    let mut options = Options::new();
    options.parse("base", &base).expect("good options");
    options.parse("own", &format!("source transport {transport}")).expect("good options");
    let mut context = Context::new(&options).expect("a context");
    let pong = context.source("pong", &options).expect("a source");
    context.receiver("ping", &options).expect("a receiver");
    let began = Instant::now();
    while began.elapsed() < 2 * PATIENCE {
        let mut echo = |sources: &mut Sources, delivery: &Delivery<'_>| {
            sources.send(pong, delivery.payload, SendFlags::FLUSH).expect("room");
        };
        context.poll(Some(Duration::from_secs(1)), &mut echo).expect("a turn");
    }
}

#[test]
fn processes_talk_over_every_transport_and_notice_the_others_death() {
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let (options, text) = world::options_and_text(&format!(
            "source transport {transport}
            receiver transport_lbtrm_activity_timeout 500
            receiver transport_lbtru_activity_timeout 500"
        ));
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "process::echo_process"])
            .env(TRANSPORT, transport)
            .env(BASE, text)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        let child = Kill(child);
        let mut context = Context::new(&options).expect("a context");
        let ping = context.source("ping", &options).expect("a source");
        context.receiver("pong", &options).expect("a receiver");
        let (mut ear, began, mut sent) = (Ear::default(), Instant::now(), 0u32);
        while ear.topic("pong").messages.len() < 100 {
            context.send(ping, &sent.to_be_bytes(), SendFlags::FLUSH).expect("room");
            sent += 1;
            context.poll(Some(Duration::from_millis(5)), &mut ear).expect("a turn");
            assert!(began.elapsed() < PATIENCE, "{transport}: {:?}", context.stats());
        }
        let heard = ear.topic("pong");
        assert!(heard.messages.windows(2).all(|w| w[0] < w[1]) && heard.lost.is_empty(), "{transport}");
        // It dies without a word.
        drop(child);
        while ear.topic("pong").ended.is_empty() {
            context.poll(Some(Duration::from_millis(50)), &mut ear).expect("a turn");
            assert!(began.elapsed() < 2 * PATIENCE, "{transport}: no end");
        }
        assert_eq!((ear.topic("pong").begun, ear.topic("pong").ended.len()), (1, 1), "{transport}");
    }
}

/// A context on a thread of its own is woken and stopped.
#[test]
fn a_context_runs_on_a_thread_of_its_own() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    for idle in [lbm_io::Idle::Block, lbm_io::Idle::Yield] {
        let options = world::options("");
        let mut context = Context::new(&options).expect("a context");
        let (waker, stop) = (context.waker(), Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            context.run(idle, &mut Ear::default(), |_| asked.load(Ordering::Relaxed)).expect("turns");
        });
        stop.store(true, Ordering::Relaxed);
        waker.wake();
        thread.join().expect("it stopped");
    }
}

/// The owner waits in a set of its own and polls only when it is told to.
#[test]
fn a_context_lives_in_another_epoll_set() {
    for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
        let mut world = World::new(&format!("source transport {transport}"));
        let options = world.options.clone();
        let source = world.left.source("md", &options).expect("a source");
        world.right.receiver("md", &options).expect("a receiver");
        let mut outer = Tcp::new(TcpConfig::default()).expect("a set");
        outer.watch(world.right.as_fd(), 7).expect("a set can be watched");
        let (mut events, mut sent, mut idle) = (Vec::new(), 0u32, 0);
        let began = Instant::now();
        while world.ear.topic("md").messages.len() < 200 {
            world.left.send(source, &sent.to_be_bytes(), SendFlags::FLUSH).expect("room");
            sent += 1;
            world.left.poll(Some(Duration::ZERO), &mut world.left_ear).expect("a turn");
            let now = net::clock::now();
            let due = world.right.timeout().map_or(u64::MAX, |at| at.saturating_sub(now));
            outer.poll(Some(Duration::from_nanos(due.min(2_000_000))), &mut events).expect("a turn");
            let timer = world.right.timeout().is_some_and(|at| at <= net::clock::now());
            if events.contains(&Event::Ready { token: 7 }) || timer {
                world.right.poll(Some(Duration::ZERO), &mut world.ear).expect("a turn");
            } else {
                idle += 1;
            }
            assert!(began.elapsed() < PATIENCE, "{transport}: {:?}", world.right.stats());
        }
        // Nothing more is sent: the set falls silent but for timers.
        let mut ready = 0;
        for _ in 0..20 {
            let _ = world.right.timeout();
            outer.poll(Some(Duration::from_millis(1)), &mut events).expect("a turn");
            ready += events.len();
            world.right.poll(Some(Duration::ZERO), &mut world.ear).expect("a turn");
        }
        assert!(ready < 15, "{transport}: readable {ready} times of 20 without anything to do; {idle}");
    }
}
