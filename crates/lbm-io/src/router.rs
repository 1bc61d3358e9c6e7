//! The part of a context for a router between domains: one of its ends.

use lbm::options::Options;
use lbm::wire::lbmr::{Body, PatternKind};
use lbm::wire::lbmr_management::Management;
use lbm::wire::lbmr_option::{Functionality, SenderKind, TopicOption};

use crate::context::Advertised;
use crate::handles::SourceId;
use crate::{Context, ContextError};

/// Bytes of questions of one packet.
const QUESTIONS_MAX: usize = 1_200;

impl Context {
    /// The end of a router in a domain. Its packets of topic resolution say that they are a router's, and its receivers get messages in
    /// order, but in the fragments in which they were sent: what [`Sources::forward`](crate::Sources::forward) takes.
    ///
    /// # Errors
    /// See [`Context::new`].
    pub fn of_router(options: &Options, domain: u32) -> Result<Self, ContextError> {
        Self::open(options, (SenderKind::Router, domain))
    }

    /// Adds a source that stands for one elsewhere; `more` is what its advertisement says of that one. `persistent`: that one has stores, and
    /// questions about them come to [`Events::question`](crate::Events::question).
    ///
    /// # Errors
    /// See [`Context::source`]; or no request port for those questions.
    pub fn proxy_source(
        &mut self,
        topic: &str,
        options: &Options,
        more: &[TopicOption<'_>],
        persistent: bool,
    ) -> Result<SourceId, ContextError> {
        let functions = if persistent { Functionality::PERSISTENCE } else { 0 };
        self.add_source(topic, options, Advertised { functions, more })
    }

    /// Asks all contexts of the domain to ask again for the topics and patterns that they want.
    pub fn ask_for_interest(&mut self) {
        // The packet is a few bytes long.
        let _ = self.resolution.say(Body::ResolutionRequest { flags: 1 | 2 });
    }

    /// Asks who still uses topics or patterns. Whoever does asks for them again, or answers.
    pub fn ask_for_use<'a>(&mut self, names: impl Iterator<Item = (Option<PatternKind>, &'a [u8])>) {
        let (mut records, mut count) = (Vec::new(), 0);
        for (pattern, name) in names {
            if let Some(services) = &mut self.resolution.services {
                services.client.ask_about(pattern.is_some(), name);
            }
            Management::use_query(pattern, name).encode(&mut records);
            count += 1;
            if records.len() + 256 > QUESTIONS_MAX {
                let _ = self.resolution.say(Body::Management { records: &records, count });
                records.clear();
                count = 0;
            }
        }
        if count > 0 {
            let _ = self.resolution.say(Body::Management { records: &records, count });
        }
    }
}
