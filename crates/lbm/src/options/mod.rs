//! Options under their LBM names, from files (`context|source|receiver name value` a line) and from code.

mod configs;
mod table;

use core::fmt;
use core::net::Ipv4Addr;

pub use table::{Entry, TABLE};

/// What an option belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A context: one use of the library in a process.
    Context,
    /// A source.
    Source,
    /// A receiver.
    Receiver,
    /// A wildcard receiver.
    Wildcard,
}

impl Scope {
    const ALL: [Self; 4] = [Self::Context, Self::Source, Self::Receiver, Self::Wildcard];

    /// As it is written in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Source => "source",
            Self::Receiver => "receiver",
            Self::Wildcard => "wildcard_receiver",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What values an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from .. to.
    Number(u64, u64),
    /// A whole number that may be negative.
    Signed,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A multicast group.
    Group,
    /// A multicast group, or 0.0.0.0 for none of its own.
    OwnGroup,
    /// An IPv4 address, or address/bits to find the interface by its network.
    Interface,
    /// `[Interface[:LocalPort]->]Address:Port`.
    Daemon,
    /// Anything.
    Text,
}

impl Kind {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Number(low, high) => value.parse::<u64>().is_ok_and(|n| (low..=high).contains(&n)),
            Self::Signed => value.parse::<i64>().is_ok(),
            Self::Choice(words) => words.contains(&value),
            Self::Group => value.parse::<Ipv4Addr>().is_ok_and(|group| group.is_multicast()),
            Self::OwnGroup => {
                value.parse::<Ipv4Addr>().is_ok_and(|group| group.is_multicast() || group.is_unspecified())
            }
            Self::Interface => {
                let (address, bits) = value.split_once('/').unwrap_or((value, "32"));
                address.parse::<Ipv4Addr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 32)
            }
            Self::Daemon => {
                let remote = value.rsplit_once("->").map_or(value, |(_, remote)| remote);
                let parsed = remote.rsplit_once(':').map(|(a, p)| (a.parse::<Ipv4Addr>(), p.parse::<u16>()));
                matches!(parsed, Some((Ok(_), Ok(_))))
            }
            Self::Text => true,
        }
    }
}

/// What an option takes, in words.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(low, high) => write!(f, "a whole number from {low} to {high}"),
            Self::Signed => f.write_str("a whole number, possibly negative"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Group => f.write_str("a multicast group (224.0.0.0 to 239.255.255.255)"),
            Self::OwnGroup => {
                f.write_str("a multicast group (224.0.0.0 to 239.255.255.255), or 0.0.0.0 for none of its own")
            }
            Self::Interface => f.write_str("an IPv4 address or address/bits"),
            Self::Daemon => f.write_str("[interface[:port]->]address:port"),
            Self::Text => f.write_str("any text"),
        }
    }
}

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, or no number at all.
    Plain,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitsPerSecond,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionFault {
    /// Not `scope name value`.
    Form,
    /// No such scope.
    Scope(String),
    /// No such option in this scope.
    Name {
        /// Where it was looked for.
        scope: Scope,
        /// What was asked for.
        name: String,
        /// The most similar option of the scope.
        nearest: &'static str,
        /// Scopes that have an option of this very name.
        elsewhere: Vec<Scope>,
    },
    /// A value that the option does not take.
    Value {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What it takes.
        kind: Kind,
    },
}

impl fmt::Display for OptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("wants: context|source|receiver|wildcard_receiver name value"),
            Self::Scope(scope) => {
                write!(f, "no scope \"{scope}\"; there are context, source, receiver and wildcard_receiver")
            }
            Self::Name { scope, name, nearest, elsewhere } if elsewhere.is_empty() => {
                write!(f, "no {scope} option \"{name}\"; the nearest is \"{nearest}\"")
            }
            Self::Name { scope, name, elsewhere, .. } => {
                let names: Vec<_> = elsewhere.iter().map(|s| s.name()).collect();
                write!(f, "\"{name}\" is no {scope} option but belongs to: {}", names.join(", "))
            }
            Self::Value { name, value, kind } => write!(f, "{name} wants {kind}, not \"{value}\""),
        }
    }
}

/// A bad line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The file, as it was named to [`Options::parse`]; empty for options set from code.
    pub file: String,
    /// Line, from 1; 0 for options set from code.
    pub line: usize,
    /// What is wrong.
    pub fault: OptionFault,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}:{}: ", self.file, self.line)?;
        }
        self.fault.fmt(f)
    }
}

impl core::error::Error for OptionError {}

/// A full set of options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// (index in [`TABLE`], value) of those that were set, latest last.
    set: Vec<(usize, String)>,
}

impl Options {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file's text over what is set already. `#` begins a comment; a value may be in double quotes.
    ///
    /// # Errors
    /// Every bad line. The good ones are set.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), Vec<OptionError>> {
        let mut errors = Vec::new();
        for (i, line) in text.lines().enumerate() {
            if let Err(fault) = self.line(line) {
                errors.push(OptionError { file: file.to_owned(), line: i + 1, fault });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn line(&mut self, line: &str) -> Result<(), OptionFault> {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            return Ok(());
        }
        let (scope, rest) = line.split_once(char::is_whitespace).ok_or(OptionFault::Form)?;
        let found = Scope::ALL.into_iter().find(|s| s.name() == scope);
        let scope = found.ok_or_else(|| OptionFault::Scope(scope.to_owned()))?;
        let (name, value) = rest.trim_start().split_once(char::is_whitespace).ok_or(OptionFault::Form)?;
        let value = value.trim();
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        self.assign(scope, name, value)
    }

    /// Sets one option.
    ///
    /// # Errors
    /// No such option in this scope, or a value that it does not take.
    pub fn set(&mut self, scope: Scope, name: &str, value: &str) -> Result<(), OptionError> {
        let wrap = |fault| OptionError { file: String::new(), line: 0, fault };
        self.assign(scope, name, value).map_err(wrap)
    }

    fn assign(&mut self, scope: Scope, name: &str, value: &str) -> Result<(), OptionFault> {
        let index = find(scope, name).ok_or_else(|| unknown(scope, name))?;
        let entry = &TABLE[index];
        if !entry.kind.accepts(value) {
            return Err(OptionFault::Value { name: entry.name, value: value.to_owned(), kind: entry.kind });
        }
        // Several resolver daemons can be named.
        if entry.kind != Kind::Daemon {
            self.set.retain(|(other, _)| *other != index);
        }
        self.set.push((index, value.to_owned()));
        Ok(())
    }

    /// The value of an option, or its default. Empty if there is no such option.
    pub fn text(&self, scope: Scope, name: &str) -> &str {
        let Some(index) = find(scope, name) else { return "" };
        let set = self.set.iter().rev().find(|(other, _)| *other == index);
        set.map_or(TABLE[index].default, |(_, value)| value)
    }

    /// Every value of an option that may come several times.
    pub fn texts(&self, scope: Scope, name: &str) -> impl Iterator<Item = &str> {
        let index = find(scope, name);
        self.set.iter().filter(move |(other, _)| Some(*other) == index).map(|(_, value)| value.as_str())
    }

    /// The value of a number.
    pub fn number(&self, scope: Scope, name: &str) -> u64 {
        self.text(scope, name).parse().unwrap_or(0)
    }

    /// The value of an address.
    pub fn address(&self, scope: Scope, name: &str) -> Ipv4Addr {
        let text = self.text(scope, name);
        text.split('/').next().and_then(|a| a.parse().ok()).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// A duration in nanoseconds, whatever its unit in the table.
    pub fn nanoseconds(&self, scope: Scope, name: &str) -> u64 {
        let unit = find(scope, name).map_or(Unit::Plain, |index| TABLE[index].unit);
        let factor = match unit {
            Unit::Seconds => 1_000_000_000,
            Unit::Milliseconds => 1_000_000,
            _ => 1,
        };
        self.number(scope, name).saturating_mul(factor)
    }

    /// These options, but those of the scope `context` as in `context`: what a source or receiver of that context works with.
    #[must_use]
    pub fn within(&self, context: &Self) -> Self {
        let of_context = |index: &usize| TABLE[*index].scope == Scope::Context;
        let mut set: Vec<_> = context.set.iter().filter(|(index, _)| of_context(index)).cloned().collect();
        set.extend(self.set.iter().filter(|(index, _)| !of_context(index)).cloned());
        Self { set }
    }

    /// Whether the option was set, as opposed to left at its default.
    pub fn is_set(&self, scope: Scope, name: &str) -> bool {
        let index = find(scope, name);
        self.set.iter().any(|(other, _)| Some(*other) == index)
    }
}

fn find(scope: Scope, name: &str) -> Option<usize> {
    TABLE.iter().position(|entry| entry.scope == scope && entry.name == name)
}

fn unknown(scope: Scope, name: &str) -> OptionFault {
    let names = TABLE.iter().filter(|entry| entry.scope == scope).map(|entry| entry.name);
    let nearest = names.min_by_key(|other| edit_distance(name, other)).unwrap_or_default();
    let elsewhere = TABLE.iter().filter(|entry| entry.name == name).map(|entry| entry.scope).collect();
    OptionFault::Name { scope, name: name.chars().take(128).collect(), nearest, elsewhere }
}

/// How many insertions, deletions and replacements lie between two names.
fn edit_distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().take(128).enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_and_every_name_is_there_once() {
        for (i, entry) in TABLE.iter().enumerate() {
            let free = matches!(entry.kind, Kind::Daemon) && entry.default.is_empty();
            assert!(free || entry.kind.accepts(entry.default), "{entry:?}");
            assert_eq!(find(entry.scope, entry.name), Some(i), "{entry:?}");
        }
    }

    #[test]
    fn reads_the_settings_of_the_report() {
        let text = "
            # latency
            source implicit_batching_minimum_length 1
            context transport_lbtrm_receiver_socket_buffer 8388608
            context transport_session_multiple_sending_threads 0
            context transport_datagram_max_size 1472   # one Ethernet frame
            context fd_management_type poll
            source transport_lbtrm_ignore_interval 15
            receiver delivery_control_maximum_burst_loss 2048
            source transport \"lbtrm\"";
        let mut options = Options::new();
        options.parse("lbm.cfg", text).expect("all good");
        assert_eq!(options.number(Scope::Source, "implicit_batching_minimum_length"), 1);
        assert_eq!(options.nanoseconds(Scope::Source, "transport_lbtrm_ignore_interval"), 15_000_000);
        assert_eq!(options.text(Scope::Source, "transport"), "lbtrm");
        assert_eq!(options.lbtrm_sender().datagram_max, 1_472);
        assert_eq!(options.delivery().burst_loss_max, 2_048);
    }

    #[test]
    fn names_file_line_and_nearest() {
        let text = "source implicit_batching_minimum_lenght 1\nreciever x 1\n\ncontext ordered_delivery 1\n\
                    receiver ordered_delivery 2\ncontext x\ncontext resolver_multicast_address 1.2.3\n";
        let mut options = Options::new();
        let errors = options.parse("a.cfg", text).expect_err("all bad");
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "a.cfg:1: no source option \"implicit_batching_minimum_lenght\"; the nearest is \"implicit_batching_minimum_length\"",
                "a.cfg:2: no scope \"reciever\"; there are context, source, receiver and wildcard_receiver",
                "a.cfg:4: \"ordered_delivery\" is no context option but belongs to: receiver",
                "a.cfg:5: ordered_delivery wants one of 1, -1, 0, not \"2\"",
                "a.cfg:6: wants: context|source|receiver|wildcard_receiver name value",
                "a.cfg:7: resolver_multicast_address wants a multicast group (224.0.0.0 to 239.255.255.255), not \"1.2.3\"",
            ]
        );
        assert_eq!(options, Options::new());
    }

    /// A pool that begins with a host's address would send data to hosts that nobody named.
    #[test]
    fn groups_are_multicast() {
        let mut options = Options::new();
        for name in ["resolver_multicast_address", "transport_lbtrm_multicast_address_low"] {
            let error = options.set(Scope::Context, name, "10.0.0.1").expect_err("a host");
            assert!(error.to_string().contains("wants a multicast group"), "{error}");
            assert!(options.set(Scope::Context, name, "0.0.0.0").is_err());
            options.set(Scope::Context, name, "239.1.2.3").expect("a group");
        }
        options.set(Scope::Source, "transport_lbtrm_multicast_address", "0.0.0.0").expect("none of its own");
        options.set(Scope::Source, "transport_lbtrm_multicast_address", "10.0.0.1").expect_err("a host");
    }

    #[test]
    fn a_source_has_its_own_options_and_those_of_its_context() {
        let (mut context, mut source) = (Options::new(), Options::new());
        context.parse("a", "context resolver_multicast_ttl 3\nsource late_join 1").expect("good");
        source.parse("b", "context resolver_multicast_ttl 4\nsource transport lbtru").expect("good");
        let both = source.within(&context);
        assert_eq!(both.number(Scope::Context, "resolver_multicast_ttl"), 3);
        assert_eq!(both.text(Scope::Source, "transport"), "lbtru");
        assert!(!both.is_set(Scope::Source, "late_join"));
    }

    #[test]
    fn several_daemons() {
        let mut options = Options::new();
        let text = "context resolver_unicast_daemon 10.0.0.1:15380\ncontext resolver_unicast_daemon 10.0.0.0/24:14402->10.0.0.2:15380";
        options.parse("a.cfg", text).expect("good");
        assert_eq!(options.texts(Scope::Context, "resolver_unicast_daemon").count(), 2);
    }
}
