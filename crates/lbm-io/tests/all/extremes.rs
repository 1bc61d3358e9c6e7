//! Every option at the ends of what it takes: a context works or says what is wrong, and never panics, hangs or runs hot.

use std::time::{Duration, Instant};

use crate::world::{self, Ear};
use lbm_io::options::{Kind, Options, TABLE};
use lbm_io::{Context, SendFlags};

/// What is not tried: sizes of memory that a test machine does not have, and names of what others use.
fn skipped(name: &str) -> bool {
    name.ends_with("_window_size") || name.ends_with("_port") || name.contains("_port_") || name == "statistics"
}

fn extremes(kind: Kind) -> Vec<String> {
    match kind {
        Kind::Number(low, high) => {
            vec![low.to_string(), high.to_string()]
        }
        Kind::Signed => vec![i64::MIN.to_string(), "0".to_owned(), i64::MAX.to_string()],
        Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// Two contexts with these options talk for a moment. How many turns they took.
fn talk(options: &Options) -> Result<usize, lbm_io::ContextError> {
    let (mut left, mut right) = (Context::new(options)?, Context::new(options)?);
    let source = left.source("md", options)?;
    right.receiver("md", options)?;
    right.wildcard("^m", options)?;
    let (mut ear, mut left_ear, mut turns) = (Ear::default(), Ear::default(), 0);
    let began = Instant::now();
    right.lose(200_000, 7);
    for round in 0..5u32 {
        // What cannot be sent with these options is said.
        let _ = left.send(source, &round.to_be_bytes(), SendFlags::NONBLOCK | SendFlags::FLUSH);
        let _ = left.send(source, &vec![0; 20_000], SendFlags::NONBLOCK);
        let until = began.elapsed() + Duration::from_millis(2);
        while began.elapsed() < until {
            turns += 1;
            left.poll(Some(Duration::from_millis(1)), &mut left_ear).expect("a turn");
            right.poll(Some(Duration::from_millis(1)), &mut ear).expect("a turn");
        }
    }
    left.remove_source(source);
    left.poll(Some(Duration::ZERO), &mut left_ear).expect("a turn");
    Ok(turns)
}

#[test]
fn no_value_of_an_option_brings_a_context_down() {
    let (base, mut hot) = (world::options("source late_join 1\nreceiver use_otr 1"), Vec::new());
    for entry in TABLE.iter().filter(|entry| !entry.meaning.is_empty() && !skipped(entry.name)) {
        for value in extremes(entry.kind) {
            for transport in ["lbtrm", "lbtru", "tcp", "lbtipc"] {
                let of_another = ["lbtrm", "lbtru", "tcp", "lbtipc"]
                    .iter()
                    .any(|other| other != &transport && entry.name.contains(&format!("transport_{other}")));
                if of_another || entry.name == "transport" && value != transport {
                    continue;
                }
                let mut options = world::with(&base, &format!("source transport {transport}"));
                options.set(entry.scope, entry.name, &value).expect("a value that the option takes");
                let began = Instant::now();
                let line = format!("{transport}: {} {} {value}", entry.scope, entry.name);
                match talk(&options) {
                    Ok(turns) if turns > 800 => hot.push(format!("{line}: {turns} turns")),
                    Ok(_) => {}
                    Err(error) => println!("{line}: {error}"),
                }
                assert!(began.elapsed() < Duration::from_secs(20), "{line} took {:?}", began.elapsed());
            }
        }
    }
    assert!(hot.is_empty(), "turns that do nothing:\n{}", hot.join("\n"));
}
