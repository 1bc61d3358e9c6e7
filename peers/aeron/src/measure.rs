//! What both sides of a run share: schedule, figures and board are those of `net`, so that Aeron is measured like everything else.

use std::path::Path;

use floor::board::Shared;
use floor::messaging::Work;

use crate::Result;
use crate::arguments::Arguments;

/// The work as the bare loops have it.
pub fn work(arguments: &Arguments) -> Work {
    Work {
        payload: arguments.payload,
        datagram: arguments.mtu,
        rate: arguments.rate,
        seconds: arguments.seconds,
        warmup: arguments.warmup,
        wait: arguments.idle.as_wait(),
        pace: arguments.pace.as_wait(),
        ..Work::default()
    }
}

/// The boards, one for each receiver.
pub fn boards(arguments: &Arguments) -> Result<Vec<Shared>> {
    let open = |path: &str| Shared::open(Path::new(path)).map_err(|e| format!("board {path}: {e}").into());
    arguments.boards.split(',').map(open).collect()
}
