//! `quoteway ctl dump`: what there is to know of a process now, in files (RTDS's dumps on command).

use anyhow::anyhow;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::Path;

use serde_json::{Value, json};

use super::Command;
use super::list::List;
use super::texts::json_text;
use crate::administration::Client;

/// What is asked for, and the file that it goes to.
const ANSWERS: [(&str, &str); 7] = [
    ("process", "process.json"),
    ("services", "services.json"),
    ("providers", "providers.json"),
    ("hub", "hub.json"),
    ("blocked", "blocked.json"),
    ("locked", "locked.json"),
    ("events", "log.json"),
];

/// Writes the files, and tells how many rows are in each. The lists come page by page, and so are of no one moment.
///
/// # Errors
/// The folder is there already, a file cannot be written, or nobody answers.
pub(super) fn write(client: &Client, folder: &Path) -> anyhow::Result<Value> {
    // Whoever does not answer this is not to leave an empty folder.
    let process = client.get("/api/v1/process")?;
    std::fs::create_dir(folder).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            anyhow!("{} is there already, and nothing is written over: name a folder that is not", folder.display())
        }
        _ => anyhow!("{}: {e}", folder.display()),
    })?;
    let mut told = Vec::new();
    for (path, name) in ANSWERS {
        let answer = if path == "process" { Ok(process.clone()) } else { client.get(&format!("/api/v1/{path}")) };
        match answer {
            Ok(answer) => {
                let place = folder.join(name);
                net::output::write(&place, json_text(&answer)).map_err(|e| anyhow!("{}: {e}", place.display()))?;
                told.push(json!({ "file": name, "rows": answer.as_array().map_or(1, Vec::len) }));
            }
            // Not every process has clients or providers, and so much to say.
            Err(why) => told.push(json!({ "file": name, "rows": 0, "left_out": why.to_string() })),
        }
    }
    let (clients, items) =
        (Command::Clients { contains: None }, Command::Items { contains: None, service: None, state: None });
    for (command, name) in [(clients, "clients.jsonl"), (items, "items.jsonl")] {
        let Some(list) = List::of(&command) else { continue };
        told.push(write_rows(client, &list, folder, name)?);
    }
    Ok(Value::Array(told))
}

/// Writes a list, a row a line.
fn write_rows(client: &Client, list: &List<'_>, folder: &Path, name: &str) -> anyhow::Result<Value> {
    let place = folder.join(name);
    let failed = |e: std::io::Error| anyhow!("{}: {e}", place.display());
    let mut file = BufWriter::new(net::output::create_new(&place).map_err(failed)?);
    let (mut rows, mut broken) = (0_u64, None);
    let listed = list.rows(client, |row| {
        if broken.is_none() {
            rows += 1;
            broken = writeln!(file, "{row}").err();
        }
    });
    if let Some(broken) = broken {
        return Err(failed(broken));
    }
    file.flush().map_err(failed)?;
    Ok(match listed {
        Ok(()) => json!({ "file": name, "rows": rows }),
        Err(why) => json!({ "file": name, "rows": rows, "left_out": why.to_string() }),
    })
}
