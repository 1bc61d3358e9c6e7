//! The items of a list, delayed, and their publisher at a Source Distributor.

use super::{Args, SECOND};
use crate::places::Places;
use net::tcp::ConnId;
use omm::publisher::{self, Publisher, PublisherConfig, StreamId};
use omm::{ConnectionList, Server};
use omm_io::{Client, Closed};
use record_io::delay::{Delayed, DelayedConfig, Key, Output, Rules, quality};
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::image::Image;
use rwf::msg::{Domain, Msg, RefreshMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Service, ServiceState};
use rwf::rdm::{dictionary, login};
use rwf::wire::Writer;
use rwf::{Qos, State};
use std::collections::BTreeMap;
use std::io;

/// Payload in a part of an image, bytes.
const IMAGE_PART: usize = 30_000;
/// Room for a message, bytes.
const ROOM: usize = 128_000;

/// The output.
struct Published {
    service_id: u16,
    publisher: Client<Publisher, Places>,
    streams: BTreeMap<Key, StreamId>,
    buf: Vec<u8>,
}

pub(super) struct Relay {
    delayed: Delayed<Places>,
    output: Published,
    /// The images are to go out, on a new connection.
    begin: bool,
}

impl Relay {
    pub(super) fn new(args: &Args, rules: Rules, names: &[String], (from, to): (Places, Places)) -> io::Result<Self> {
        let services = vec![service(args, &rules.delays())];
        let config = DelayedConfig {
            service: args.service.clone(),
            user: args.user.clone(),
            rules,
            journal: args.journal.clone(),
            segment: args.file_seconds * SECOND,
            bytes_max: args.disk_limit << 20,
            tell: |line| eprintln!("{line}"),
        };
        let mut delayed = Delayed::new(config, from)?;
        let wanted = args.domains.iter().flat_map(|domain| names.iter().map(move |name| (*domain, name)));
        for (domain, name) in wanted {
            delayed.open_known(0, &Key { domain, name: name.as_str().into() })?;
        }
        let attributes = login::Attributes {
            application_id: Some("256".to_owned()),
            application_name: Some("delay".to_owned()),
            position: Some("127.0.0.1/net".to_owned()),
            ..login::Attributes::default()
        };
        let role = Some(login::ROLE_PROVIDER);
        let login = login::Request { name: args.user.clone(), attributes, role, ..login::Request::default() };
        let connections = ConnectionList::new(vec![Server::new("", 0)]);
        let config = PublisherConfig { connections, login, services, login_timeout_ns: 45 * SECOND };
        Ok(Self {
            delayed,
            output: Published {
                service_id: args.service_id,
                publisher: Client::new(Publisher::new(config), to),
                streams: BTreeMap::new(),
                buf: vec![0; ROOM],
            },
            begin: false,
        })
    }

    /// Connects, plays what is due, keeps the journal in its bounds, sends.
    ///
    /// # Errors
    /// The journal cannot be read or written: what is published would not be true any more.
    pub(super) fn work(&mut self, now: u64, wall: u64, io: &mut RsslIo) -> io::Result<()> {
        self.delayed.work(now, wall, io)?;
        self.delayed.forget_arrivals();
        if let Err(error) = self.output.publisher.connect(now, io) {
            tell(&format!("{}: {error}; trying again", self.output.publisher.server()));
        }
        self.take_target_events();
        self.delayed.play(wall, std::mem::take(&mut self.begin), &mut self.output)?;
        self.delayed.send(now, io);
        self.output.publisher.send(now, io);
        Ok(())
    }

    fn take_target_events(&mut self) {
        while let Some(event) = self.output.publisher.role.poll_event() {
            match event {
                publisher::Event::Ready(_) => {
                    eprintln!("published at {}", self.output.publisher.server());
                    self.begin = true;
                }
                publisher::Event::Lost => {
                    eprintln!("{} is lost: published again when it is back", self.output.publisher.server());
                }
                publisher::Event::LoginRefused(state) => {
                    tell(&format!("the login at {} is refused: {}", self.output.publisher.server(), state.as_state()));
                }
                _ => {}
            }
        }
    }
}

impl Published {
    fn stream(&mut self, key: &Key) -> Option<StreamId> {
        if let Some(stream) = self.streams.get(key) {
            return Some(*stream);
        }
        let stream = self.publisher.role.open(Domain(key.domain), self.service_id, &*key.name)?;
        self.streams.insert(key.clone(), stream);
        Some(stream)
    }
}

impl Output for Published {
    fn image(&mut self, key: &Key, image: &Image, qos: Qos, lock: Option<&[u8]>) {
        let Some(stream) = self.stream(key) else { return };
        let mut parts = image.parts(RefreshMsg::new(Domain(key.domain), 0), IMAGE_PART);
        while !parts.is_done() {
            let mut w = Writer::new(&mut self.buf);
            if parts.write(&mut w).is_err() {
                return;
            }
            if let Ok(Msg::Refresh(refresh)) = Msg::decode(w.written()) {
                let perm_data = lock.or(refresh.perm_data);
                self.publisher.role.refresh(stream, &RefreshMsg { qos: Some(qos), perm_data, ..refresh });
            }
        }
    }

    fn update(&mut self, key: &Key, update: &UpdateMsg<'_>) {
        if let Some(&stream) = self.streams.get(key) {
            self.publisher.role.update(stream, &UpdateMsg { key: None, ..update.clone() });
        }
    }

    fn state(&mut self, key: &Key, state: State<'_>) {
        let Some(&stream) = self.streams.get(key) else { return };
        self.publisher.role.status(stream, state);
        if state.stream.is_final() {
            self.streams.remove(key);
        }
    }
}

impl Handler for Relay {
    fn opened(&mut self, now: u64, conn: ConnId, _: &Opened<'_>) {
        if !self.delayed.opened(now, conn) {
            self.output.publisher.opened(now, conn);
        }
    }

    fn message(&mut self, now: u64, conn: ConnId, msg: &[u8]) {
        if self.delayed.message(now, conn, msg) {
            self.delayed.forget_arrivals();
        } else if self.output.publisher.has(conn) {
            // Nobody can post to what was said long ago.
            self.output.publisher.role.handle_message(now, msg);
            self.take_target_events();
        }
    }

    fn closed(&mut self, now: u64, conn: ConnId, ended: &Ended) {
        if !self.delayed.closed(now, conn, ended) && self.output.publisher.closed(now, conn, ended) == Closed::Lost {
            self.take_target_events();
        }
    }
}

/// A line for the user, with texts that servers have chosen.
fn tell(line: &str) {
    eprintln!("{}", net::plain::escaped(line));
}

fn service(args: &Args, delays: &[u64]) -> Service {
    let mut service = Service::new(args.service_id, Action::Add);
    service.info = Some(Part::Set(Info {
        name: args.published_as.clone(),
        capabilities: args.domains.iter().map(|domain| Domain(*domain)).collect(),
        dictionaries_used: vec![dictionary::FIELDS.to_owned(), dictionary::ENUMS.to_owned()],
        qos: delays.iter().map(|delay| quality(*delay)).collect(),
        ..Info::default()
    }));
    service.state = Some(Part::Set(ServiceState::new(true)));
    service
}
