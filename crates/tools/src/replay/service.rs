//! The services as they were recorded: whether they were up.

use super::choice::Choice;
use record::{Error, Folder, Merge, Recording};
use record_io::{ServiceWatch, is_up_at};

/// A recorded service that is, with others or alone, one that is served.
#[derive(Debug)]
struct Recorded {
    /// Place of the recording.
    recording: usize,
    /// Time of the recording's first record.
    begin: u64,
    watch: ServiceWatch,
    is_up: bool,
}

/// Whether the services that are served are up.
#[derive(Debug)]
pub(super) struct ServiceStates {
    /// By service, in the order of the recordings.
    services: Vec<Vec<Recorded>>,
}

impl ServiceStates {
    /// The services of some names, as they were at a time.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn new(recordings: &[&Recording<Folder>], choice: &Choice, at: u64) -> Result<Self, Error> {
        let of = |name: &String| {
            let mut all = Vec::new();
            for (n, recording) in recordings.iter().enumerate() {
                let begin = recording.info().span.map_or(0, |(first, _)| first);
                let has = |service: &&str| recording.items().iter().any(|item| *item.service == **service);
                let of_recording = choice.recorded(name).filter(has);
                all.extend(of_recording.map(|service| Recorded {
                    recording: n,
                    begin,
                    watch: ServiceWatch::new(service),
                    is_up: true,
                }));
            }
            all
        };
        let mut states = Self { services: choice.names().iter().map(of).collect() };
        states.seek(recordings, at)?;
        Ok(states)
    }

    /// Goes to a time.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn seek(&mut self, recordings: &[&Recording<Folder>], at: u64) -> Result<(), Error> {
        for recorded in self.services.iter_mut().flatten() {
            recorded.is_up = is_up_at(recordings[recorded.recording], recorded.watch.name(), at)?;
        }
        Ok(())
    }

    /// Takes a message of a recording's directory in.
    pub(super) fn receive(&mut self, recording: usize, msg: &[u8]) {
        for recorded in self.services.iter_mut().flatten().filter(|recorded| recorded.recording == recording) {
            recorded.is_up = recorded.watch.receive(msg).unwrap_or(recorded.is_up);
        }
    }

    /// Whether each service is up: what the first recording says of it that has begun and is not over, or else the last one.
    pub(super) fn are_up(&self, merge: &Merge<'_, Folder>) -> impl Iterator<Item = bool> {
        self.services.iter().map(|all| {
            let goes_on = |recorded: &&Recorded| recorded.begin <= merge.time() && !merge.is_over(recorded.recording);
            all.iter().find(goes_on).or(all.last()).is_none_or(|recorded| recorded.is_up)
        })
    }
}
