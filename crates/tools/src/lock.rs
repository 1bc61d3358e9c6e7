//! `quoteway lock`: DACS locks at the command line.

use std::fmt;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args as ClapArgs, Parser, Subcommand};
use permissions::lock::{AnyLock, Lock, LockError, combine, eq_meaning};
use permissions::rights::{DEFAULT_APPLICATION, Rights};

/// Makes, shows, combines and explains the locks (permission data) of items.
#[derive(Clone, Debug, Parser)]
#[command(name = "lock", after_help = EXAMPLES)]
pub struct Args {
    /// What to do
    #[command(subcommand)]
    pub action: Action,
}

const EXAMPLES: &str = "\
A lock is given as text, such as \"257: 1027 & (456 | 985); 300: 1\", or as its bytes in hexadecimal.

Examples:
  quoteway lock encode '257: 62 & (144 | 145)'
  quoteway lock decode 0301016562c0
  quoteway lock combine '1: 62' 0300011b2c
  quoteway lock explain '257: 62' --rights rights.toml --user alice --service IDN";

/// What can be done with locks.
#[derive(Clone, Debug, Subcommand)]
pub enum Action {
    /// Print the bytes of a lock in hexadecimal
    Encode {
        /// The lock
        lock: String,
    },
    /// Print a lock as text
    Decode {
        /// The lock
        lock: String,
    },
    /// Print the lock that demands what all of these demand
    Combine {
        /// The locks
        #[arg(required = true)]
        locks: Vec<String>,
        /// Print it in hexadecimal only
        #[arg(long)]
        hex: bool,
    },
    /// Say whether locks demand the same, and whether they are the same bytes
    Compare {
        /// One lock
        one: String,
        /// Another
        other: String,
    },
    /// Say why a user may, or may not, see an item with a lock
    Explain(Explain),
}

/// Whose rights to an item are explained.
#[derive(Clone, Debug, ClapArgs)]
pub struct Explain {
    /// The item's lock; without it the item has none
    pub lock: Option<String>,
    /// The rights file
    #[arg(long, value_name = "FILE")]
    pub rights: PathBuf,
    /// The user
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// The item's service
    #[arg(long, value_name = "NAME")]
    pub service: String,
    /// The item's name, for services that are guarded by subject
    #[arg(long, value_name = "NAME", default_value = "")]
    pub item: String,
    /// Where the user sits, as in the login
    #[arg(long, value_name = "POSITION", default_value = "")]
    pub position: String,
    /// The application, as in the login
    #[arg(long, value_name = "ID", default_value_t = DEFAULT_APPLICATION)]
    pub application: u32,
}

/// An item that the user may not see: the answer to `explain`, for standard output as the other one, with another exit status.
#[derive(Debug)]
pub struct Denied(String);

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Denied {}

/// Does what is asked; the result is for standard output.
///
/// # Errors
/// A text for the user: something is no lock, the rights file cannot be read or is wrong; or the item is [`Denied`].
pub fn run(args: &Args) -> anyhow::Result<String> {
    match &args.action {
        Action::Encode { lock } => Ok(hex(&bytes(lock)?)),
        Action::Decode { lock } => Ok(decoded(lock)?.to_string()),
        Action::Combine { locks, hex: only_hex } => {
            let read: anyhow::Result<Vec<Lock>> = locks.iter().map(|text| standard(text)).collect();
            let combined = combine(&read?);
            let bytes = hex(&combined.encode().map_err(|e| numbered(&e))?);
            Ok(if *only_hex { bytes } else { format!("{bytes}\n{combined}") })
        }
        Action::Compare { one, other } => {
            let same_bytes = bytes(one)? == bytes(other)?;
            let (one, other) = (standard(one)?, standard(other)?);
            let word = |is: bool, what: &str| format!("{} {what}", if is { "the same" } else { "different" });
            Ok(format!("{}\n{}", word(eq_meaning(&one, &other), "meaning"), word(same_bytes, "bytes")))
        }
        Action::Explain(explain) => self::explain(explain),
    }
}

fn explain(args: &Explain) -> anyhow::Result<String> {
    let name = args.rights.display().to_string();
    let text = std::fs::read_to_string(&args.rights).map_err(|e| anyhow!("{name}: cannot be read: {e}"))?;
    let rights = Rights::parse(&name, &text)?;
    let lock = args.lock.as_deref().map_or(Ok(Vec::new()), bytes)?;
    let Explain { user, position, application, service, item, .. } = args;
    let explanation = rights.explain(user, position, *application, service, item, &lock);
    if explanation.is_granted { Ok(explanation.to_string()) } else { Err(Denied(explanation.to_string()).into()) }
}

/// Bytes, if the text is hexadecimal of a known version. A text form never is: a service is a number with a colon, or alone.
fn raw(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let is_whole = digits.len() >= 8 && digits.len().is_multiple_of(2) && matches!(digits[..2], [0, 3 | 4]);
    is_whole.then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn decoded(text: &str) -> anyhow::Result<AnyLock> {
    match raw(text) {
        Some(bytes) => AnyLock::decode(&bytes).map_err(|e| numbered(&e)),
        None => text.parse().map(AnyLock::Standard).map_err(|e| numbered(&e)),
    }
}

fn standard(text: &str) -> anyhow::Result<Lock> {
    match decoded(text)? {
        AnyLock::Standard(lock) => Ok(lock),
        AnyLock::Text { .. } => Err(numbered(&LockError::TextLock)),
    }
}

fn bytes(text: &str) -> anyhow::Result<Vec<u8>> {
    match raw(text) {
        Some(bytes) => Ok(bytes),
        None => decoded(text)?.encode().map_err(|e| numbered(&e)),
    }
}

fn numbered(error: &LockError) -> anyhow::Error {
    anyhow!("{error} (DACS error {})", error.code())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn tool(arguments: &[&str]) -> Result<String, String> {
        let all = std::iter::once("lock").chain(arguments.iter().copied());
        run(&Args::try_parse_from(all).expect("good arguments")).map_err(|e| e.to_string())
    }

    #[test]
    fn locks_are_made_shown_combined_and_compared() {
        assert_eq!(tool(&["encode", "257: 6562"]).unwrap(), "0301016562c0");
        assert_eq!(tool(&["decode", "03 0101 6562 c0"]).unwrap(), "257: 6562");
        assert_eq!(tool(&["decode", "040101343536c0"]).unwrap(), "257: text \"456\"");
        assert_eq!(tool(&["combine", "1: 62", "03000163c0"]).unwrap(), "03000162a63c\n1: 62 & 63");
        assert_eq!(tool(&["compare", "1: 1 & 2", "1: 2 & 1"]).unwrap(), "the same meaning\ndifferent bytes");
        assert_eq!(
            tool(&["combine", "1: 1", "040101343536c0"]).unwrap_err(),
            numbered(&LockError::TextLock).to_string()
        );
        assert!(tool(&["decode", "03000162"]).unwrap_err().ends_with("(DACS error 10)"));
    }

    #[test]
    fn an_item_is_explained_from_a_rights_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"[services.IDN]\nid = 257\n[users.alice.grants]\nIDN = [62]\n").unwrap();
        let path = file.path().to_str().unwrap();
        let common = ["--rights", path, "--user", "alice", "--service", "IDN"];
        let granted = tool(&[&["explain", "257: 62"], &common[..]].concat()).unwrap();
        assert!(granted.ends_with("granted"), "{granted}");
        let denied = tool(&[&["explain", "257: 63"], &common[..]].concat()).unwrap_err();
        assert!(denied.contains("NO   User: IDN: PE 63: not granted") && denied.ends_with("denied"), "{denied}");
    }
}
