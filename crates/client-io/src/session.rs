//! A session: a client in a thread of its own.

use crate::connection::{Connection, Notice};
use crate::handle::{Command, Commands, Shared, State, Worker, lock};
use crate::settings::SessionConfig;
use crate::subscription::{Ended, PostFailure, SubscribeError, Subscription, written};
use client::queue::{Batch, Queue, QueueConfig};
use client::{Event, Interest, LinkId, PostError};
use omm::consumer::{self, ItemRequest};
use rwf::dictionary::Dictionary;
use rwf::msg::PostMsg;
use rwf::rdm::login;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How a session is.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// A login is accepted.
    pub is_logged_in: bool,
    /// Host and port of the server that serves, or was logged in at first, while there is a connection; before that of one that was connected to.
    pub server: Option<String>,
    /// The connections that are held at a time, most sessions one.
    pub links: Vec<Link>,
    /// Why the last login was refused, until one is accepted.
    pub refusal: Option<String>,
    /// Why the last connection was lost or not made, until one is.
    pub lost: Option<String>,
    /// Connections that were lost or could not be made.
    pub connections_lost: u64,
    /// Services that can be used.
    pub services: Vec<String>,
    /// The dictionary.
    pub dictionary: Option<Arc<Dictionary>>,
    /// Notices that nobody took in time.
    pub notices_lost: u64,
    /// The session is over: why.
    pub is_over: Option<String>,
}

/// A connection among those that a session holds at a time.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// Host and port of its server, while there is a connection.
    pub server: Option<String>,
    /// Its login is accepted.
    pub is_logged_in: bool,
    /// Warm standby by login: it is the one that serves.
    pub serves: bool,
    /// Services that can be used at it.
    pub services: Vec<String>,
    /// Warm standby by service: those that it serves.
    pub serves_in: Vec<String>,
}

#[derive(Default)]
struct Report {
    status: Status,
    notices: VecDeque<Notice>,
}

/// Notices that are kept for an owner who does not take them.
const NOTICES_MAX: usize = 4_096;
/// How long the thread may take to log out, nanoseconds.
const FAREWELL: u64 = 2_000_000_000;

impl Report {
    fn note(&mut self, notice: Notice) {
        let status = &mut self.status;
        match &notice {
            Notice::Connected { link, server } => {
                status.link(*link).server = Some(server.clone());
                status.lost = None;
            }
            Notice::Lost { link, server, why } => {
                *status.link(*link) = Link::default();
                status.lost = Some(format!("{server}: {why}"));
                status.connections_lost += 1;
            }
            Notice::Client(Event::Consumer { link, event }) => status.note(*link, event),
            Notice::Client(Event::Serves { link, service }) => {
                for (at, known) in status.links.iter_mut().enumerate() {
                    match service {
                        None => known.serves = at == link.index(),
                        Some(service) => {
                            known.serves_in.retain(|served| served != service);
                            if at == link.index() {
                                known.serves_in.push(service.clone());
                            }
                        }
                    }
                }
            }
            Notice::Client(_) => {}
        }
        status.sum_up();
        if self.notices.len() >= NOTICES_MAX {
            self.notices.pop_front();
            self.status.notices_lost += 1;
        }
        self.notices.push_back(notice);
    }
}

impl Status {
    fn link(&mut self, link: LinkId) -> &mut Link {
        if self.links.len() <= link.index() {
            self.links.resize_with(link.index() + 1, Link::default);
        }
        &mut self.links[link.index()]
    }

    fn note(&mut self, link: LinkId, event: &consumer::Event) {
        match event {
            consumer::Event::LoggedIn(_) => {
                self.link(link).is_logged_in = true;
                self.refusal = None;
            }
            consumer::Event::LoginRefused(state) => {
                self.link(link).is_logged_in = false;
                self.refusal = Some(state.as_state().to_string());
            }
            consumer::Event::ServiceUp { name, .. } => {
                let services = &mut self.link(link).services;
                if !services.contains(name) {
                    services.push(name.clone());
                }
            }
            consumer::Event::ServiceDown { name, .. } => {
                let link = self.link(link);
                link.services.retain(|up| up != name);
                link.serves_in.retain(|served| served != name);
            }
            consumer::Event::Dictionary(dictionary) => self.dictionary = Some(Arc::clone(dictionary)),
            _ => {}
        }
    }

    /// Figures that follow from the links.
    fn sum_up(&mut self) {
        let best =
            self.links.iter().find(|link| link.serves).or_else(|| self.links.iter().find(|link| link.is_logged_in));
        let server = best.and_then(|link| link.server.clone());
        self.server = server.or_else(|| self.links.iter().find_map(|link| link.server.clone()));
        self.is_logged_in = self.links.iter().any(|link| link.is_logged_in);
        self.services.retain(|service| self.links.iter().any(|link| link.services.contains(service)));
        for service in self.links.iter().flat_map(|link| &link.services) {
            if !self.services.contains(service) {
                self.services.push(service.clone());
            }
        }
    }
}

/// A session with the servers of a list. Dropped, it logs out.
pub struct Session {
    commands: Arc<Commands>,
    told: Arc<(Mutex<Report>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Begins: servers are dialled and logged in at by a thread of the session's own, now and after each loss. Subscriptions can be made at once.
    ///
    /// # Errors
    /// The system gives no sockets or no thread.
    pub fn connect(config: SessionConfig) -> io::Result<Self> {
        let dictionary = config.client.dictionary.clone();
        let mut connection = Connection::new(config)?;
        let commands = Arc::new(Commands { waiting: Mutex::default(), waker: connection.waker() });
        let told: Arc<(Mutex<Report>, Condvar)> = Arc::default();
        lock(&told.0).status.dictionary = dictionary;
        let (of_thread, tells) = (Arc::clone(&commands), Arc::clone(&told));
        let thread = Builder::new().name("session".to_owned()).spawn(move || run(connection, &of_thread, &tells))?;
        Ok(Self { commands, told, thread: Some(thread) })
    }

    /// Subscribes to market prices of a service, streaming, all fields.
    ///
    /// # Errors
    /// Too many items, or the session is over.
    pub fn subscribe<N: Into<String>>(
        &self,
        service: &str,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Subscription, SubscribeError> {
        let names = names.into_iter().map(Into::into).collect();
        self.subscribe_to(Interest { request: ItemRequest::new(service, ""), names }, QueueConfig::default())
    }

    /// Subscribes: domain, view, snapshot and the like are those of the interest's request; the queue says what becomes of an application that is
    /// slower than its data.
    ///
    /// # Errors
    /// Too many items, or the session is over.
    pub fn subscribe_to(&self, interest: Interest, queue: QueueConfig) -> Result<Subscription, SubscribeError> {
        let names = interest.names.clone();
        let queue = Queue::new(queue, names.len());
        let state = State { queue, task: None, is_over: None, id: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), ready: Condvar::new() });
        let (answer, answered) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        self.give(Box::new(move |worker, now| {
            // The caller waits for the answer.
            let _ = answer.send(subscribe(worker, now, &interest, of_thread));
        }));
        answered.recv().map_err(|_| SubscribeError::Ended(self.ended()))?.map_err(SubscribeError::Open)?;
        Ok(Subscription { names, shared, commands: Arc::clone(&self.commands), batch: Batch::default(), at: 0 })
    }

    /// How it is now.
    pub fn status(&self) -> Status {
        lock(&self.told.0).status.clone()
    }

    /// Waits until the status is as `is_so` says, at most as long as `timeout`; gives the status then.
    pub fn wait(&self, timeout: Duration, mut is_so: impl FnMut(&Status) -> bool) -> Status {
        let until = Instant::now() + timeout;
        let mut told = lock(&self.told.0);
        while !is_so(&told.status) && told.status.is_over.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            told = self.told.1.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        told.status.clone()
    }

    /// The next notice; waits for one at most as long as `timeout`.
    pub fn next_notice(&self, timeout: Duration) -> Option<Notice> {
        let until = Instant::now() + timeout;
        let mut told = lock(&self.told.0);
        loop {
            if let Some(notice) = told.notices.pop_front() {
                return Some(notice);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || told.status.is_over.is_some() {
                return None;
            }
            told = self.told.1.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Leaves servers for the preferred ones of their lists, where they are others (EMA's `fallbackPreferredHost`). Gives how many are left.
    ///
    /// # Errors
    /// The session is over.
    pub fn fall_back(&self) -> Result<usize, Ended> {
        let (answer, answered) = mpsc::channel();
        self.give(Box::new(move |worker, now| {
            // The caller waits for the answer.
            let _ = answer.send(worker.fall_back(now));
        }));
        answered.recv().map_err(|_| self.ended())
    }

    fn ended(&self) -> Ended {
        Ended(self.status().is_over.unwrap_or_else(|| "it has ended".to_owned()))
    }

    /// Changes the login, such as its token, here and at all servers.
    pub fn reissue_login(&self, change: impl Fn(&mut login::Request) + Send + 'static) {
        self.give(Box::new(move |worker, _| worker.connection.client.reissue_login(change)));
    }

    /// Pauses all that is open, or goes on, with one message to each server. A server that cannot goes on sending; what a subscription pauses itself
    /// ([`Subscription::pause`]) rests with each.
    pub fn pause(&self, is_paused: bool) {
        self.reissue_login(move |login| login.pause = is_paused);
    }

    /// Posts to an item that need not be open here, on the stream of the login. With `wants_ack` a notice tells the answer under the id that is given
    /// here.
    ///
    /// # Errors
    /// The server has no such service now, too many posts wait, the message cannot be written, or the session is over.
    pub fn post_off_stream(
        &self,
        (service, name): (&str, &str),
        post: &PostMsg<'_>,
        wants_ack: bool,
    ) -> Result<u32, PostFailure> {
        let (service, name, bytes) = (service.to_owned(), name.to_owned(), written(post)?);
        let (answer, answered) = mpsc::channel();
        self.give(Box::new(move |worker, now| {
            let sent = PostMsg::decode(&bytes)
                .map_err(|_| PostError::NotOpen)
                .and_then(|post| worker.connection.client.post_off_stream(now, (&service, &name), &post, wants_ack));
            // The caller waits for the answer.
            let _ = answer.send(sent);
        }));
        answered.recv().map_err(|_| PostFailure::Ended(self.ended()))?.map_err(PostFailure::Post)
    }

    /// Connects again after a refused login.
    pub fn restart(&self) {
        self.give(Box::new(|worker, now| worker.connection.client.restart(now)));
    }

    /// Logs out, and ends: subscriptions hear of it.
    pub fn end(&self) {
        self.give(Box::new(|worker, _| worker.is_ending = true));
    }

    fn give(&self, command: Command) {
        self.commands.give(command);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told to all who wait.
            let _ = thread.join();
        }
    }
}

fn subscribe(
    worker: &mut Worker,
    now: u64,
    interest: &Interest,
    shared: Arc<Shared>,
) -> Result<(), consumer::OpenError> {
    let mut batch = Batch::default();
    let Worker { connection, subscriptions, .. } = worker;
    let id = connection.client.subscribe(now, interest, &mut |d| {
        let client::Delivery { subscription, item, class, is_final, msg } = d;
        // The number of the new subscription is nobody's yet.
        let place = subscriptions.get_mut(subscription.index()).and_then(Option::as_mut);
        let batch = place.map_or(&mut batch, |(_, batch)| batch);
        batch.push(client::queue::Message { item, received_ns: now, class, is_final, msg });
    })?;
    lock(&shared.state).id = Some(id);
    if worker.subscriptions.len() <= id.index() {
        worker.subscriptions.resize_with(id.index() + 1, || None);
    }
    worker.subscriptions[id.index()] = Some((shared, batch));
    worker.hand_over(now);
    Ok(())
}

/// The thread.
fn run(connection: Connection, commands: &Commands, told: &(Mutex<Report>, Condvar)) {
    let mut end =
        End { why: "the session's thread has panicked".to_owned(), worker: Worker::new(connection), commands, told };
    end.why = end.serve();
}

/// Says to all who wait that it is over, also when the thread panics.
struct End<'s> {
    why: String,
    worker: Worker,
    commands: &'s Commands,
    told: &'s (Mutex<Report>, Condvar),
}

impl End<'_> {
    fn serve(&mut self) -> String {
        let mut until = None;
        loop {
            let now = net::clock::now();
            for command in std::mem::take(&mut *lock(&self.commands.waiting)) {
                command(&mut self.worker, now);
            }
            if self.worker.is_ending && until.is_none() {
                until = Some(now + FAREWELL);
                self.worker.connection.client.shut_down(now, &mut |_| {});
                self.worker.connection.set_reading(true);
            }
            if until.is_some_and(|until| now >= until || !self.worker.connection.is_connected()) {
                return "the session was ended".to_owned();
            }
            if let Err(e) = self.worker.turn(until) {
                return format!("no sockets: {e}");
            }
            if !self.worker.notices.is_empty() {
                let mut all = lock(&self.told.0);
                self.worker.notices.drain(..).for_each(|notice| all.note(notice));
                self.told.1.notify_all();
            }
        }
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        lock(&self.told.0).status.is_over = Some(self.why.clone());
        self.told.1.notify_all();
        for (shared, _) in self.worker.subscriptions.iter().flatten() {
            let mut state = lock(&shared.state);
            state.is_over = Some(self.why.clone());
            shared.notify(state);
        }
        // Callers that wait for an answer hear that there will be none.
        lock(&self.commands.waiting).clear();
    }
}
