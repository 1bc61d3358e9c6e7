//! Where rights come from: a file that is watched, or a server that is asked. Both give a text that is taken as a whole or not at all.
//!
//! A thread of its own waits for news, so that no source, however slow, holds anybody up who serves clients.

mod file;
mod http;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

use permissions::rights::Rights;

use super::{Command, SharedRights};
use file::RightsFile;
use http::RightsServer;

/// A source, and what it said last.
pub(super) enum Source {
    File(RightsFile),
    Server(Box<RightsServer>),
}

/// The result of a look at a source.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// The source of rights is there, and says what it said, or nothing that could be taken over.
    Same,
    /// New rights.
    New,
    /// The source of rights is not there, and why.
    Gone(String),
}

impl Source {
    /// Reads the source for the first time. A server that is not there is asked again later: until then there are no rights.
    ///
    /// # Errors
    /// The file cannot be read, or has faults; what a server is asked with cannot be read.
    pub(super) fn open(c: &config::Permissions) -> io::Result<Self> {
        if c.rights_url.is_empty() {
            return Ok(Self::File(RightsFile::open(c)?));
        }
        let mut server = RightsServer::new(c)?;
        if let Look::Gone(why) = server.look() {
            tracing::error!("there are no rights yet: {why}");
        }
        Ok(Self::Server(Box::new(server)))
    }

    pub(super) fn rights(&self) -> Option<Arc<Rights>> {
        match self {
            Self::File(file) => Some(file.rights()),
            Self::Server(server) => server.rights(),
        }
    }

    fn look(&mut self) -> Look {
        match self {
            Self::File(file) => file.look(),
            Self::Server(server) => server.look(),
        }
    }

    /// How long to wait before the next look.
    fn pause(&self) -> Duration {
        match self {
            Self::File(_) => file::LOOK,
            Self::Server(server) => server.pause(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::File(file) => file.name(),
            Self::Server(server) => server.name(),
        }
    }
}

/// Whether a text of rights (TOML) can be all of it, beside what can be read in it: its last line is whole, and it ends with `[end]` if the one
/// before did.
fn complete(text: &str, before: Option<&str>) -> Result<(), &'static str> {
    if !text.ends_with('\n') {
        return Err("its last line does not end: it may not be written to its end");
    }
    let has_end = |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()) == Some("[end]");
    if before.is_some_and(has_end) && !has_end(text) {
        return Err("its last line is not [end], as it was before: it may not be written to its end");
    }
    Ok(())
}

/// News for the P2PSs.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Rights,
    Lost,
    Back,
}

/// How long a source has been away.
struct Presence {
    grace: Duration,
    gone_since: Option<Instant>,
    is_lost: bool,
}

impl Presence {
    fn new(grace: Duration) -> Self {
        Self { grace, gone_since: None, is_lost: false }
    }

    /// The consequence of a look at this time.
    fn after(&mut self, look: &Look, now: Instant) -> Option<News> {
        let Look::Gone(_) = look else {
            self.gone_since = None;
            let was_lost = std::mem::take(&mut self.is_lost);
            return match look {
                Look::New => Some(News::Rights),
                _ if was_lost => Some(News::Back),
                _ => None,
            };
        };
        let since = *self.gone_since.get_or_insert(now);
        if self.is_lost || now.duration_since(since) < self.grace {
            return None;
        }
        self.is_lost = true;
        Some(News::Lost)
    }
}

/// Watches the source until `stop`. Gives the thread if it is one to wait for: one that asks a server may be waiting for the answer, and ends
/// behind it.
pub(super) fn start(
    mut source: Source,
    grace: Duration,
    shared: Arc<SharedRights>,
    stop: Arc<AtomicBool>,
) -> io::Result<Option<JoinHandle<()>>> {
    let is_quick = matches!(source, Source::File(_));
    let thread = Builder::new().name("rights".to_owned()).spawn(move || {
        let mut presence = Presence::new(grace);
        park_timeout(source.pause());
        while !stop.load(Ordering::Acquire) {
            let look = source.look();
            if let Look::Gone(why) = &look
                && presence.gone_since.is_none()
            {
                tracing::error!("{} cannot be read: {why}", source.name());
            }
            match presence.after(&look, Instant::now()) {
                Some(News::Rights) => {
                    if let Some(rights) = source.rights() {
                        crate::log::operators::acted(
                            &source.name(),
                            &format!("new rights: version {:?}", rights.version()),
                        );
                        shared.publish(&rights);
                    }
                }
                Some(News::Lost) => {
                    tracing::error!("{} is lost: fail and disconnect_on_loss decide", source.name());
                    shared.send_to_all(|| Command::Lost);
                }
                Some(News::Back) if source.rights().is_some() => {
                    tracing::info!("{} is back", source.name());
                    shared.send_to_all(|| Command::Back);
                }
                Some(News::Back) | None => {}
            }
            park_timeout(source.pause());
        }
    })?;
    Ok(is_quick.then_some(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_lost_when_its_grace_is_over_and_once() {
        let (begin, gone) = (Instant::now(), Look::Gone("nobody is there".to_owned()));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut presence = Presence::new(Duration::from_secs(10));
        assert_eq!(presence.after(&Look::New, at(0)), Some(News::Rights));
        assert_eq!(presence.after(&gone, at(1)), None);
        assert_eq!(presence.after(&Look::Same, at(5)), None, "back in time: nobody hears of it");
        assert_eq!(presence.after(&gone, at(6)), None);
        assert_eq!(presence.after(&gone, at(15)), None);
        assert_eq!(presence.after(&gone, at(16)), Some(News::Lost));
        assert_eq!(presence.after(&gone, at(17)), None);
        assert_eq!(presence.after(&Look::Same, at(18)), Some(News::Back));
        assert_eq!(presence.after(&Look::Same, at(19)), None);
        assert_eq!(Presence::new(Duration::ZERO).after(&gone, at(0)), Some(News::Lost));
    }
}
