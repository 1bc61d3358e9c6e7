//! One way at a rate: what each side does.

use std::time::Duration;

use floor::board::Board;
use floor::messaging::{Arrivals, OneWay, OpenLoop, STAMPED, Work};
use lbm_io::{Delivery, Events, Loss, SendFlags, Sources, Stream};
use net::clock;

use super::process::{Args, context, turn};
use super::stream::{Repairs, end, find_receivers, topic};
use crate::scenario::grid::Profile;

/// Messages between two looks at the clock.
const BATCH: u64 = 256;
/// Messages after which a source that is never idle looks at its receivers' requests.
const TURN: u64 = 1_024;

struct Taker<'a> {
    arrivals: Arrivals,
    board: &'a Board,
    begun: bool,
    reported: u64,
}

impl Events for Taker<'_> {
    #[inline]
    fn message(&mut self, _: &mut Sources, delivery: &Delivery<'_>) {
        self.begun = true;
        self.arrivals.take(delivery.payload, self.board);
    }

    fn lost(&mut self, _: &mut Sources, _: &Stream<'_>, loss: Loss) {
        self.reported += u64::from(loss.count);
    }
}

/// The receiver.
pub(super) fn receive(args: &Args, work: &Work, board: &Board) -> anyhow::Result<OneWay> {
    let (mut context, options) = context(args, 1)?;
    context.receiver(&topic(args), &options).map_err(anyhow::Error::msg)?;
    let mut taker = Taker { arrivals: Arrivals::new(work), board, begun: false, reported: 0 };
    loop {
        let (over, before) = (board.is_over(), taker.arrivals.messages());
        turn(&mut context, args.idle, &mut taker)?;
        let messages = taker.arrivals.messages();
        if messages != before {
            board.received(messages);
        } else if over {
            break;
        } else if taker.begun && !board.is_joined() {
            board.join();
        }
    }
    let result = taker.arrivals.result(board);
    // Messages that LBM reports as lost are missing in the numbers as well.
    Ok(OneWay { lost: result.lost.max(taker.reported), ..result })
}

/// The source.
pub(super) fn send(args: &Args, work: &Work, boards: &[&Board]) -> anyhow::Result<Repairs> {
    let alone = args.profile == Profile::Latency;
    let (mut context, options) = context(args, if alone { 1 } else { work.datagram })?;
    let source = context.source(&topic(args), &options).map_err(anyhow::Error::msg)?;
    let mut payload = vec![0u8; work.payload.max(STAMPED)];
    find_receivers(&mut context, source, boards, payload.len())?;
    let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
    let mut pace = OpenLoop::new(work, boards);
    let mut since_turn = 0;
    while let Some(due) = pace.due(clock::now()) {
        let count = due.min(BATCH);
        for _ in 0..count {
            pace.stamp(&mut payload);
            context.send(source, &payload, SendFlags::NONE).map_err(anyhow::Error::msg)?;
        }
        if count > 0 && due <= BATCH && !alone {
            context.flush(source).map_err(anyhow::Error::msg)?;
        }
        since_turn += count;
        if count == 0 || since_turn >= TURN {
            since_turn = 0;
            context.poll(Some(Duration::ZERO), &mut nothing).map_err(anyhow::Error::msg)?;
        }
        if count == 0 {
            pace.pause();
        }
    }
    end(&mut context, source, boards, pace.sent())
}
