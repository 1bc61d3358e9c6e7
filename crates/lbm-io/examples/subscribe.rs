//! Receives topics and prints what comes: `subscribe TOPIC... [--options FILE]`. A name with a `*` is a pattern. Questions are
//! answered. Ends when all sources that it has heard have ended.

use std::time::Duration;

use lbm_io::options::Options;
use lbm_io::{Context, Delivery, EndReason, Events, Loss, Sources, Stream};

/// Streams that have begun and not ended, and whether there were any.
#[derive(Default)]
struct Printer {
    open: usize,
    lost: u64,
    begun: bool,
}

impl Events for Printer {
    fn begin(&mut self, _: &mut Sources, stream: &Stream<'_>) {
        self.open += 1;
        self.begun = true;
        println!("begin {} from {}", stream.topic, stream.transport);
    }

    fn message(&mut self, sources: &mut Sources, delivery: &Delivery<'_>) {
        println!("{} {}: {}", delivery.stream.topic, delivery.sqn, delivery.data().escape_ascii());
        if let Some(request) = &delivery.request
            && let Err(error) = sources.respond(request, b"received")
        {
            eprintln!("{}: {error}", request.from);
        }
    }

    fn lost(&mut self, _: &mut Sources, stream: &Stream<'_>, loss: Loss) {
        self.lost += u64::from(loss.count);
        println!("lost {} {} to {}", stream.topic, loss.first, loss.first.wrapping_add(loss.count - 1));
    }

    fn end(&mut self, _: &mut Sources, stream: &Stream<'_>, reason: EndReason) {
        self.open -= 1;
        println!("end {} ({reason:?})", stream.topic);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new();
    let mut topics = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--options" {
            let file = arguments.next().ok_or("--options needs a file")?;
            // One message a bad line: its file, its number, and the nearest option.
            let warnings = options.load(&file, &std::fs::read_to_string(&file)?).map_err(|bad| bad[0].to_string())?;
            for warning in warnings {
                eprintln!("{warning}");
            }
        } else {
            topics.push(argument);
        }
    }
    if topics.is_empty() {
        return Err("usage: subscribe TOPIC... [--options FILE]".into());
    }
    let mut context = Context::new(&options)?;
    for topic in &topics {
        match topic.split_once('*') {
            // Patterns are regular expressions.
            Some(_) => context.wildcard(&format!("^{}$", topic.replace('.', "\\.").replace('*', ".*")), &options)?,
            None => context.receiver(topic, &options)?,
        };
    }
    let mut printer = Printer::default();
    while printer.open > 0 || !printer.begun {
        context.poll(Some(Duration::from_millis(100)), &mut printer)?;
        for warning in context.warnings() {
            eprintln!("{warning}");
        }
    }
    if printer.lost > 0 { Err(format!("{} messages lost", printer.lost).into()) } else { Ok(()) }
}
