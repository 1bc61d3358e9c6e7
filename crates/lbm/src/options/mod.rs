//! Options under their LBM names, from files (`context|source|receiver name value` a line) and from code.

mod configs;
mod foreign;
mod table;
mod value;

use core::fmt;
use core::net::Ipv4Addr;

pub use table::{ContextOption, Entry, Opt, ReceiverOption, SourceOption, TABLE, WildcardOption};
pub use value::{
    ActivityMethod, BitsPerSecond, Bytes, ChannelBehavior, Consensus, Count, Daemon, FdManagement, Flag,
    FlightBehavior, Group, Identifier, IndexEligibility, InterestMode, Interface, Intergroup, Intragroup, Millis,
    OperationalMode, OwnGroup, Port, Seconds, SendOrder, Services, SignedMillis, SlowReceivers, SourceSideFiltering,
    Store, StoreBehavior, StoreGroup, StoreSpec, Text, TransportId, TransportName, Value, WaitBehavior,
};

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
    /// An IPv4 address, address/bits to find the interface by its network, or its name.
    Interface,
    /// `[Interface[:LocalPort]->]Address:Port`.
    Daemon,
    /// `[Interface[:LocalPort]->]Host:Port`, several with commas or semicolons between them.
    Services,
    /// `[Domain:]Address:Port[:RegistrationId[:Group]]`.
    Store,
    /// `Index:Size`.
    StoreGroup,
    /// 64 bits, decimal or hexadecimal after `0x`.
    Identifier,
    /// Anything.
    Text,
}

/// Whether a system may call an interface so: Linux has 15 characters.
fn is_interface_name(value: &str) -> bool {
    let is_mark = |b: u8| matches!(b, b'.' | b'-' | b'_' | b':' | b'@');
    value.len() <= 15
        && value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || is_mark(b))
}

/// A word as it is compared: without regard to case, and to the marks inside (`LBT-RM` is `lbtrm`).
fn plain(word: &str) -> impl Iterator<Item = char> {
    word.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).map(|c| c.to_ascii_lowercase())
}

impl Kind {
    /// The value in the way in which it is kept.
    fn canonical(self, value: &str) -> &str {
        let Self::Choice(words) = self else { return value };
        // -1 and 1 are words that differ by their mark alone.
        let same = words
            .iter()
            .find(|word| **word == value)
            .or_else(|| words.iter().find(|word| word.parse::<i64>().is_err() && plain(word).eq(plain(value))));
        same.copied().unwrap_or(value)
    }

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
                let is_network = address.parse::<Ipv4Addr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 32);
                is_network || is_interface_name(value)
            }
            Self::Daemon => {
                let remote = value.rsplit_once("->").map_or(value, |(_, remote)| remote);
                let parsed = remote.rsplit_once(':').map(|(a, p)| (a.parse::<Ipv4Addr>(), p.parse::<u16>()));
                matches!(parsed, Some((Ok(_), Ok(_))))
            }
            Self::Services => value::services(value).all(value::is_service),
            Self::Store => StoreSpec::of(value).is_some(),
            Self::StoreGroup => value::group_of(value).is_some(),
            Self::Identifier => value::identifier(value).is_some(),
            Self::Text => true,
        }
    }

    /// Whether each line adds a value, in the place of none.
    const fn is_list(self) -> bool {
        matches!(self, Self::Daemon | Self::Services | Self::Store | Self::StoreGroup)
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
            Self::Interface => f.write_str("an IPv4 address, address/bits, or the name of an interface"),
            Self::Daemon => f.write_str("[interface[:port]->]address:port"),
            Self::Services => f.write_str("[interface[:port]->]host:port, several with commas between them"),
            Self::Store => f.write_str("[domain:]address:port[:registration id[:group]]"),
            Self::StoreGroup => f.write_str("index:size, both from 0 to 255"),
            Self::Identifier => f.write_str("a whole number of 64 bits, decimal or hexadecimal after 0x"),
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
    /// A configuration in XML, which is another format.
    Xml,
    /// No such scope.
    Scope(String),
    /// No such option in this scope.
    Name {
        /// Where it was looked for.
        scope: Scope,
        /// What was asked for.
        name: String,
        /// The option of the scope that was meant, if one is similar enough.
        nearest: Option<&'static str>,
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

impl OptionFault {
    /// Whether it names the option, or the scope, that was meant.
    fn names_another(&self) -> bool {
        matches!(self, Self::Name { nearest, elsewhere, .. } if nearest.is_some() || !elsewhere.is_empty())
    }
}

impl fmt::Display for OptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("wants: context|source|receiver|wildcard_receiver name value"),
            Self::Xml => f.write_str("is an XML configuration; what is read are lines of: scope name value"),
            Self::Scope(scope) => {
                write!(f, "no scope \"{scope}\"; there are context, source, receiver and wildcard_receiver")
            }
            Self::Name { scope, name, nearest, elsewhere } if elsewhere.is_empty() => {
                write!(f, "no {scope} option \"{name}\"")?;
                nearest.map_or(Ok(()), |nearest| write!(f, "; the nearest is \"{nearest}\""))
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

impl OptionError {
    fn of_code(fault: OptionFault) -> Self {
        Self { file: String::new(), line: 0, fault }
    }
}

/// A line of a file that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionWarning {
    /// The file, as it was named to [`Options::load`].
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The line's scope and name, and why it has no effect.
    pub text: String,
}

impl fmt::Display for OptionWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

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

    /// Reads a file's text over what is set already, and takes nothing that it does not know: for lines of one's own. `#` begins a comment; a
    /// value may be in double quotes; scopes, names and words are the same in capitals.
    ///
    /// # Errors
    /// Every bad line. The good ones are set.
    pub fn parse(&mut self, file: &str, text: &str) -> Result<(), Vec<OptionError>> {
        let mut errors = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let result = split(line).and_then(|found| match found {
                Some((scope, name, value)) => self.assign(scope_of(scope)?, name, value),
                None => Ok(()),
            });
            if let Err(fault) = result {
                errors.push(OptionError { file: file.to_owned(), line: i + 1, fault });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Reads a file that was written for the product, over what is set already: what it may hold and has no effect here is a warning, by
    /// line, with the reason. Form as in [`Self::parse`].
    ///
    /// # Errors
    /// Every line that has not the form of one, or a value that an option with an effect does not take. The good ones are set.
    pub fn load(&mut self, file: &str, text: &str) -> Result<Vec<OptionWarning>, Vec<OptionError>> {
        if text.trim_start().starts_with('<') {
            return Err(vec![OptionError { file: file.to_owned(), line: 1, fault: OptionFault::Xml }]);
        }
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        for (i, line) in text.lines().enumerate() {
            match split(line).and_then(|found| found.map_or(Ok(None), |found| self.load_one(found))) {
                Ok(None) => {}
                Ok(Some(text)) => warnings.push(OptionWarning { file: file.to_owned(), line: i + 1, text }),
                Err(fault) => errors.push(OptionError { file: file.to_owned(), line: i + 1, fault }),
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(errors) }
    }

    /// Sets an option of a file; or says why it has no effect.
    fn load_one(&mut self, (scope, name, value): (&str, &str, &str)) -> Result<Option<String>, OptionFault> {
        let line = format!("{} {}", scope.to_ascii_lowercase(), name.to_ascii_lowercase());
        let scope = match scope_of(scope) {
            Ok(scope) => scope,
            Err(fault) => {
                return foreign::scope(scope).map(|why| Some(format!("{line} has no effect: {why}"))).ok_or(fault);
            }
        };
        let Some(index) = find(scope, name) else {
            // A family's reason is for names of the product: one that is nearly ours, or of another scope, is a slip.
            let fault = unknown(scope, name);
            let why = match foreign::reason(name) {
                Some(why) if !fault.names_another() => why.to_owned(),
                _ => fault.to_string(),
            };
            return Ok(Some(format!("{line} has no effect: {why}")));
        };
        let entry = &TABLE[index];
        if entry.meaning.is_empty() {
            let why = foreign::reason(entry.name).unwrap_or("what it is about is not done here, or needs no setting");
            return Ok(Some(format!("{line} has no effect: {why}")));
        }
        if value.is_empty() && !entry.kind.accepts("") {
            return Ok(Some(format!("{line} has no effect: it has no value, and stays {}", self.text_at(index))));
        }
        self.assign(scope, name, value)?;
        let is_other = foreign::fixed(entry.name).is_some_and(|fixed| fixed != self.text_at(index));
        Ok(is_other.then(|| format!("{line} {value} has no effect: {}", entry.meaning)))
    }

    /// Sets one option.
    ///
    /// # Errors
    /// No such option in this scope, or a value that it does not take.
    pub fn set(&mut self, scope: Scope, name: &str, value: &str) -> Result<(), OptionError> {
        self.assign(scope, name, value).map_err(OptionError::of_code)
    }

    fn assign(&mut self, scope: Scope, name: &str, value: &str) -> Result<(), OptionFault> {
        let index = find(scope, name).ok_or_else(|| unknown(scope, name))?;
        self.assign_at(index, value)
    }

    fn assign_at(&mut self, index: usize, value: &str) -> Result<(), OptionFault> {
        let entry = &TABLE[index];
        let value = entry.kind.canonical(value);
        if !entry.kind.accepts(value) {
            return Err(OptionFault::Value { name: entry.name, value: value.to_owned(), kind: entry.kind });
        }
        // Several resolver daemons and stores can be named.
        if !entry.kind.is_list() {
            self.set.retain(|(other, _)| *other != index);
        }
        self.set.push((index, value.to_owned()));
        Ok(())
    }

    /// The value of an option, or its default.
    pub fn get<T: Value>(&self, option: Opt<T>) -> T::Of<'_> {
        let text = self.text_at(option.index);
        debug_assert!(text.is_empty() || TABLE[option.index].kind.accepts(text), "{option:?} holds {text:?}");
        T::read(text)
    }

    /// Every value of the daemons that were named.
    pub fn daemons(&self) -> impl Iterator<Item = &str> {
        let index = ContextOption::RESOLVER_UNICAST_DAEMON.index;
        self.set.iter().filter(move |(other, _)| *other == index).map(|(_, value)| value.as_str())
    }

    /// The resolution services that were named, each `[Interface[:LocalPort]->]Host:Port`. `0.0.0.0:0` takes back those named before it.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let index = ContextOption::RESOLVER_SERVICE.index;
        let values = self.set.iter().filter(move |(other, _)| *other == index);
        let all: Vec<&str> = values.flat_map(|(_, value)| value::services(value)).collect();
        let from = all.iter().rposition(|service| *service == "0.0.0.0:0").map_or(0, |at| at + 1);
        all.into_iter().skip(from)
    }

    /// The stores that were named for sources, in order.
    pub fn stores(&self) -> impl Iterator<Item = StoreSpec> {
        let index = SourceOption::UME_STORE.index;
        self.set.iter().filter(move |(other, _)| *other == index).filter_map(|(_, value)| StoreSpec::of(value))
    }

    /// The groups of stores that were named: index and size.
    pub fn store_groups(&self) -> impl Iterator<Item = (u8, u8)> {
        let index = SourceOption::UME_STORE_GROUP.index;
        self.set.iter().filter(move |(other, _)| *other == index).filter_map(|(_, value)| value::group_of(value))
    }

    /// Sets an option to a value of which only the text is known.
    ///
    /// # Errors
    /// A value that it does not take.
    pub fn put<T>(&mut self, option: Opt<T>, value: &str) -> Result<(), OptionError> {
        self.assign_at(option.index, value).map_err(OptionError::of_code)
    }

    /// The text of an option by its name, or of its default: for who gets names from elsewhere. `None`: there is no such option.
    pub fn text(&self, scope: Scope, name: &str) -> Option<&str> {
        find(scope, name).map(|index| self.text_at(index))
    }

    fn text_at(&self, index: usize) -> &str {
        let set = self.set.iter().rev().find(|(other, _)| *other == index);
        set.map_or(TABLE[index].default, |(_, value)| value)
    }

    /// The same options, but those of the scope `context` as in `context`: what a source or receiver of that context works with.
    #[must_use]
    pub fn within(&self, context: &Self) -> Self {
        let of_context = |index: &usize| TABLE[*index].scope == Scope::Context;
        let mut set: Vec<_> = context.set.iter().filter(|(index, _)| of_context(index)).cloned().collect();
        set.extend(self.set.iter().filter(|(index, _)| !of_context(index)).cloned());
        Self { set }
    }

    /// Takes over what `from` has set of a scope.
    pub fn take(&mut self, scope: Scope, from: &Self) {
        let of_scope: Vec<_> = from.set.iter().filter(|(index, _)| TABLE[*index].scope == scope).cloned().collect();
        self.set.retain(|(other, _)| !of_scope.iter().any(|(index, _)| index == other));
        self.set.extend(of_scope);
    }

    /// Whether the option was set, as opposed to left at its default.
    pub fn is_set<T>(&self, option: Opt<T>) -> bool {
        self.set.iter().any(|(other, _)| *other == option.index)
    }
}

fn find(scope: Scope, name: &str) -> Option<usize> {
    TABLE.iter().position(|entry| entry.scope == scope && entry.name.eq_ignore_ascii_case(name))
}

fn scope_of(word: &str) -> Result<Scope, OptionFault> {
    let found = Scope::ALL.into_iter().find(|scope| scope.name().eq_ignore_ascii_case(word));
    found.ok_or_else(|| OptionFault::Scope(word.chars().take(128).collect()))
}

/// Scope, name and value of a line; `None` for one without any.
fn split(line: &str) -> Result<Option<(&str, &str, &str)>, OptionFault> {
    // A byte order mark is what some editors begin a file with.
    let line = line.trim_start_matches('\u{FEFF}').trim_start();
    let line = if line.starts_with('#') { "" } else { line };
    if line.is_empty() {
        return Ok(None);
    }
    let (scope, rest) = line.split_once(char::is_whitespace).ok_or(OptionFault::Form)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| c.is_whitespace() || c == '#').unwrap_or(rest.len());
    let (name, value) = rest.split_at(end);
    if name.is_empty() {
        return Err(OptionFault::Form);
    }
    let value = value.trim_start();
    let quoted = value.strip_prefix('"').and_then(|rest| rest.split_once('"'));
    let value = match quoted {
        Some((inside, behind)) if behind.trim_start().is_empty() || behind.trim_start().starts_with('#') => inside,
        Some(_) => return Err(OptionFault::Form),
        None => value.split('#').next().unwrap_or_default().trim(),
    };
    Ok(Some((scope, name, value)))
}

fn unknown(scope: Scope, name: &str) -> OptionFault {
    let names = TABLE.iter().filter(|entry| entry.scope == scope).map(|entry| entry.name);
    let lower = name.to_ascii_lowercase();
    // One letter in eight: what differs more is another name.
    let near = names.map(|other| (edit_distance(&lower, other), other)).min_by_key(|(distance, _)| *distance);
    let nearest = near.filter(|(distance, other)| *distance <= 1 + other.len() / 8).map(|(_, other)| other);
    let elsewhere = TABLE.iter().filter(|entry| entry.name == lower).map(|entry| entry.scope).collect();
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
            let free = entry.kind.is_list() && entry.default.is_empty();
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
        assert_eq!(options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH), 1);
        assert_eq!(options.get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL), 15_000_000);
        assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtrm);
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
                "a.cfg:6: no context option \"x\"",
                "a.cfg:7: resolver_multicast_address wants a multicast group (224.0.0.0 to 239.255.255.255), not \"1.2.3\"",
            ]
        );
        assert_eq!(options, Options::new());
    }

    #[test]
    fn capitals_marks_quotes_and_comments_are_no_matter() {
        let text = "\u{FEFF}SOURCE Transport LBT-RM\nContext fd_management_type EPOLL # no matter\n\
                    context context_name \"a # b\"  # a comment\nreceiver use_otr 2\n\
                    context file_descriptor_management_behavior busy-wait\nreceiver ordered_delivery -1\n";
        for strict in [true, false] {
            let mut options = Options::new();
            if strict {
                options.parse("a.cfg", text).expect("all good");
                assert_eq!(options.get(ContextOption::CONTEXT_NAME), "a # b");
            } else {
                let warnings = options.load("a.cfg", text).expect("all good");
                assert_eq!(warnings.len(), 1, "a context's name means nothing here: {warnings:?}");
            }
            assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtrm);
            assert_eq!(options.get(ContextOption::FD_MANAGEMENT_TYPE), FdManagement::Epoll);
            assert_eq!(options.get(ContextOption::FILE_DESCRIPTOR_MANAGEMENT_BEHAVIOR), WaitBehavior::BusyWait);
            assert_eq!(options.get(ReceiverOption::ORDERED_DELIVERY), crate::topic::Ordering::Arrival);
            assert_eq!(options.get(ReceiverOption::USE_OTR), 2);
        }
        assert!(Options::new().parse("a", "source transport \"lbtrm\" tcp").is_err());
        let mut options = Options::new();
        options.parse("a", "context default_interface \"eth0.17\"").expect("a name");
        for bad in ["10.1.0", "0", "eth0/24", "a name", "aninterfacethatislong"] {
            assert!(options.set(Scope::Context, "default_interface", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_file_of_the_product_has_is_loaded_with_a_reason_for_what_has_no_effect() {
        let text = "event_queue queue_delay_warning 1000\nhfx ordered_delivery 1\nxsp context_attributes x\n\
                    context mim_address 224.1.1.1\nsource ume_store_name a\nreceiver monitor_interval 5\n\
                    context broker 10.0.0.1:12000\ncontext transport_lbtrm_receiver_socket_buffer\n\
                    context default_interface \"\"\nsource use_hotlink -7\ncontext ordered_delivery 0\n\
                    receiver ordered_delivrey 0\ncontext zzz 1\nsource transport_tcp_reuseaddr 0\nsource transport lbtrm\n";
        let mut options = Options::new();
        let warnings = options.load("u.cfg", text).expect("it loads");
        let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        for (line, part) in [
            (1, "event queues"),
            (2, "hot failover"),
            (3, "transport services provider"),
            (4, "immediate messages"),
            (5, "named by address"),
            (6, "monitoring"),
            (7, "brokers are not there"),
            (8, "stays 8388608"),
            (9, "stays 0.0.0.0"),
            (10, "not done here"),
            (11, "belongs to: receiver"),
            (12, "the nearest is \"ordered_delivery\""),
            (13, "no context option \"zzz\""),
            (14, "always on here"),
        ] {
            let text = &texts[line - 1];
            assert!(text.starts_with(&format!("u.cfg:{line}: ")) && text.contains(part), "{part}: {text}");
        }
        assert!(texts.len() == 14 && !texts[12].contains("nearest"), "{texts:?}");
        assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtrm);
        // Lines of one's own are refused, and so is everywhere a value of an option with an effect that it does not take.
        assert_eq!(Options::new().parse("u.cfg", text).expect_err("strict").len(), 12);
        let errors = Options::new().load("u.cfg", "receiver ordered_delivery 7\nfoo bar 1\ncontext").expect_err("bad");
        assert_eq!(errors.len(), 3, "{errors:?}");
        let xml = Options::new().load("u.xml", "<?xml version=\"1.0\"?>\n<um-configuration>").expect_err("xml");
        assert!(xml.len() == 1 && xml[0].to_string().contains("XML"), "{xml:?}");
    }

    /// What the guides of the product set for its other parts: every name is known with its default, and none is a reason to stop.
    #[test]
    fn persistence_queuing_and_hot_failover_are_known_by_name() {
        let text = "SOURCE UME_STORE 10.29.3.1:14567\nsource ume_store_behavior Quorum-Consensus\n\
                    source ume_flight_size_behavior NOTIFY\nreceiver ume_session_id 0x11223344556677\n\
                    source ume_repository_size_limit 1\nsource umq_ulb_application_set 0:100,101\ncontext umq_queue_activity_timeout 9\nreceiver ume_registration_function NULL\n\
                    source UME_Late_Joins 1\ncontext ume_flight_size 7\nwildcard_receiver hf_reciever 1\n";
        let mut options = Options::new();
        let warnings = options.load("u.cfg", text).expect("it loads");
        let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 5, "{texts:?}");
        assert_eq!(options.stores().map(|store| store.at.to_string()).collect::<Vec<_>>(), ["10.29.3.1:14567"]);
        assert_eq!(options.get(SourceOption::UME_FLIGHT_SIZE_BEHAVIOR), FlightBehavior::Notify);
        assert_eq!(options.get(ReceiverOption::UME_SESSION_ID), 0x11_2233_4455_6677);
        assert_eq!(options.get(SourceOption::UMQ_ULB_APPLICATION_SET), "0:100,101");
        assert_eq!(options.get(SourceOption::UME_REPOSITORY_SIZE_LIMIT), 1);
        let parts = [
            "brokers, which are not there",
            "functions are given by programs",
            "the nearest is \"ume_late_join\"",
            "belongs to: source",
            "the nearest is \"hf_receiver\"",
        ];
        for (text, part) in texts.iter().zip(parts) {
            assert!(text.contains(part), "{part}: {text}");
        }
        for (scope, name, default) in [
            (Scope::Source, "ume_retention_size_limit", "25165824"),
            (Scope::Source, "ume_consensus_sequence_number_behavior", "highest"),
            (Scope::Receiver, "ume_consensus_sequence_number_behavior", "majority"),
            (Scope::Receiver, "umq_hold_interval", "10000"),
            (Scope::Receiver, "hf_optional_messages", "1"),
        ] {
            assert_eq!(options.text(scope, name), Some(default), "{scope} {name}");
        }
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
        assert_eq!(both.get(ContextOption::RESOLVER_MULTICAST_TTL), 3);
        assert_eq!(both.get(SourceOption::TRANSPORT), TransportName::Lbtru);
        assert!(!both.is_set(SourceOption::LATE_JOIN));
    }

    #[test]
    fn an_option_is_read_as_its_type_by_whichever_way_it_was_set() {
        let mut options = Options::new();
        assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Tcp);
        options.put(SourceOption::TRANSPORT, "LBT-RU").expect("a word");
        assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Lbtru);
        assert_eq!(options.text(Scope::Source, "TRANSPORT"), Some("lbtru"));
        assert_eq!(options.text(Scope::Receiver, "transport"), None);
        assert!(options.put(SourceOption::TRANSPORT, "pigeon").is_err() && options.is_set(SourceOption::TRANSPORT));
        options.put(ReceiverOption::TRANSPORT_LBTRU_PORT_LOW, "65535").expect("a port");
        assert_eq!(options.get(ReceiverOption::TRANSPORT_LBTRU_PORT_LOW), u16::MAX);
        assert_eq!(options.get(ContextOption::TRANSPORT_LBTRU_PORT_LOW), 14_380);
        let mut other = Options::new();
        other.put(ReceiverOption::USE_OTR, "1").expect("a number");
        options.take(Scope::Receiver, &other);
        options.take(Scope::Source, &other);
        assert_eq!((options.get(ReceiverOption::USE_OTR), options.get(SourceOption::LATE_JOIN)), (1, false));
    }

    #[test]
    fn services_add_up_until_they_are_taken_back() {
        let mut options = Options::new();
        options
            .parse("a.cfg", "context resolver_service 10.0.0.9:1\ncontext resolver_service 0.0.0.0:0")
            .expect("good");
        assert_eq!(options.services().count(), 0);
        let text = "context resolver_service 10.0.0.1:27000, host.example.com:12000\n\
                    CONTEXT RESOLVER_SERVICE eth0:14402->10.0.0.2:27000;10.0.0.0/24->10.0.0.3:27000\n\
                    context resolver_service_interest_mode FLOOD\n";
        assert_eq!(options.load("a.cfg", text), Ok(Vec::new()));
        let expected =
            ["10.0.0.1:27000", "host.example.com:12000", "eth0:14402->10.0.0.2:27000", "10.0.0.0/24->10.0.0.3:27000"];
        assert_eq!(options.services().collect::<Vec<_>>(), expected);
        assert_eq!(options.get(ContextOption::RESOLVER_SERVICE_INTEREST_MODE), InterestMode::Flood);
        for bad in ["10.0.0.1", ":27000", "a b:1", "10.0.0.1:99999", "a->", "10.0.0.1:1,,10.0.0.2:2"] {
            assert!(options.set(Scope::Context, "resolver_service", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_daemons() {
        let mut options = Options::new();
        let text = "context resolver_unicast_daemon 10.0.0.1:15380\ncontext resolver_unicast_daemon 10.0.0.0/24:14402->10.0.0.2:15380";
        options.parse("a.cfg", text).expect("good");
        assert_eq!(options.daemons().count(), 2);
    }
}
