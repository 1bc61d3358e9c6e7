//! The command lines of the RMDS tools: long flags behind a single dash (`-tcpnodel`, `-lmfile out.csv`), one of them
//! without any dash at all (`decodeFormat 3`).
//!
//! [`modernise`] rewrites them, by a table a tool, into the spelling that the argument parser knows. Everything that is
//! not in the table goes through unchanged, so `--help` and the tools' own double-dash flags work beside them.

use anyhow::anyhow;
use std::ffi::{OsStr, OsString};

/// One flag as the original tools spell it.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The flag as the user types it, dash included.
    pub typed: &'static str,
    /// The argument parser's name for it.
    pub meant: &'static str,
    /// Whether the next word is its value, whatever it looks like.
    pub takes_value: bool,
}

/// A flag that takes a value.
pub const fn value(typed: &'static str, meant: &'static str) -> Flag {
    Flag { typed, meant, takes_value: true }
}

/// A flag that stands alone.
pub const fn switch(typed: &'static str, meant: &'static str) -> Flag {
    Flag { typed, meant, takes_value: false }
}

/// The flags of `sink-driven-src`.
pub const SINK_DRIVEN_SRC: &[Flag] = &[
    value("-S", "--service"),
    value("-N", "--port"),
    value("-Q", "--data-file"),
    value("-q", "--template-item"),
    switch("-K", "--keep"),
    switch("-c", "--cycle"),
    value("-E", "--protocol"),
    value("-I", "--interval"),
    switch("-tcpnodel", "--tcp-no-delay"),
    switch("-ts", "--timestamps"),
    value("-tsn", "--timestamp-item"),
    value("-UL", "--latency-updates"),
    value("-tps", "--ticks"),
    value("-U", "--update-rate"),
];

/// The flags of `test-client`.
pub const TEST_CLIENT: &[Flag] = &[
    value("-S", "--service"),
    value("-h", "--host"),
    value("-p", "--port"),
    value("-md", "--domain"),
    value("-u", "--user"),
    value("-f", "--item-file"),
    value("-il", "--items"),
    value("-ct", "--connection-type"),
    switch("-tt", "--timestamps"),
    value("-lmfile", "--latency-file"),
    value("decodeFormat", "--decode-format"),
    value("-decodeFormat", "--decode-format"),
    value("-l", "--log"),
    value("-o", "--open-window"),
    value("-rf", "--request-flags"),
    value("-I", "--interval"),
    switch("-v", "--verbose"),
    switch("-X", "--xml"),
    value("-d", "--dump-level"),
];

/// The subcommand that a program of this name is: links named like the original programs run their namesakes
/// (`ln -s quoteway Sink_Driven_Src`).
pub fn subcommand_of(program: &OsStr) -> Option<&'static str> {
    let name = std::path::Path::new(program).file_name()?.to_str()?.to_ascii_lowercase().replace('-', "_");
    Some(match name.as_str() {
        "sink_driven_src" => "sink-driven-src",
        "rmdstestclient" | "testclient" | "test_client" => "test-client",
        "src_dist" | "adh" => "source-distributor",
        "p2ps" | "ads" => "p2ps",
        _ => return None,
    })
}

/// The text of a parser's error with the flags named as they were typed: whoever writes `-U fast` may not know
/// `--update-rate`.
pub fn as_typed(flags: &[Flag], words: &[OsString], error: &str) -> String {
    let mut text = error.to_owned();
    for flag in flags.iter().filter(|flag| words.iter().any(|word| OsStr::new(flag.typed) == word)) {
        text = text.replace(&format!("'{} ", flag.meant), &format!("'{} ", flag.typed));
        text = text.replace(&format!("'{}'", flag.meant), &format!("'{}'", flag.typed));
    }
    text
}

/// Seconds on a command line: a number that is not negative.
///
/// # Errors
/// A text for the user.
pub fn seconds(text: &str) -> anyhow::Result<f64> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.ok_or_else(|| anyhow!("write a number of seconds: 5, or 0.5"))
}

/// A factor, share or number a second on a command line: a number that is not negative.
///
/// # Errors
/// A text for the user.
pub fn number(text: &str) -> anyhow::Result<f64> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| anyhow!("write a number that is not negative: 10, or 0.5"))
}

/// Rewrites the words of a command line by the table. The first word (the program) stays.
pub fn modernise(flags: &[Flag], words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words = words.into_iter();
    let mut result: Vec<OsString> = words.next().into_iter().collect();
    while let Some(word) = words.next() {
        if word == "--" {
            result.push(word);
            result.extend(words);
            break;
        }
        let Some(flag) = flags.iter().find(|f| OsStr::new(f.typed) == word) else {
            result.push(word);
            continue;
        };
        // Joined by `=`, a value that begins with a dash is still a value.
        let value = if flag.takes_value { words.next() } else { None };
        let mut meant = OsString::from(flag.meant);
        if let Some(value) = value {
            meant.push("=");
            meant.push(value);
        }
        result.push(meant);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(flags: &[Flag], line: &str) -> String {
        let words = modernise(flags, line.split(' ').map(OsString::from));
        words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_reports_command_lines_are_understood() {
        assert_eq!(
            rewritten(
                SINK_DRIVEN_SRC,
                "src -S RDFD -N 14002 -Q sample.xml -q GOOG.O -K -c -tcpnodel -ts -tsn RTRSY.O -UL 10 -tps 500"
            ),
            "src --service=RDFD --port=14002 --data-file=sample.xml --template-item=GOOG.O --keep --cycle --tcp-no-delay \
             --timestamps --timestamp-item=RTRSY.O --latency-updates=10 --ticks=500"
        );
        assert_eq!(
            rewritten(
                TEST_CLIENT,
                "client -S RDFD -h p2ps_2 -p 14002 -md 6 decodeFormat 3 -l 1 -o 500 -u rmds -tt -lmfile out -f items \
                 -ct rssl -rf 12"
            ),
            "client --service=RDFD --host=p2ps_2 --port=14002 --domain=6 --decode-format=3 --log=1 --open-window=500 \
             --user=rmds --timestamps --latency-file=out --item-file=items --connection-type=rssl --request-flags=12"
        );
    }

    #[test]
    fn every_flag_of_the_tables_is_rewritten_alone_and_among_others() {
        for table in [SINK_DRIVEN_SRC, TEST_CLIENT] {
            for flag in table {
                let (line, expected) = if flag.takes_value {
                    (format!("x {} -ts --smooth", flag.typed), format!("x {}=-ts --smooth", flag.meant))
                } else {
                    (format!("x {} --smooth v", flag.typed), format!("x {} --smooth v", flag.meant))
                };
                assert_eq!(rewritten(table, &line), expected);
            }
        }
    }

    #[test]
    fn links_are_called_like_the_original_programs() {
        let of = |name: &str| subcommand_of(OsStr::new(name));
        assert_eq!(of("./Sink_Driven_Src"), Some("sink-driven-src"));
        assert_eq!(of("/opt/rmds/RMDSTestClient"), Some("test-client"));
        assert_eq!((of("Src_Dist"), of("p2ps")), (Some("source-distributor"), Some("p2ps")));
        assert_eq!((of("/usr/bin/quoteway"), of("")), (None, None));
    }

    #[test]
    fn unknown_words_and_words_behind_a_double_dash_stay() {
        assert_eq!(rewritten(TEST_CLIENT, "x --mounts 100 -z"), "x --mounts 100 -z");
        assert_eq!(rewritten(TEST_CLIENT, "x -- -tt"), "x -- -tt");
        assert_eq!(rewritten(TEST_CLIENT, "x -p"), "x --port", "the parser says what is missing");
    }
}
