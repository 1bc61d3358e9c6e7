//! The bare fan: source -> relay -> fan-out writer -> connections of one reader process.
//!
//! `cargo bench -p floor --bench fan -- -n 100 -w 50 --io uring -s 3 --json`

mod arguments;

use arguments::Arguments;
use floor::fan::{FanOptions, run};

const HELP: &str = "\
Options:
  -n CONNECTIONS  connections (100)
  -r RATE         messages a second that come in; 0: as many as go through (0)
  -w PERCENT      messages that go to all connections; each other one goes to one (50)
  -b MESSAGES     most messages in a turn of the writer (264)
  --io HOW        bare: a write each; tcp: this crate's send; uring: its batch by io_uring (bare)
  --direct        no source and relay: the writer makes the messages
  --relays N      relays between source and writer (1)
  --wait HOW      block, yield or spin (block)
  -S BYTES        socket buffers; 0: the kernel's choice (262144)
  -m BYTES        message (90)
  -t NS           the source sleeps so long when nothing is due; 0: it yields (0)
  -s SECONDS      length (3)
  --repeat N      runs (1)
  --json          one JSON object a line";

fn main() {
    let mut arguments = Arguments::read(HELP);
    let default = FanOptions::default();
    let options = FanOptions {
        connections: arguments.value("-n", default.connections),
        rate: arguments.value("-r", default.rate),
        wide: arguments.value("-w", default.wide),
        batch: arguments.value("-b", default.batch),
        io: arguments.value("--io", default.io),
        chain: !arguments.flag("--direct"),
        relays: arguments.value("--relays", default.relays),
        wait: arguments.value("--wait", default.wait),
        socket_buffer: Some(arguments.value("-S", 262_144)).filter(|&bytes| bytes > 0),
        message: arguments.value("-m", default.message),
        tick: arguments.value("-t", default.tick),
        seconds: arguments.seconds(default.seconds),
    };
    let (repeat, json) = (arguments.value("--repeat", 1), arguments.flag("--json"));
    arguments.finish();
    for _ in 0..repeat {
        match run(&options) {
            Ok(report) => {
                if let Some(why) = &report.refused {
                    eprintln!("{why}");
                }
                if json {
                    println!("{}", report.to_json(&options));
                } else {
                    let FanOptions { connections, rate, wide, batch, io, .. } = &options;
                    println!("connections={connections} rate={rate} wide={wide} batch={batch} io={io:?}: {report}");
                }
            }
            Err(error) => arguments::fail(&error.to_string()),
        }
    }
}
