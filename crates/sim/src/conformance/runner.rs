//! Running of scenarios: what is done at each step, and what has to have come.

use super::chain::{Chain, SECOND, Set, Variant};
use super::servers::{Deed, Out, Servers};
use rwf::msg::{Domain, Msg};
use rwf::rdm::directory::{self as rdm_directory, Part, Service, filter};
use rwf::rdm::login;
use scenario::directory;
use scenario::encoding::bytes_of;
use scenario::numbers::{DIRECTORY_STREAM, ServiceIds};
use scenario::script::{Scenario, Step};
use scenario::special;
use scenario::words::{ReceivedMessage, Words, build, is_word};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

const LOGIN: i32 = 1;

/// A step that did not go as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Title of the scenario.
    pub scenario: String,
    /// The variant in which it failed.
    pub variant: Variant,
    /// Line in the file, from 1.
    pub line: usize,
    /// What was expected there.
    pub expected: String,
    /// What was got instead.
    pub got: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, variant, line, expected, got } = self;
        write!(f, "line {line}, variant {}: {scenario}\n  expected: {expected}\n  got: {got}", variant.name())
    }
}

/// Runs a scenario in a variant. `false` if it is not one for that variant.
///
/// # Errors
/// The first step that does not go as it says, or what is left over at the end.
pub fn run(scenario: &Scenario, variant: Variant) -> Result<bool, Failure> {
    if !variant.is_one_of(&scenario.only) {
        return Ok(false);
    }
    let set = Set::new(&scenario.settings, variant);
    let set = set.map_err(|why| failure(scenario, variant, last_line(scenario), "settings that there are", why))?;
    run_at(scenario, variant, Chain::new(set, variant)).map(|()| true)
}

fn last_line(scenario: &Scenario) -> usize {
    scenario.steps.last().map_or(0, |step| step.line)
}

fn failure(scenario: &Scenario, variant: Variant, line: usize, expected: &str, got: String) -> Failure {
    Failure { scenario: scenario.title.clone(), variant, line, expected: expected.to_owned(), got }
}

/// Runs a scenario at servers that are set up as it says, and as the variant says that its steps are for.
///
/// # Errors
/// The first step that does not go as it says, or what is left over at the end.
pub fn run_at(scenario: &Scenario, variant: Variant, servers: impl Servers) -> Result<(), Failure> {
    let mut world = World { servers, actors: BTreeMap::new(), by_number: Vec::new() };
    for step in scenario.steps.iter().filter(|step| variant.is_one_of(&step.only)) {
        // A broken invariant of a machine is a failure of the step that broke it.
        let done = catch_unwind(AssertUnwindSafe(|| world.step(step)));
        let done = done.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default())
        });
        done.map_err(|got| failure(scenario, variant, step.line, &step.text, got + &world.left_of_others(step)))?;
    }
    for (name, actor) in &world.actors {
        if let Some(told) = actor.incoming.first() {
            let got = format!("{name} also got {}", actor.line(told));
            return Err(failure(scenario, variant, last_line(scenario), "no more than the steps say", got));
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Consumer,
    /// A provider that is dialled; the number of its route.
    Interactive(u16),
    NonInteractive,
}

/// A consumer or provider of the scenario.
#[derive(Debug)]
struct Actor {
    role: Role,
    number: u32,
    /// Ids of services on its connection.
    services: ServiceIds,
    /// The offer of a provider.
    offered: Vec<Service>,
    /// What the login of a provider says that it can do.
    features: login::Features,
    /// What came and was not expected yet, in order.
    incoming: Vec<ReceivedMessage>,
    /// What came on the streams of login and directory of providers, and of the directory of consumers. Steps look for what concerns them.
    aside: Vec<ReceivedMessage>,
    directory: Vec<(String, Vec<String>)>,
    /// Streams of a provider by name.
    streams: BTreeMap<String, i32>,
    next_stream: i32,
    closed: Option<String>,
}

impl Actor {
    fn stream_name(&self, stream: i32) -> String {
        match stream {
            LOGIN => "login".to_owned(),
            DIRECTORY_STREAM => "directory".to_owned(),
            stream => {
                let named = self.streams.iter().find(|(_, id)| **id == stream).map(|(name, _)| name.clone());
                named.unwrap_or_else(|| stream.to_string())
            }
        }
    }

    fn line(&self, told: &ReceivedMessage) -> String {
        told.line(&self.stream_name(told.stream))
    }

    /// There is something that no step has expected.
    fn has_news(&self) -> bool {
        !self.incoming.is_empty() || self.closed.is_some()
    }

    fn lines(&self) -> String {
        let lines: Vec<String> = self.incoming.iter().map(|told| self.line(told)).collect();
        let closed = self.closed.iter().map(|why| format!("the connection is closed: {why}"));
        let all: Vec<String> = lines.into_iter().chain(closed).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join("\n       ") }
    }
}

struct World<S> {
    servers: S,
    actors: BTreeMap<String, Actor>,
    /// Names by the numbers of connections.
    by_number: Vec<String>,
}

impl<S: Servers> World<S> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["after", time, "s"] => {
                let seconds: f64 = time.parse().map_err(|_| "after SECONDS s")?;
                self.servers.happens(Deed::Time((seconds * SECOND as f64) as u64))?;
            }
            ["distributor", number, "dies"] => {
                let number = number.parse::<usize>().map_err(|_| "a number")?;
                self.servers.happens(Deed::Dies(number - 1))?;
            }
            ["distributor", number, "starts"] => {
                let number = number.parse::<usize>().map_err(|_| "a number")?;
                self.servers.happens(Deed::Starts(number - 1))?;
            }
            [name, "comes", "up", "with", services, ..] => self.comes_up(name, services, &step.words[5..])?,
            [name, "publishes", services, ..] => self.publishes(name, services, &step.words[3..])?,
            [name, "connects", ..] => self.connects(name, &step.words[2..])?,
            [name, "logs", "in", ..] => self.logs_in(name, &step.words[3..])?,
            [name, "goes", "away"] => self.goes_away(name)?,
            [name, "is", "behind", "by", bytes] => {
                let number = self.actor(name)?.number;
                self.servers.happens(Deed::Backlog(number, bytes.parse().map_err(|_| "a number of bytes")?))?;
            }
            ["operator", "blocks", what] => self.servers.happens(Deed::Blocks(what))?,
            ["operator", "unblocks", what] => self.servers.happens(Deed::Unblocks(what))?,
            ["operator", "dismisses", name, why] => {
                let number = self.actor(name)?.number;
                self.servers.happens(Deed::Dismisses(number, why.trim_matches('"')))?;
            }
            ["operator", "switches", service, "to", name] => {
                let number = self.actor(name)?.number;
                self.servers.happens(Deed::Switches(service, number))?;
            }
            [name, "sends", "DIRECTORY", service, ..] => {
                let actor = self.actor(name)?;
                let bytes = directory::change(service, &step.words[4..], &actor.services)?;
                self.send(name, &bytes)?;
            }
            [name, "sends", "STANDBY", of, part] => {
                let bytes = special::standby(of, part, &self.actor(name)?.services)?;
                self.send(name, &bytes)?;
            }
            [name, "sends", "DICTIONARY", stream, fields, how] => {
                let stream = self.actor(name)?.streams.get(*stream).copied();
                let stream = stream.ok_or("the dictionary is not open")?;
                self.send(name, &special::dictionary(stream, fields, *how == "solicited")?)?;
            }
            [name, "gets", "parts", "of", stream, ..] => self.gets_parts(name, stream, &step.words[5..])?,
            [name, "sends", "REQUEST", "login", ..] => {
                let bytes = login_request(&step.words[4..])?;
                self.send(name, &bytes)?;
            }
            [name, "sends", class, stream, ..] => self.sends(name, class, stream, &step.words[4..])?,
            [name, "gets", "nothing"] => {
                let actor = self.actor(name)?;
                if actor.has_news() {
                    return Err(actor.lines());
                }
            }
            [name, "is", "closed", ..] => {
                let text = step.words.get(3).map_or("", |text| text.trim_matches('"'));
                self.patiently(|world| world.is_closed(name, text))?;
            }
            [name, "gets", "DIRECTORY", service, ..] => self.gets_directory(name, service, &step.words[4..])?,
            [name, "gets", class, stream, "as", known_as, ..] => {
                self.gets(name, class, stream, Some(known_as), &step.words[6..])?;
            }
            [name, "gets", class, stream, ..] => self.gets(name, class, stream, None, &step.words[4..])?,
            _ => return Err("this is no step that there is".to_owned()),
        }
        self.hear()
    }

    /// What those have got, and no step has expected yet, that a step is not about: often the reason why that fails.
    fn left_of_others(&self, step: &Step) -> String {
        let others = self.actors.iter().filter(|(name, actor)| step.words.first() != Some(name) && actor.has_news());
        let lines: Vec<String> = others.map(|(name, actor)| format!("{name} got {}", actor.lines())).collect();
        if lines.is_empty() { String::new() } else { format!("\n       beside it {}", lines.join("\n       and ")) }
    }

    fn actor(&self, name: &str) -> Result<&Actor, String> {
        self.actors.get(name).ok_or_else(|| format!("{name} has not come yet"))
    }

    fn actor_mut(&mut self, name: &str) -> Result<&mut Actor, String> {
        self.actors.get_mut(name).ok_or_else(|| format!("{name} has not come yet"))
    }

    fn enter(&mut self, name: &str, role: Role, offered: Vec<Service>) -> u32 {
        let number = self.by_number.len() as u32;
        self.by_number.push(name.to_owned());
        let services = offered.iter().filter_map(|service| Some((service.name()?.to_owned(), service.id))).collect();
        let actor = Actor {
            role,
            number,
            services,
            offered,
            features: login::Features { post: Some(true), ..login::Features::default() },
            incoming: Vec::new(),
            aside: Vec::new(),
            directory: Vec::new(),
            streams: BTreeMap::new(),
            next_stream: 5,
            closed: None,
        };
        self.actors.insert(name.to_owned(), actor);
        number
    }

    fn offers(services: &str, first: u16, words: &mut Words<'_>) -> Result<Vec<Service>, String> {
        let ids = (first..).step_by(10);
        services.split(',').zip(ids).map(|(name, id)| directory::offer(id, name, words)).collect()
    }

    fn comes_up(&mut self, name: &str, services: &str, words: &[String]) -> Result<(), String> {
        let route = name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<u16>();
        let route = route.map_err(|_| "a provider that is dialled has a number in its name, that of its route")?;
        let mut words = Words::new(words);
        let at = words.number::<usize>("at")?.unwrap_or(1) - 1;
        let offered = Self::offers(services, 100 * route, &mut words)?;
        let features = login::Features {
            post: Some(!words.flag("no-posts")),
            optimized_pause_resume: words.flag("pauses").then_some(true),
            ..login::Features::default()
        };
        words.end()?;
        let number = self.enter(name, Role::Interactive(route - 1), offered);
        self.actor_mut(name)?.features = features;
        self.servers.session_up(number, at, Some(route - 1))?;
        // Between processes the requests of a session may be on their way for longer than the servers take to be at rest.
        self.patiently(|world| {
            let actor = world.actor(name)?;
            let is_asked = |told: &ReceivedMessage| told.class == "REQUEST" && told.domain == Domain::SOURCE;
            if actor.closed.is_some() || actor.aside.iter().any(is_asked) {
                Ok(())
            } else {
                Err(format!("its directory was not asked for: {}", actor.lines()))
            }
        })
    }

    fn publishes(&mut self, name: &str, services: &str, words: &[String]) -> Result<(), String> {
        let mut words = Words::new(words);
        let at = words.number::<usize>("at")?.unwrap_or(1) - 1;
        let offered = Self::offers(services, 7_000, &mut words)?;
        words.end()?;
        let number = self.enter(name, Role::NonInteractive, offered.clone());
        self.servers.session_up(number, at, None)?;
        let request =
            login::Request { name: name.to_owned(), role: Some(login::ROLE_PROVIDER), ..login::Request::default() };
        self.send(name, &bytes_of(|w| request.encode(w))?)?;
        let is_login = |told: &&ReceivedMessage| told.class == "REFRESH" && told.domain == Domain::LOGIN;
        self.patiently(|runner| {
            let actor = runner.actor(name)?;
            let accepted =
                actor.aside.iter().find(is_login).is_some_and(|told| told.differs(&["Open/Ok".into()]).is_none());
            if accepted {
                Ok(())
            } else {
                Err(format!("its login is not accepted: {:?} {}", actor.aside, actor.lines()))
            }
        })?;
        let refresh = rdm_directory::Refresh {
            solicited: false,
            stream_id: DIRECTORY_STREAM,
            ..rdm_directory::Refresh::answer(&directory_request(), offered)
        };
        self.send(name, &bytes_of(|w| refresh.encode(w))?)
    }

    fn connects(&mut self, name: &str, words: &[String]) -> Result<(), String> {
        let mut words = Words::new(words);
        let at = words.number::<usize>("at")?.unwrap_or(1) - 1;
        words.end()?;
        let number = self.enter(name, Role::Consumer, Vec::new());
        self.servers.client_up(number, at)
    }

    /// Connects, logs in and asks for the directory; both are granted.
    fn logs_in(&mut self, name: &str, words: &[String]) -> Result<(), String> {
        let (at, login): (Vec<String>, Vec<String>) = words.iter().cloned().partition(|word| word.starts_with("at="));
        let (directory, login): (Vec<String>, Vec<String>) =
            login.into_iter().partition(|word| word.starts_with("directory="));
        self.connects(name, &at)?;
        self.send(name, &login_request(&login)?)?;
        self.gets(name, "REFRESH", "login", None, &["Open/Ok".to_owned(), "solicited".to_owned()])?;
        let asked = Words::new(&directory).number("directory")?;
        let request = rdm_directory::Request { filter: asked.unwrap_or(filter::ALL), ..directory_request() };
        self.send(name, &bytes_of(|w| request.encode(w))?)?;
        self.patiently(|runner| {
            let actor = runner.actor(name)?;
            if actor.aside.iter().any(|told| told.class == "REFRESH" && told.domain == Domain::SOURCE) {
                Ok(())
            } else {
                Err(format!("no directory came: {}", actor.lines()))
            }
        })
    }

    fn goes_away(&mut self, name: &str) -> Result<(), String> {
        let actor = self.actor(name)?;
        let number = actor.number;
        match actor.role {
            Role::Consumer => self.servers.client_down(number),
            Role::Interactive(_) | Role::NonInteractive => self.servers.session_down(number),
        }
        self.hear()?;
        // The actor's streams are gone with it. Messages of before have to have been expected.
        let actor = self.actor_mut(name)?;
        if !actor.incoming.is_empty() {
            return Err(format!("before it went it also got {}", actor.lines()));
        }
        Ok(())
    }

    fn send(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let actor = self.actor(name)?;
        let number = actor.number;
        match actor.role {
            Role::Consumer => self.servers.consumer_message(number, bytes),
            Role::Interactive(_) | Role::NonInteractive => self.servers.provider_message(number, bytes),
        }
    }

    fn sends(&mut self, name: &str, class: &str, stream: &str, words: &[String]) -> Result<(), String> {
        let actor = self.actor_mut(name)?;
        let mut words = words.to_vec();
        let id = match (stream, actor.role) {
            ("login", _) => LOGIN,
            ("directory", _) => DIRECTORY_STREAM,
            (number, Role::Consumer) => number.parse().map_err(|_| format!("{number} is no number of a stream"))?,
            (item, Role::Interactive(_)) => {
                *actor.streams.get(item).ok_or_else(|| format!("{item} is not open at {name}"))?
            }
            (item, Role::NonInteractive) => {
                let next = actor.next_stream;
                let id = *actor.streams.entry(item.to_owned()).or_insert(next);
                actor.next_stream += i32::from(id == next);
                // A published message says what it is about.
                if class == "REFRESH" {
                    words.push(format!("item={item}"));
                    if !words.iter().any(|word| word.starts_with("service=")) {
                        let service = actor.services.keys().next().cloned().unwrap_or_default();
                        words.push(format!("service={service}"));
                    }
                }
                id
            }
        };
        if id == LOGIN && !words.iter().any(|word| word.starts_with("domain=")) {
            words.push("domain=Login".to_owned());
        }
        let services = actor.services.clone();
        let bytes = build(class, id, &words, &services)?;
        self.send(name, &bytes)
    }

    /// Looks for something again as long as more may come.
    fn patiently(&mut self, look: impl Fn(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.hear()?;
        loop {
            match look(self) {
                Err(_) if self.servers.wait() => self.hear()?,
                done => return done,
            }
        }
    }

    fn is_closed(&self, name: &str, text: &str) -> Result<(), String> {
        let actor = self.actor(name)?;
        let why = actor.closed.as_ref().ok_or_else(|| format!("it is connected, and got {}", actor.lines()))?;
        if why.contains(text) || !self.servers.says_why_closed() { Ok(()) } else { Err(format!("closed: {why}")) }
    }

    fn gets(
        &mut self,
        name: &str,
        class: &str,
        stream: &str,
        known_as: Option<&str>,
        words: &[String],
    ) -> Result<(), String> {
        self.patiently(|world| world.has_got(name, class, stream, known_as, words))
    }

    fn has_got(
        &mut self,
        name: &str,
        class: &str,
        stream: &str,
        known_as: Option<&str>,
        words: &[String],
    ) -> Result<(), String> {
        let actor = self.actor_mut(name)?;
        let id = match (stream, actor.role) {
            ("login", _) => Some(LOGIN),
            ("directory", _) => Some(DIRECTORY_STREAM),
            (number, Role::Consumer) => Some(number.parse().map_err(|_| format!("{number} is no number of a stream"))?),
            (item, _) => actor.streams.get(known_as.unwrap_or(item)).copied(),
        };
        if id.is_some_and(|id| id <= DIRECTORY_STREAM && id > 0)
            && let Some(at) = actor
                .aside
                .iter()
                .position(|told| Some(told.stream) == id && told.class == class && told.differs(words).is_none())
        {
            actor.aside.remove(at);
            return Ok(());
        }
        let is_new = |told: &ReceivedMessage| {
            let bound =
                actor.streams.iter().any(|(known, id)| *id == told.stream && known_as.is_none_or(|n| n == known));
            told.class == "REQUEST" && !bound && told.item.as_deref() == Some(stream)
        };
        let at = actor.incoming.iter().position(|told| Some(told.stream) == id || is_new(told));
        let at = at.ok_or_else(|| actor.lines())?;
        let told = &actor.incoming[at];
        if told.class != class {
            return Err(actor.line(told));
        }
        if let Some(why) = told.differs(words) {
            return Err(format!("{} ({why})", actor.line(told)));
        }
        let told = actor.incoming.remove(at);
        if actor.role != Role::Consumer {
            actor.streams.insert(known_as.unwrap_or(stream).to_owned(), told.stream);
            if told.class == "CLOSE" {
                actor.streams.remove(known_as.unwrap_or(stream));
            }
        }
        Ok(())
    }

    /// An image in two parts at least, the last of which completes it.
    fn gets_parts(&mut self, name: &str, stream: &str, words: &[String]) -> Result<(), String> {
        let with = |flag: &str| [words, &[flag.to_owned()]].concat();
        self.gets(name, "REFRESH", stream, None, &with("!complete"))?;
        while self.has_got(name, "REFRESH", stream, None, &with("complete")).is_err() {
            self.gets(name, "REFRESH", stream, None, &with("!complete"))?;
        }
        Ok(())
    }

    fn gets_directory(&mut self, name: &str, service: &str, words: &[String]) -> Result<(), String> {
        self.patiently(|world| world.has_got_directory(name, service, words))
    }

    fn has_got_directory(&mut self, name: &str, service: &str, words: &[String]) -> Result<(), String> {
        let actor = self.actor_mut(name)?;
        let fits = |(of, told): &(String, Vec<String>)| {
            let has = |word: &String| match word.strip_prefix('!') {
                Some(absent) => !told.iter().any(|told| told == absent),
                None => told.iter().any(|told| is_word(told, word)),
            };
            of == service && words.iter().all(has)
        };
        let Some(at) = actor.directory.iter().position(fits) else {
            let of = actor.directory.iter().filter(|(of, _)| of == service);
            return Err(format!("of {service}: {:?}", of.map(|(_, words)| words.join(" ")).collect::<Vec<_>>()));
        };
        // Messages of before are past.
        actor.directory.drain(..=at);
        Ok(())
    }

    /// Takes what the machines have said; providers answer logins and requests for the directory by themselves.
    fn hear(&mut self) -> Result<(), String> {
        loop {
            let out = self.servers.take()?;
            if out.is_empty() {
                return Ok(());
            }
            for out in out {
                match out {
                    Out::ToProvider(number, bytes) | Out::ToConsumer(number, bytes) => self.take(number, &bytes)?,
                    Out::ProviderClosed(number, why) => {
                        self.servers.session_down(number);
                        self.close(number, why);
                    }
                    Out::ConsumerClosed(number, why) => {
                        self.servers.client_down(number);
                        self.close(number, why);
                    }
                }
            }
        }
    }

    fn close(&mut self, number: u32, why: String) {
        let name = &self.by_number[number as usize];
        if let Some(actor) = self.actors.get_mut(name).filter(|actor| actor.number == number) {
            actor.closed = Some(why);
        }
    }

    fn take(&mut self, number: u32, bytes: &[u8]) -> Result<(), String> {
        let name = self.by_number[number as usize].clone();
        // An earlier connection under the same name.
        let Some(actor) = self.actors.get_mut(&name).filter(|actor| actor.number == number) else { return Ok(()) };
        let msg = Msg::decode(bytes).map_err(|error| format!("{name} got what is no message: {error}"))?;
        if actor.role == Role::Consumer && msg.domain() == Domain::SOURCE {
            actor.learn(&msg)?;
        }
        let told = ReceivedMessage::of(bytes, &actor.services);
        let mut told = told.map_err(|error| format!("{name} got what cannot be decoded: {error}"))?;
        if msg.domain() == Domain::LOGIN
            && let Msg::Refresh(refresh) = &msg
        {
            told.words.extend(login_words(&login::Refresh::decode(refresh).map_err(|error| error.to_string())?));
        }
        let aside = match actor.role {
            Role::Consumer => told.domain == Domain::SOURCE,
            _ => [Domain::SOURCE, Domain::LOGIN].contains(&told.domain),
        };
        if aside { &mut actor.aside } else { &mut actor.incoming }.push(told);
        if let (Role::Interactive(_), Msg::Request(request)) = (actor.role, &msg) {
            let answer = match request.domain {
                Domain::LOGIN => {
                    let request = login::Request::decode(request).map_err(|error| error.to_string())?;
                    let refresh = login::Refresh::accept(&request, actor.features, "");
                    Some(bytes_of(|w| refresh.encode(w))?)
                }
                Domain::SOURCE => {
                    let request = rdm_directory::Request::decode(request);
                    let refresh = rdm_directory::Refresh::answer(&request, actor.offered.clone());
                    Some(bytes_of(|w| refresh.encode(w))?)
                }
                _ => None,
            };
            if let Some(answer) = answer {
                self.servers.provider_message(number, &answer)?;
            }
        }
        Ok(())
    }
}

impl Actor {
    /// What a message of the directory says: names with their ids, and the words of each service.
    fn learn(&mut self, msg: &Msg<'_>) -> Result<(), String> {
        let services = match msg {
            Msg::Refresh(refresh) => rdm_directory::services(refresh.container, refresh.body),
            Msg::Update(update) => rdm_directory::services(update.container, update.body),
            _ => return Ok(()),
        };
        let services = services.map_err(|error| error.to_string())?;
        for service in &services {
            if let Some(Part::Set(info) | Part::Update(info)) = &service.info {
                self.services.insert(info.name.clone(), service.id);
            }
        }
        self.directory.extend(directory::told(&services, &self.services));
        Ok(())
    }
}

fn directory_request() -> rdm_directory::Request {
    rdm_directory::Request { stream_id: DIRECTORY_STREAM, streaming: true, service_id: None, filter: filter::ALL }
}

/// `user=`, `position=`, `password=`, `app-id=`, `single-open=`, `allow-suspect=`, `pause`, `no-refresh`, `round-trip`, `snapshot`, `update-types=BITS`,
/// `no-update-types=BITS`.
fn login_request(words: &[String]) -> Result<Vec<u8>, String> {
    let mut words = Words::new(words);
    let flag = |number: Option<u8>| number.map(|number| number != 0);
    let mut request = login::Request {
        name: words.value("user").unwrap_or("user").to_owned(),
        pause: words.flag("pause"),
        no_refresh: words.flag("no-refresh"),
        streaming: !words.flag("snapshot"),
        password: words.value("password").map(str::to_owned),
        ..login::Request::default()
    };
    request.name_type = words.number("name-type")?.or(request.name_type);
    request.attributes.single_open = flag(words.number("single-open")?);
    request.attributes.allow_suspect_data = flag(words.number("allow-suspect")?);
    request.attributes.position = words.value("position").map(str::to_owned);
    request.attributes.application_id = words.value("app-id").map(str::to_owned);
    request.update_type_filter = words.number("update-types")?;
    request.negative_update_type_filter = words.number("no-update-types")?;
    request.attributes.round_trip_latency = words.flag("round-trip").then_some(2);
    words.end()?;
    bytes_of(|w| request.encode(w))
}

/// What a login refresh says that the server can do.
fn login_words(refresh: &login::Refresh) -> Vec<String> {
    let features = &refresh.features;
    let flag = |name: &str, value: Option<bool>| value.map(|value| format!("{name}={}", u8::from(value)));
    let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
    let words = [
        flag("post", features.post),
        number("batch", features.batch),
        flag("views", features.view),
        flag("standby", features.standby),
        flag("pause-resume", features.optimized_pause_resume),
        number("symbol-lists", features.enhanced_symbol_list),
        flag("single-open", refresh.attributes.single_open),
        flag("allow-suspect", refresh.attributes.allow_suspect_data),
    ];
    words.into_iter().flatten().collect()
}
