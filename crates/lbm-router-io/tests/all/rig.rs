//! Domains of this host, programs in them, routers between them, all in one thread.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use lbm::transport::EndReason;
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, Events, Loss, RequestId, Sources, Stream};
use lbm_router_io::{Config, RouterServer};

/// Longer than anything takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Lines of options by which a domain has a group of its own, and its programs take any ports.
pub(crate) fn domain(transport: &str) -> Vec<String> {
    lbm_trials::lines::lines(transport).lines().map(str::to_owned).collect()
}

pub(crate) fn options(lines: &[String]) -> Options {
    let mut options = Options::new();
    options.parse("test", &lines.join("\n")).expect("good options");
    options
}

/// The table of an endpoint.
pub(crate) fn endpoint(number: u32, lines: &[String]) -> String {
    let set: Vec<String> = lines.iter().map(|line| format!("{line:?}")).collect();
    format!("\n[[endpoint]]\ndomain = {number}\nset = [{}]\n", set.join(", "))
}

/// Messages and ends that a program has had.
#[derive(Default)]
pub(crate) struct Seen {
    /// By topic: number, payload.
    pub(crate) messages: BTreeMap<String, Vec<(u32, Vec<u8>)>>,
    /// Header codes of the last message.
    pub(crate) headers: Vec<u8>,
    pub(crate) lost: u64,
    pub(crate) ended: u32,
    pub(crate) responses: Vec<Vec<u8>>,
    /// Answers to every request.
    pub(crate) answers: bool,
}

impl Seen {
    pub(crate) fn count(&self, topic: &str) -> usize {
        self.messages.get(topic).map_or(0, Vec::len)
    }

    pub(crate) fn numbers(&self, topic: &str) -> Vec<u32> {
        self.messages.get(topic).into_iter().flatten().map(|(sqn, _)| *sqn).collect()
    }
}

impl Events for Seen {
    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        let topic = delivery.stream.topic.to_owned();
        self.messages.entry(topic).or_default().push((delivery.sqn, delivery.payload.to_vec()));
        self.headers = delivery.headers.clone().map(|header| header.expect("good headers").code()).collect();
        if let Some(request) = delivery.request.filter(|_| self.answers) {
            let answer = [b"answer to ", delivery.payload].concat();
            sources.respond(&request, &answer).expect("answered");
        }
    }
    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: Loss) {
        self.lost += u64::from(loss.count);
    }
    fn end(&mut self, _: &mut Sources, _: &Stream<'_>, _: EndReason) {
        self.ended += 1;
    }
    fn response(&mut self, _: &mut Sources, _: RequestId, payload: &[u8]) {
        self.responses.push(payload.to_vec());
    }
}

/// A program in a domain.
pub(crate) struct Program {
    pub(crate) context: Context,
    pub(crate) options: Options,
    pub(crate) seen: Seen,
}

impl Program {
    pub(crate) fn new(lines: &[String], more: &[&str]) -> Self {
        let mut lines = lines.to_vec();
        lines.extend(more.iter().map(|line| (*line).to_owned()));
        let options = options(&lines);
        Self { context: Context::new(&options).expect("a context"), options, seen: Seen::default() }
    }

    pub(crate) fn turn(&mut self) {
        self.context.poll(Some(Duration::ZERO), &mut self.seen).expect("a turn");
    }
}

pub(crate) fn router(text: &str, folder: &Path) -> RouterServer {
    RouterServer::new(&Config::parse(text, folder).expect("a good file")).expect("it opens")
}

/// Takes turns until something holds.
pub(crate) fn until(
    what: &str,
    routers: &mut [&mut RouterServer],
    programs: &mut [&mut Program],
    mut holds: impl FnMut(&mut [&mut Program]) -> bool,
) {
    let began = Instant::now();
    while !holds(programs) {
        let state = || routers.iter().map(|router| router.report().join("\n")).collect::<Vec<_>>().join("\n\n");
        assert!(began.elapsed() < PATIENCE, "{what} did not come; {}", state());
        for router in routers.iter_mut() {
            router.poll(Duration::from_micros(200)).expect("a turn");
            // Others have to be heard as well.
            for news in router.news() {
                eprintln!("{news}");
            }
        }
        for program in programs.iter_mut() {
            program.turn();
        }
    }
}
