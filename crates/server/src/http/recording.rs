//! Administration of the recording of a process (`[record]`).

use std::future::{Ready, ready};

use serde::Serialize;

use super::actions::{blocking, done, why};
use super::answer::{Answer, Fault};
use super::asked::Asked;
use super::endpoint::Api;
use crate::agents::recording::{Recording, Standing};

/// How the recording of a process is doing.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Recorded {
    /// `recording`, `troubled` (the disk does not take it; it is tried again), `starting` and `stopping` (the disk is being waited for), `stopped`, `failed`, or `off`: nothing is to be recorded.
    state: &'static str,
    /// The obstacle.
    trouble: Option<String>,
    /// Where it is.
    folder: Option<String>,
    /// The state of the recording.
    services: Vec<RecordedService>,
    /// Records that were written since the process began; each of the next counters, too.
    records: u64,
    /// Bytes of their messages.
    message_bytes: u64,
    /// Bytes of files that were written.
    file_bytes: u64,
    /// Messages that were lost: they came faster than they were written.
    lost: u64,
    /// Gaps that were recorded.
    gaps: u64,
    /// Failures of the disk.
    disk_failures: u64,
    /// Connections to the recorder that this server has closed.
    disconnects: u64,
    /// Bytes that wait to be written.
    queue_bytes: u64,
}

/// A service that is recorded.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct RecordedService {
    /// The service's name.
    name: String,
    /// Whether the recorder has it up.
    up: bool,
    /// Items that are asked for.
    items: usize,
    /// Items that have had an image.
    open: usize,
}

impl Recorded {
    const OFF: Self = Self {
        state: "off",
        trouble: None,
        folder: None,
        services: Vec::new(),
        records: 0,
        message_bytes: 0,
        file_bytes: 0,
        lost: 0,
        gaps: 0,
        disk_failures: 0,
        disconnects: 0,
        queue_bytes: 0,
    };

    fn of(standing: Standing) -> Self {
        let counts = standing.counts;
        let services = standing.services.into_iter();
        Self {
            state: standing.state,
            trouble: standing.trouble,
            folder: Some(standing.folder),
            services: services.map(|(name, up, items, open)| RecordedService { name, up, items, open }).collect(),
            records: counts.records,
            message_bytes: counts.message_bytes,
            file_bytes: counts.file_bytes,
            lost: counts.lost,
            gaps: counts.gaps,
            disk_failures: counts.disk_failures,
            disconnects: counts.disconnects,
            queue_bytes: standing.waiting as u64,
        }
    }
}

pub(super) fn recording(api: &Api, _: &Asked) -> Ready<Result<Answer, Fault>> {
    let recorded = api.life.recording().map_or(Recorded::OFF, |recording| Recorded::of(recording.standing()));
    ready(Answer::of(&recorded))
}

fn recording_of(api: &Api) -> Result<Recording, Fault> {
    let none = || Fault::new(409, "nothing is to be recorded here: [record] of the configuration names no folder");
    api.life.recording().cloned().ok_or_else(none)
}

pub(super) async fn start(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (why, recording) = (why(asked)?, recording_of(api)?);
    let folder = recording.standing().folder;
    blocking(move || recording.start()).await?.map_err(|e| Fault::new(409, e))?;
    done(asked, format!("it is recorded into {folder}: {why}"))
}

pub(super) async fn stop(api: &Api, asked: &Asked) -> Result<Answer, Fault> {
    let (why, recording) = (why(asked)?, recording_of(api)?);
    let counts = blocking(move || recording.stop()).await?.map_err(|e| Fault::new(409, e))?;
    done(asked, format!("the recording is ended, {} records, {} lost: {why}", counts.records, counts.lost))
}
