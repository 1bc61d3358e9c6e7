//! The dictionaries that a session is asked for, and how far each has come.

/// The names under which every service offers its dictionaries, whatever the provider calls them.
pub(super) const DICTIONARIES: [&str; 2] = ["RWFFld", "RWFEnum"];
/// Streams of our dictionary requests at a provider: fields, then enumerations.
pub(crate) const FIRST_STREAM: i32 = 3;
pub(crate) const LAST_STREAM: i32 = FIRST_STREAM + DICTIONARIES.len() as i32 - 1;

/// The dictionaries that a session is asked for, by [`DICTIONARIES`].
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    states: [Download; DICTIONARIES.len()],
    /// The dictionaries have been waited for: they came, or were refused, or took too long.
    waited: bool,
}

impl Downloads {
    /// True while the dictionaries that were asked for first are on their way. A consumer loads its dictionary once, when
    /// it sees the first service, so the services wait for it.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waited && self.states.iter().any(|state| matches!(state, Download::Running(..)))
    }

    /// Has a dictionary asked for, for a service. False if it was asked for before.
    pub(super) fn begin(&mut self, which: usize, service: u16) -> bool {
        let is_new = matches!(self.states[which], Download::None);
        if is_new {
            self.states[which] = Download::Running(service, Vec::new());
        }
        is_new
    }

    /// The dictionaries are waited for no longer. False if they were not.
    pub(super) fn end_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.waited, true)
    }

    /// The download on one of the streams from [`FIRST_STREAM`] to [`LAST_STREAM`].
    pub(super) fn on_stream(&mut self, stream: i32) -> &mut Download {
        &mut self.states[(stream - FIRST_STREAM) as usize]
    }
}

#[derive(Debug, Default)]
pub(super) enum Download {
    /// Not offered, or not asked for yet.
    #[default]
    None,
    /// Parts so far, for a service.
    Running(u16, Vec<Box<[u8]>>),
    /// Complete, or given up: not asked for again.
    Over,
}
