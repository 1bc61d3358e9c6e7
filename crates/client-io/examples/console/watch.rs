//! A consumer: several subscriptions in one thread, which what comes wakes.

use crate::read_lines;
use crate::values::{columns, written};
use client::queue::QueueConfig;
use client::{Event, Interest};
use client_io::{Notice, Session, SessionConfig, Subscription, Transport};
use omm::consumer::{self, ItemRequest};
use rwf::DataType;
use rwf::dictionary::{Dictionary, FieldDef};
use rwf::msg::{Domain, GenericFlags, GenericMsg, Msg, PostMsg};
use rwf::rdm::login::name_type;
use rwf::rdm::request::View;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

enum Input {
    Line(String),
    Notice(Box<Notice>),
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

struct Watch {
    session: Arc<Session>,
    dictionary: Arc<Dictionary>,
    /// By the names of their items.
    subscriptions: Vec<Subscription>,
}

pub(crate) fn run(servers: &str, user: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut config = SessionConfig::new(servers, user)?;
    let consumer = &mut config.client.consumer;
    (consumer.connections.retry_min_ns, consumer.connections.retry_max_ns) = (50_000_000, 500_000_000);
    consumer.retry_ns = 100_000_000;
    if options.contains(&"token") {
        consumer.login.name_type = Some(name_type::AUTHENTICATION_TOKEN);
        consumer.login.authentication_token = Some(std::mem::replace(&mut consumer.login.name, "\0".to_owned()));
    }
    if let Some(roots) = options.iter().find_map(|option| option.strip_prefix("roots=")) {
        config.encrypt(Some(Path::new(roots)))?;
    }
    if options.contains(&"websocket") {
        config.transport = Transport::WebSocket;
    }
    let session = Arc::new(Session::connect(config)?);
    let (give, take) = read_lines(Input::Line, std::thread::current());
    let (of_thread, wakes) = (Arc::clone(&session), std::thread::current());
    std::thread::spawn(move || {
        while of_thread.status().is_over.is_none() {
            if let Some(notice) = of_thread.next_notice(Duration::from_mins(1))
                && give.send(Some(Input::Notice(Box::new(notice)))).is_ok()
            {
                wakes.unpark();
            }
        }
    });
    let mut watch = Watch { session, dictionary: Arc::new(Dictionary::builtin()), subscriptions: Vec::new() };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        while let Ok(input) = take.try_recv() {
            match input {
                None => {
                    watch.session.end();
                    watch.session.wait(Duration::from_secs(2), |status| status.is_over.is_some());
                    return Ok(());
                }
                Some(Input::Notice(notice)) => watch.notice(*notice),
                Some(Input::Line(line)) => {
                    if let Err(error) = watch.obey(&line) {
                        println!("error\t{error}");
                    }
                }
            }
        }
        let dictionary = Arc::clone(&watch.dictionary);
        // A subscription that has ended with the session says nothing more.
        watch.subscriptions.retain_mut(|items| print_ready(items, &dictionary, &mut Context::from_waker(&waker)));
        std::thread::park();
    }
}

/// Prints what has come; false when nothing comes any more.
fn print_ready(items: &mut Subscription, dictionary: &Dictionary, context: &mut Context<'_>) -> bool {
    loop {
        match items.poll_ready(context) {
            Poll::Pending => return true,
            Poll::Ready(Err(_)) => return false,
            Poll::Ready(Ok(())) => {}
        }
        let names = items.names().to_vec();
        let Ok(batch) = items.next_batch(Some(Duration::ZERO)) else { return false };
        for message in batch {
            println!("{}", line(&names[message.item as usize], message.is_final, message.msg, dictionary));
        }
    }
}

/// A message as a line.
fn line(name: &str, is_final: bool, msg: &[u8], dictionary: &Dictionary) -> String {
    let end = if is_final { "final" } else { "" };
    match Msg::decode(msg) {
        Ok(Msg::Refresh(m)) => {
            let private = if m.flags.contains(rwf::msg::RefreshFlags::PRIVATE_STREAM) { "private" } else { "" };
            format!("refresh\t{name}\t{end}\t{private}\t{}{}", m.state, columns(m.container, m.body, dictionary))
        }
        Ok(Msg::Update(m)) => format!("update\t{name}\t{end}{}", columns(m.container, m.body, dictionary)),
        Ok(Msg::Status(m)) => {
            format!("status\t{name}\t{end}\t{}", m.state.map(|state| state.to_string()).unwrap_or_default())
        }
        Ok(Msg::Generic(m)) => format!("generic\t{name}\t{end}{}", columns(m.container, m.body, dictionary)),
        Ok(Msg::Ack(m)) => format!("ack\t{name}\t{}", m.ack_id),
        Ok(_) => format!("other\t{name}"),
        Err(error) => format!("malformed\t{name}\t{error}"),
    }
}

impl Watch {
    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Connected { server, .. } => println!("connected\t{server}"),
            Notice::Lost { server, why, .. } => println!("lost\t{server}\t{why}"),
            Notice::Client(Event::PostAnswered { id, nak, text, .. }) => {
                let nak = nak.map(|nak| nak.0.to_string()).unwrap_or_default();
                println!("answered\t{id}\t{nak}\t{text}");
            }
            Notice::Client(Event::PostUnanswered { id, .. }) => println!("unanswered\t{id}"),
            Notice::Client(Event::Consumer { event, .. }) => self.of_consumer(*event),
            _ => {}
        }
    }

    fn of_consumer(&mut self, event: consumer::Event) {
        match event {
            consumer::Event::LoggedIn(refresh) => println!("logged in\t{}", refresh.name),
            consumer::Event::LoginRefused(state) => println!("login refused\t{}", state.as_state()),
            consumer::Event::ServiceUp { name, .. } => println!("service up\t{name}"),
            consumer::Event::ServiceDown { name, .. } => println!("service down\t{name}"),
            consumer::Event::Dictionary(dictionary) => {
                println!("dictionary\t{}", dictionary.fields().count());
                self.dictionary = dictionary;
            }
            _ => {}
        }
    }

    fn obey(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        match line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().as_slice() {
            ["open", service, names, options @ ..] => {
                let interest = self.interest(service, names, options)?;
                self.subscriptions.push(self.session.subscribe_to(interest, QueueConfig::default())?);
            }
            ["close", name] => self.subscriptions.retain(|items| !items.names().iter().any(|known| known == name)),
            ["post", name, fields @ ..] => {
                let body = written(fields, &self.dictionary)?;
                let (items, place) = self.find(name)?;
                let id = items.post(place, &post(&body), true)?;
                println!("posted\t{name}\t{id}");
            }
            ["contribute", service, name, fields @ ..] => {
                let body = written(fields, &self.dictionary)?;
                let id = self.session.post_off_stream((service, name), &post(&body), true)?;
                println!("posted\t{name}\t{id}");
            }
            ["generic", name, fields @ ..] => {
                let body = written(fields, &self.dictionary)?;
                let (items, place) = self.find(name)?;
                let flags = GenericFlags::MESSAGE_COMPLETE;
                let container = DataType::FIELD_LIST;
                let generic = GenericMsg { flags, container, body: &body, ..GenericMsg::new(Domain::MARKET_PRICE, 0) };
                if !items.send_generic(place, &generic)? {
                    return Err(format!("{name} is not open").into());
                }
            }
            _ => return Err("open, close, post, contribute or generic".into()),
        }
        Ok(())
    }

    fn interest(&self, service: &str, names: &str, options: &[&str]) -> Result<Interest, Box<dyn Error>> {
        let mut request = ItemRequest::new(service, "");
        for option in options {
            match option.split_once('=').unwrap_or((option, "")) {
                ("snapshot", _) => request.streaming = false,
                ("private", _) => request.private = true,
                ("domain", number) => request.domain = Domain(number.parse()?),
                ("view", fields) => {
                    let fid = |name: &str| self.dictionary.field_named(name).map(FieldDef::fid);
                    let fids = fields.split(',').map(|name| fid(name).ok_or_else(|| format!("no field {name}")));
                    request.view = Some(View::Fields(fids.collect::<Result<_, _>>()?));
                }
                _ => return Err(format!("{option} is no option").into()),
            }
        }
        Ok(Interest { request, names: names.split(',').map(str::to_owned).collect() })
    }

    fn find(&self, name: &str) -> Result<(&Subscription, u32), String> {
        let found = self
            .subscriptions
            .iter()
            .find_map(|items| items.names().iter().position(|known| known == name).map(|place| (items, place as u32)));
        found.ok_or_else(|| format!("{name} was not opened"))
    }
}

fn post(body: &[u8]) -> PostMsg<'_> {
    PostMsg { container: DataType::FIELD_LIST, body, ..PostMsg::new(Domain::MARKET_PRICE, 0) }
}
