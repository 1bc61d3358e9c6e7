//! The bare relay: source -> N relays -> sink over loopback TCP, each in a process of its own.
//!
//! `cargo bench -p floor --bench relay -- -n 2 -r 100000 --wait block -S 262144 -s 3 --json`

mod arguments;

use arguments::Arguments;
use floor::relay::{RelayOptions, run};

const HELP: &str = "\
Options:
  -n RELAYS     relays between source and sink (2)
  -r RATE       messages a second; 0: as many as go through (0)
  --wait HOW    block, yield or spin (block)
  --middle LINK tcp, udp, multicast or local between the relays in the middle (tcp)
  -S BYTES      socket buffers; 0: the kernel's choice (262144)
  -m BYTES      message (85)
  -k BYTES      most bytes in a write of the source (24000)
  -t NS         the source sleeps so long when nothing is due; 0: it yields (0)
  -s SECONDS    length (3)
  --repeat N    runs (1)
  --json        one JSON object a line";

fn main() {
    let mut arguments = Arguments::read(HELP);
    let default = RelayOptions::default();
    let options = RelayOptions {
        relays: arguments.value("-n", default.relays),
        rate: arguments.value("-r", default.rate),
        wait: arguments.value("--wait", default.wait),
        middle: arguments.value("--middle", default.middle),
        socket_buffer: Some(arguments.value("-S", 262_144)).filter(|&bytes| bytes > 0),
        message: arguments.value("-m", default.message),
        write: arguments.value("-k", default.write),
        tick: arguments.value("-t", default.tick),
        seconds: arguments.seconds(default.seconds),
    };
    let (repeat, json) = (arguments.value("--repeat", 1), arguments.flag("--json"));
    arguments.finish();
    for _ in 0..repeat {
        match run(&options) {
            Ok(report) if json => println!("{}", report.to_json(&options)),
            Ok(report) => println!("relays={} rate={} wait={:?}: {report}", options.relays, options.rate, options.wait),
            Err(error) => arguments::fail(&error.to_string()),
        }
    }
}
