//! The lines that go to the system's log: a selector as syslog has them, `FACILITY.LEVEL`.

use std::fmt;

use super::value::{Parameter, Raw};

/// Facilities by name, each at the place of its number (RFC 5424, table 1); those without a name there are left out.
const FACILITIES: [&str; 12] =
    ["kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"];
/// The number of `local0`; up to `local7` they follow.
const LOCAL0: u8 = 16;

/// The lines that go to the system's log; none if it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Syslog(pub Option<Selector>);

/// A facility, and the lines that go there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// The facility's number: 3 is daemon, 16 to 23 are local0 to local7.
    pub facility: u8,
    /// The severity of the least severe lines: 3 is error, 4 warning, 6 information, 7 debugging.
    pub severity: u8,
}

/// The severity of a level of ours, or of syslog, by name or by syslog's number (RFC 5424, table 2).
fn severity(level: &str) -> Option<u8> {
    Some(match level.to_ascii_lowercase().as_str() {
        "emerg" | "panic" | "alert" | "crit" | "err" | "error" | "0" | "1" | "2" | "3" => 3,
        "warning" | "warn" | "4" => 4,
        "notice" | "info" | "5" | "6" => 6,
        "debug" | "trace" | "*" | "7" => 7,
        _ => return None,
    })
}

fn facility(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    if let Some(number) = name.strip_prefix("local") {
        return number.parse().ok().filter(|number| *number < 8).map(|number: u8| LOCAL0 + number);
    }
    FACILITIES.iter().position(|known| **known == name).and_then(|at| u8::try_from(at).ok())
}

fn name_of(number: u8) -> String {
    FACILITIES
        .get(usize::from(number))
        .map_or_else(|| format!("local{}", number.saturating_sub(LOCAL0)), |name| (*name).to_owned())
}

impl fmt::Display for Syslog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Selector { facility, severity }) = self.0 else { return Ok(()) };
        let level = match severity {
            3 => "error",
            4 => "warn",
            6 => "info",
            _ => "debug",
        };
        write!(f, "{}.{level}", name_of(facility))
    }
}

impl Parameter for Syslog {
    const KIND: &'static str = "a facility and a level of syslog, such as \"daemon.info\", or \"\"";

    fn read(raw: &Raw<'_>) -> Result<Self, String> {
        let wrong = || format!("expected {}, found {raw:?}", Self::KIND);
        let usual = Self(Some(Selector { facility: 3, severity: 6 }));
        let text = match raw {
            Raw::Bool(true) => return Ok(usual),
            Raw::Bool(false) => return Ok(Self(None)),
            Raw::Text(text) => text.trim(),
            _ => return Err(wrong()),
        };
        match text.to_ascii_lowercase().as_str() {
            "" | "false" => return Ok(Self(None)),
            "true" => return Ok(usual),
            _ => {}
        }
        let (of, level) = text.split_once('.').ok_or_else(wrong)?;
        match (facility(of), severity(level)) {
            (Some(facility), Some(severity)) => Ok(Self(Some(Selector { facility, severity }))),
            _ => Err(wrong()),
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }
}

/// The level of our log that a `selector` of RMDS asks for: that of the least severe lines of any facility that it lets through.
///
/// # Errors
/// The word that is no selector, with an example of one.
pub(super) fn level_of_selector(text: &str) -> Result<&'static str, String> {
    let mut least = None;
    for word in text.split([';', ',', ' ', '\t']).filter(|word| !word.is_empty()) {
        let (_, level) = word.rsplit_once('.').unwrap_or(("", word));
        if level.eq_ignore_ascii_case("none") {
            continue;
        }
        let found = severity(level).ok_or_else(|| {
            format!("{word:?} is no selector: write FACILITY.LEVEL, such as *.info, *.warning or *.err")
        })?;
        least = least.max(Some(found));
    }
    Ok(match least {
        None => "off",
        Some(3) => "error",
        Some(4) => "warn",
        Some(6) => "info",
        Some(_) => "debug",
    })
}

#[cfg(test)]
mod tests {
    use super::{Selector, Syslog, level_of_selector};
    use crate::{Config, Selection, load};

    #[test]
    fn a_selector_has_a_facility_and_a_level() {
        for (text, facility, severity, shown) in [
            ("daemon.info", 3, 6, "daemon.info"),
            ("local7.warning", 23, 4, "local7.warn"),
            ("USER.err", 1, 3, "user.error"),
            ("local0.*", 16, 7, "local0.debug"),
            ("true", 3, 6, "daemon.info"),
        ] {
            let config = Config::parse("t.toml", &format!("[log]\nsyslog = \"{text}\"\n")).expect(text);
            assert_eq!(config.log.syslog, Syslog(Some(Selector { facility, severity })), "{text}");
            assert_eq!(config.log.syslog.to_string(), shown);
        }
        assert_eq!(Config::parse("t.toml", "[log]\nsyslog = \"\"\n").expect("none").log.syslog, Syslog(None));
        for wrong in ["daemon", "local8.info", "nobody.info", "daemon.loud"] {
            let fault = Config::parse("t.toml", &format!("[log]\nsyslog = \"{wrong}\"\n")).unwrap_err().to_string();
            assert!(fault.contains("t.toml:2:") && fault.contains("daemon.info"), "{fault}");
        }
    }

    #[test]
    fn an_rmds_cnf_says_how_much_is_logged_and_whether_the_system_has_it() {
        for (text, level) in [
            ("*.info", "info"),
            ("*.warning;kern.none", "warn"),
            ("*.err, local0.debug", "debug"),
            ("*.crit", "error"),
            ("*.none", "off"),
            ("7", "debug"),
        ] {
            assert_eq!(level_of_selector(text), Ok(level), "{text}");
        }
        assert!(level_of_selector("*.loud").is_err());
        let dir = tempfile::tempdir().unwrap();
        let cnf = dir.path().join("rmds.cnf");
        std::fs::write(&cnf, "*ADS*selector : *.warning\n*ADS*install_system_action : True\n").unwrap();
        let loaded = load(&cnf, &Selection::default()).expect("no fault");
        assert_eq!(
            (loaded.config.log.level.as_str(), loaded.config.log.syslog.to_string().as_str()),
            ("warn", "daemon.info")
        );
        assert!(loaded.notes.iter().all(|note| !note.text.contains("no effect")), "{:?}", loaded.notes);
        std::fs::write(&cnf, "*ADS*selector : *.loud\n").unwrap();
        let fault = load(&cnf, &Selection::default()).unwrap_err().to_string();
        assert!(fault.contains("is no selector"), "{fault}");
    }
}
