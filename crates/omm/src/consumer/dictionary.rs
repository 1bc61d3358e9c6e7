//! The download of a service's dictionaries, part by part.

use crate::outbox::Outbox;
use rwf::dictionary::{Dictionary, Verbosity};
use rwf::msg::{Msg, RefreshFlags};
use rwf::rdm::dictionary::{self, ENUMS, FIELDS};
use std::sync::Arc;

/// Stream of the field definitions.
const FIELDS_STREAM: i32 = 3;
/// Stream of the enumerations.
const ENUMS_STREAM: i32 = 4;

/// The meaning of a message of a dictionary stream.
#[derive(Debug)]
pub(super) enum Progress {
    /// More is to come, or the message said nothing.
    Going,
    /// Fields and enumerations are whole.
    Done(Arc<Dictionary>),
    /// The download has ended without a dictionary.
    Failed(String),
}

/// A download: one at a time, and none after it has succeeded.
#[derive(Debug, Default)]
pub(super) struct Download {
    phase: Phase,
    dictionary: Option<Arc<Dictionary>>,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Going {
        service: u16,
        name: String,
        parts: Box<Dictionary>,
        fields: bool,
        enums: bool,
    },
}

impl Download {
    /// The dictionary, once there is one.
    pub(super) const fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.dictionary.as_ref()
    }

    pub(super) const fn is_stream(stream_id: i32) -> bool {
        matches!(stream_id, FIELDS_STREAM | ENUMS_STREAM)
    }

    /// Whether a download may begin.
    pub(super) const fn is_wanted(&self) -> bool {
        self.dictionary.is_none() && matches!(self.phase, Phase::Idle)
    }

    /// Asks a service for its dictionaries.
    pub(super) fn begin(&mut self, service: u16, name: &str, out: &mut Outbox) {
        debug_assert!(self.is_wanted());
        for (stream_id, dictionary) in [(FIELDS_STREAM, FIELDS), (ENUMS_STREAM, ENUMS)] {
            let request = dictionary::Request {
                stream_id,
                streaming: false,
                service_id: Some(service),
                name: dictionary.to_owned(),
                verbosity: Verbosity::NORMAL,
            };
            out.push(|w| request.encode(w));
        }
        let parts = Box::new(Dictionary::new());
        self.phase = Phase::Going { service, name: name.to_owned(), parts, fields: false, enums: false };
    }

    /// The connection, or the service, is gone: a download under way has failed.
    pub(super) fn abandon(&mut self, gone: Option<u16>) {
        if let Phase::Going { service, .. } = &self.phase
            && gone.is_none_or(|gone| gone == *service)
        {
            self.phase = Phase::Idle;
        }
    }

    /// Takes a message of one of the two streams.
    pub(super) fn message(&mut self, stream_id: i32, msg: &[u8]) -> Progress {
        let Phase::Going { name, parts, fields, enums, .. } = &mut self.phase else { return Progress::Going };
        let failure = match Msg::decode(msg) {
            Ok(Msg::Refresh(refresh)) if !refresh.state.stream.is_final() => {
                let complete = refresh.flags.contains(RefreshFlags::REFRESH_COMPLETE);
                let applied = if stream_id == FIELDS_STREAM {
                    *fields |= complete;
                    parts.apply_fields(name, refresh.body)
                } else {
                    *enums |= complete;
                    parts.apply_enums(name, refresh.body)
                };
                applied.err().map(|error| error.to_string())
            }
            Ok(Msg::Refresh(refresh)) => Some(refresh.state.to_string()),
            Ok(Msg::Status(status)) => {
                status.state.filter(|state| state.stream.is_final()).map(|state| state.to_string())
            }
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(failure) = failure {
            self.phase = Phase::Idle;
            return Progress::Failed(failure);
        }
        if !(*fields && *enums) {
            return Progress::Going;
        }
        let Phase::Going { parts, .. } = std::mem::take(&mut self.phase) else { return Progress::Going };
        let dictionary: Arc<Dictionary> = Arc::from(parts);
        self.dictionary = Some(Arc::clone(&dictionary));
        Progress::Done(dictionary)
    }
}
