//! `rmds.cnf`, the configuration file of RMDS, TREP and RTDS.
//!
//! `docs/operating/configuration.md` states the syntax and the rule of precedence.

mod apply;
mod catalogue;
mod components;
pub mod import;
pub mod lookup;
mod route_services;
pub mod syntax;

pub(super) use apply::{Reading, read};

/// How a parameter of ours is written in an `rmds.cnf`; none if it has no name there.
pub(super) fn names_in_rmds(section: &str, key: &str) -> Vec<String> {
    catalogue::Catalogue::new()
        .mapped()
        .iter()
        .filter(|m| m.section == section && m.key == key)
        .map(catalogue::Mapped::example)
        .collect()
}

/// Whether text is an `rmds.cnf` rather than TOML: its first line that is neither empty nor a comment has a `*` in its key, or
/// a comment begins with `!`.
pub(super) fn looks_like(text: &str) -> bool {
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        let key = line.split([':', '=']).next().unwrap_or(line);
        return line.starts_with('!') || (key.contains('*') && !line.starts_with(['[', '"']));
    }
    false
}

/// Any bytes as an `rmds.cnf`: faults with their lines, or a configuration that is the same when it is imported.
///
/// # Panics
/// Only if something is wrong here.
pub fn hostile(bytes: &[u8]) {
    let text: String = bytes.iter().map(|&byte| char::from(byte)).collect();
    let _ = looks_like(&text);
    let place = lookup::Place { host: "box".into(), instance: "1".into() };
    match read("r.cnf", &text, &place) {
        Ok(reading) => {
            let toml = import::convert("r.cnf", &text, &place).expect("it was read before");
            let again = super::Config::parse("r.toml", &toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
            assert_eq!(again, reading.loaded.config, "{toml}");
        }
        Err(error) => {
            assert!(
                !error.faults.is_empty() && error.faults.iter().all(|fault| fault.starts_with("r.cnf:")),
                "{error:?}"
            );
            assert!(error.faults.len() <= 3 * (text.lines().count() + 1), "{} faults", error.faults.len());
        }
    }
}

#[cfg(test)]
mod tests;
