//! Posts of many users that go to a provider in one tunnel stream: what stands between a Source Distributor and the connection of an interactive provider whose posts are taken
//! in a tunnel alone, such as a contribution channel. Everything else passes through.
//!
//! | a post to the service, off-stream, | is answered by |
//! |---|---|
//! | goes in while the tunnel is open | what the provider says in it |
//! | comes while it is not | a refusal: `SourceDown` |
//! | is too long for it, or one too many waits | a refusal: `InvalidContent`, `NoResources` |
//! | was not answered when it ends | a refusal: `SourceDown`; the post may have come |
//!
//! The stream is opened as soon as the directory has the service up, and again some time after its end.

use super::{Event, Refused, Tunnel, TunnelConfig};
use crate::directory::Directory;
use crate::outbox::Outbox;
use rwf::msg::{AckMsg, Domain, Msg, MsgClass, NakCode, PostMsg};
use rwf::peek;
use rwf::rdm::directory::{Part, Service};
use std::collections::HashMap;

const SECOND: u64 = 1_000_000_000;
/// Pauses before the stream is asked for again: the first, which doubles, and the longest.
const PAUSES: (u64, u64) = (SECOND, 60 * SECOND);

/// Counts of the posts of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PostCounts {
    /// Posts that went in.
    pub sent: u64,
    /// Posts that were refused here.
    pub refused: u64,
    /// Times that the stream was opened.
    pub opened: u64,
    /// Messages that came out of it and were no answers to posts.
    pub unexpected: u64,
}

/// The posts of a provider in a tunnel stream. What it answers, and when it is opened again, stands at the head of its file.
#[derive(Debug)]
pub struct PostTunnel {
    tunnel: Tunnel,
    /// The service, by its name at the provider; without one the first that has [`Domain::SYSTEM`].
    service: Option<String>,
    directory: Directory,
    service_id: Option<u16>,
    /// The stream of the Source Distributor's login, on which posts come.
    login_stream: Option<i32>,
    /// Domains of the posts that are not answered, by their ids.
    unanswered: HashMap<u32, Domain>,
    /// When the stream is asked for again, and how long the next pause is.
    again_at: Option<u64>,
    pause: u64,
    /// Why it is not open.
    why: String,
    /// Whether that was told.
    is_told: bool,
    answers: Outbox,
    counts: PostCounts,
}

impl PostTunnel {
    /// Nothing was said on the connection yet.
    pub fn new(config: TunnelConfig, service: Option<String>) -> Self {
        Self {
            tunnel: Tunnel::new(config),
            service,
            directory: Directory::default(),
            service_id: None,
            login_stream: None,
            unanswered: HashMap::new(),
            again_at: None,
            pause: PAUSES.0,
            why: "its provider has not said that the service is up".to_owned(),
            is_told: false,
            answers: Outbox::default(),
            counts: PostCounts::default(),
        }
    }

    /// Counts so far.
    pub const fn counts(&self) -> PostCounts {
        self.counts
    }

    /// Why the stream is not open, once for each time that it is not.
    pub fn take_news(&mut self) -> Option<&str> {
        let is_news = !self.tunnel.is_asked() && !std::mem::replace(&mut self.is_told, true);
        is_news.then_some(self.why.as_str())
    }

    /// When [`PostTunnel::handle_timeout`] is due, nanoseconds; 0 while there are answers.
    pub fn timeout(&self) -> Option<u64> {
        if !self.answers.is_empty() {
            return Some(0);
        }
        [self.tunnel.timeout(), self.again_at].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: u64) {
        self.tunnel.handle_timeout(now);
        self.take_events(now);
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
            self.open(now);
        }
    }

    /// The next message for the provider, of the tunnel's own.
    pub fn poll_transmit(&mut self) -> Option<&[u8]> {
        self.tunnel.poll_transmit()
    }

    /// The next answer to a post, for the Source Distributor.
    pub fn poll_answer(&mut self) -> Option<&[u8]> {
        self.answers.pop()
    }

    /// A message of the provider: true if it is the tunnel's, and nobody else's.
    pub fn from_provider(&mut self, now: u64, msg: &[u8]) -> bool {
        match peek::domain(msg) {
            Some(Domain::SOURCE) => {
                self.directory.message(msg);
                self.look_at_service(now);
                false
            }
            _ if peek::stream_id(msg) == Some(self.tunnel.stream_id()) => {
                // A message that cannot be read is told of by whoever reads it next.
                let Ok(msg) = Msg::decode(msg) else { return false };
                let is_own = self.tunnel.handle_message(now, &msg);
                self.take_events(now);
                is_own
            }
            _ => false,
        }
    }

    /// A message for the provider: true if it goes in the tunnel, or was refused.
    pub fn to_provider(&mut self, msg: &[u8]) -> bool {
        let class = peek::class(msg);
        if class == Some(MsgClass::REQUEST) && peek::domain(msg) == Some(Domain::LOGIN) {
            self.login_stream = peek::stream_id(msg);
        }
        if class != Some(MsgClass::POST) || peek::stream_id(msg) != self.login_stream {
            return false;
        }
        let Ok(post) = PostMsg::decode(msg) else { return false };
        let of_service = post.key.as_ref().and_then(|key| key.service_id);
        if self.service_id.is_some() && of_service != self.service_id {
            return false;
        }
        match self.send(msg) {
            Ok(()) => {
                self.counts.sent += 1;
                self.unanswered.extend(post.post_id.map(|id| (id, post.domain)));
            }
            Err((nak, text)) => {
                self.counts.refused += 1;
                if let Some(id) = post.post_id {
                    self.answer(id, post.domain, nak, &text);
                }
            }
        }
        true
    }

    fn send(&mut self, msg: &[u8]) -> Result<(), (NakCode, String)> {
        let mut inner = msg.to_vec();
        if let Some(login) = &self.tunnel.config.login {
            peek::set_stream_id(&mut inner, login.stream_id);
        }
        self.tunnel.send(&inner).map_err(|refused| match refused {
            Refused::NotOpen => {
                (NakCode::SOURCE_DOWN, format!("The tunnel stream to the provider is not open: {}", self.why))
            }
            Refused::Full => {
                (NakCode::NO_RESOURCES, "Too many posts wait in the tunnel stream to the provider".to_owned())
            }
            Refused::TooLong(most) => {
                (NakCode::INVALID_CONTENT, format!("Post is longer than the {most} bytes that the tunnel stream takes"))
            }
        })
    }

    fn answer(&mut self, id: u32, domain: Domain, nak: NakCode, text: &str) {
        let stream = self.login_stream.unwrap_or(1);
        let ack =
            AckMsg { ack_id: id, nak_code: Some(nak), text: Some(text.as_bytes()), ..AckMsg::new(domain, stream) };
        self.answers.push(|w| ack.encode(w));
    }

    /// The service may have come, gone, or have another id.
    fn look_at_service(&mut self, now: u64) {
        let has_system = |service: &&Service| {
            let info = service.info.as_ref().and_then(Part::value);
            info.is_some_and(|info| info.capabilities.contains(&Domain::SYSTEM))
        };
        let found = match &self.service {
            Some(name) => self.directory.named(name),
            None => self.directory.iter().filter(|service| service.is_usable()).find(has_system),
        };
        let id = found.filter(|service| service.is_usable()).map(|service| service.id);
        if id == self.service_id {
            return;
        }
        self.service_id = id;
        self.tunnel.lose("its service has gone down, or is another one");
        self.take_events(now);
        (self.again_at, self.pause) = (None, PAUSES.0);
        self.open(now);
    }

    fn open(&mut self, now: u64) {
        if let Some(id) = self.service_id.filter(|_| !self.tunnel.is_asked()) {
            "its provider has not answered yet".clone_into(&mut self.why);
            self.tunnel.open(now, id);
            self.take_events(now);
        }
    }

    fn take_events(&mut self, now: u64) {
        while let Some(event) = self.tunnel.poll_event() {
            match event {
                Event::Open => {
                    self.counts.opened += 1;
                    (self.pause, self.is_told) = (PAUSES.0, false);
                }
                Event::Message(msg) => self.came(&msg),
                Event::Closed(state) => {
                    self.why = String::from_utf8_lossy(&state.text).into_owned();
                    let text = format!("The tunnel stream to the provider has ended before an answer: {}", self.why);
                    for (id, domain) in std::mem::take(&mut self.unanswered) {
                        self.counts.refused += 1;
                        self.answer(id, domain, NakCode::SOURCE_DOWN, &text);
                    }
                    if self.service_id.is_some() {
                        self.again_at = Some(now.saturating_add(self.pause));
                        self.pause = (2 * self.pause).min(PAUSES.1);
                    }
                }
            }
        }
    }

    fn came(&mut self, msg: &[u8]) {
        match Msg::decode(msg) {
            Ok(Msg::Ack(ack)) if self.unanswered.remove(&ack.ack_id).is_some() => {
                let own = AckMsg { stream_id: self.login_stream.unwrap_or(1), ..ack };
                self.answers.push(|w| own.encode(w));
            }
            Ok(Msg::Status(status))
                if status.domain == Domain::LOGIN && status.state.is_some_and(|s| s.stream.is_final()) =>
            {
                let text = status.state.map_or(&b""[..], |state| state.text);
                self.tunnel.end(&format!("its login has ended: {}", String::from_utf8_lossy(text)));
            }
            _ => self.counts.unexpected += 1,
        }
    }
}
