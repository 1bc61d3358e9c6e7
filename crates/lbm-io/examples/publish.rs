//! Publishes ten messages a second and asks its receivers once at the end: `publish TOPIC [COUNT] [--options FILE]`.

use std::time::{Duration, Instant};

use lbm_io::options::Options;
use lbm_io::{Context, Delivery, Events, RequestId, SendFlags, Sources};

/// Counts the answers.
#[derive(Default)]
struct Answers(usize);

impl Events for Answers {
    fn message(&mut self, _: &mut Sources, _: &Delivery<'_>) {}

    fn response(&mut self, _: &mut Sources, _: RequestId, payload: &[u8]) {
        self.0 += 1;
        println!("answer: {}", payload.escape_ascii());
    }
}

/// Takes turns: there receivers are answered, and batched messages leave.
fn turns(context: &mut Context, time: Duration, answers: &mut Answers) -> std::io::Result<()> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        context.poll(Some(left), answers)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new();
    // TCP unless a file says otherwise, as in the product.
    let mut plain = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--options" {
            let file = arguments.next().ok_or("--options needs a file")?;
            let warnings = options.load(&file, &std::fs::read_to_string(&file)?).map_err(|bad| bad[0].to_string())?;
            for warning in warnings {
                eprintln!("{warning}");
            }
        } else {
            plain.push(argument);
        }
    }
    let topic = plain.first().ok_or("usage: publish TOPIC [COUNT] [--options FILE]")?;
    let count: u32 = plain.get(1).map_or(Ok(50), |count| count.parse())?;
    let mut context = Context::new(&options)?;
    let mut answers = Answers::default();
    let source = context.source(topic, &options)?;
    for warning in context.warnings() {
        eprintln!("{warning}");
    }
    // Nobody hears what is sent before receivers have found the source.
    turns(&mut context, Duration::from_secs(1), &mut answers)?;
    for number in 0..count {
        context.send(source, format!("message {number}").as_bytes(), SendFlags::FLUSH)?;
        turns(&mut context, Duration::from_millis(100), &mut answers)?;
    }
    let request = context.request(source, b"have you got it?", SendFlags::FLUSH, Duration::from_secs(5))?;
    turns(&mut context, Duration::from_secs(1), &mut answers)?;
    context.sources().close_request(request);
    println!("{count} messages, {} answers", answers.0);
    Ok(())
}
