//! Questions of a receiver at a source's request port: which stores the source has.

use lbm::wire::lbmc::Message;

use super::Source;
use crate::wire::{Ume, control};

/// A receiver asks for the stores of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    topic: u32,
    /// A context may have sources of one index on several transport sessions. `None`: not said, by receivers of other makes.
    origin: Option<[u8; 32]>,
}

impl Question {
    /// The question for the source of this index and [`crate::wire::origin`].
    pub fn new(topic: u32, origin: [u8; 32]) -> Self {
        Self { topic, origin: Some(origin) }
    }

    /// The question that a control message is, if it is one.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        let (mut asked, mut said) = (None, None);
        // A header that cannot be read is none of a question: what can be read of it is answered.
        for header in message.headers().flatten() {
            match Ume::of(&header) {
                Ok(Some(Ume::InfoRequest { topic, .. })) => asked = Some(topic),
                Ok(Some(Ume::Origin(origin))) => said = Some(origin),
                _ => {}
            }
        }
        Some(Self { topic: asked?, origin: said })
    }

    /// The index of the topic that is asked about.
    pub fn topic(&self) -> u32 {
        self.topic
    }

    /// Whether a question is for the source of this index and [`crate::wire::origin`].
    pub fn is_for(&self, topic: u32, origin: &[u8; 32]) -> bool {
        self.topic == topic && self.origin.is_none_or(|asked| asked == *origin)
    }

    /// Appends the question as a control message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (ask, index) = (Ume::InfoRequest { transport: 0, topic: self.topic }, Ume::TopicIndex(self.topic));
        match self.origin {
            Some(origin) => control(out, &[ask, index, Ume::Origin(origin)]),
            None => control(out, &[ask, index]),
        }
    }
}

impl Source {
    /// Whether a question is for this source.
    pub fn is_asked(&self, question: &Question) -> bool {
        question.is_for(self.identity.topic_index, &self.identity.origin)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use lbm::wire::lbmr::Transport;

    use super::*;
    use crate::source::{Identity, SourceConfig};
    use crate::wire::origin;

    /// A source of topic 42 on a session of its own.
    fn source(session_id: u32) -> (Source, [u8; 32]) {
        let transport = Transport::Tcp { address: Ipv4Addr::LOCALHOST, session_id: Some(session_id), port: 14_371 };
        let origin = origin(&transport, 42);
        let requests = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 14_391);
        let identity =
            Identity { topic: b"a".as_slice().into(), transport: session_id, topic_index: 42, origin, requests };
        (Source::new(0, SourceConfig::default(), identity), origin)
    }

    #[test]
    fn of_two_sources_with_one_index_the_one_that_is_meant_is_asked() {
        let ((one, of_one), (other, of_other)) = (source(1), source(2));
        let read = |question: Question| {
            let mut message = Vec::new();
            question.encode(&mut message);
            let read = Question::of(&Message::decode(&message).expect("ours").0);
            assert_eq!(read, Some(question));
            question
        };
        let asked = |question: Question| (one.is_asked(&question), other.is_asked(&question));
        assert_eq!(asked(read(Question::new(42, of_one))), (true, false));
        assert_eq!(asked(read(Question::new(42, of_other))), (false, true));
        assert_eq!(asked(read(Question::new(41, of_one))), (false, false), "another index");
        assert_eq!(asked(read(Question { topic: 42, origin: None })), (true, true), "who says no session means any");
    }

    #[test]
    fn what_asks_for_nothing_is_no_question() {
        let mut message = Vec::new();
        control(&mut message, &[Ume::TopicIndex(42), Ume::Origin([7; 32])]);
        assert_eq!(Question::of(&Message::decode(&message).expect("ours").0), None);
    }
}
