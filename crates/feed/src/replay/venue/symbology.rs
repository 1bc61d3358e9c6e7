//! Names of instruments by a file: the venue's symbol, the name that consumers ask for, and the ISIN.
//!
//! The first line names the columns: `symbol` and `name`, and `isin` if there are any. Lines that are empty or begin with `#` are passed over.

use std::collections::{HashMap, HashSet};
use std::path::Path;

/// What is known of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    /// Empty: none is told.
    isin: String,
}

/// Names by the venue's symbols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbology {
    by_symbol: HashMap<String, Known>,
}

/// A file of names that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct SymbologyError {
    /// From 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Names are those of items: 255 bytes on the wire.
const LONGEST_NAME: usize = 255;
/// Bytes of a file: some million instruments.
const LONGEST_FILE: u64 = 256 << 20;

impl Symbology {
    /// Reads a file.
    ///
    /// # Errors
    /// A text for the user: it cannot be read, or a line is wrong.
    pub fn open(path: &Path) -> Result<Self, String> {
        let named = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let facts = std::fs::metadata(path).map_err(|e| named(&e))?;
        if !facts.is_file() || facts.len() > LONGEST_FILE {
            return Err(named(&"it is no file of at most 256 MB"));
        }
        let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
        Self::read(&text).map_err(|e| named(&e))
    }

    /// Reads lines.
    ///
    /// # Errors
    /// The first line that is wrong: a column is missing, an ISIN is none, a symbol or a name is there twice.
    pub fn read(text: &str) -> Result<Self, SymbologyError> {
        let fault = |line: usize, what: String| SymbologyError { line: line + 1, what };
        let mut lines = text.lines().enumerate().map(|(n, line)| (n, line.trim()));
        let mut lines = lines.by_ref().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let Some((at, head)) = lines.next() else {
            return Err(fault(0, "it is empty; the columns are symbol,name,isin".into()));
        };
        let columns: Vec<&str> = head.split(',').map(str::trim).collect();
        let column = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
        let (Some(of_symbol), Some(of_name)) = (column("symbol"), column("name")) else {
            return Err(fault(at, format!("the columns are symbol,name,isin, and not {head}")));
        };
        let (of_isin, mut all, mut names) = (column("isin"), Self::default(), HashSet::new());
        for (n, line) in lines {
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
            let (symbol, name, isin) = (cell(of_symbol), cell(of_name), of_isin.map_or("", cell));
            if cells.len() > columns.len() || symbol.is_empty() || name.is_empty() {
                return Err(fault(n, format!("a symbol and a name are wanted in {} columns: {line}", columns.len())));
            }
            if name.len() > LONGEST_NAME {
                return Err(fault(n, format!("the name is of {} bytes; {LONGEST_NAME} are the most", name.len())));
            }
            if !isin.is_empty() && !is_isin(isin) {
                return Err(fault(
                    n,
                    format!("{isin} is no ISIN: two letters, nine letters or digits, and their check digit"),
                ));
            }
            if !names.insert(name.to_owned()) {
                return Err(fault(n, format!("{name} is the name of two symbols")));
            }
            let known = Known { name: name.to_owned(), isin: isin.to_owned() };
            if all.by_symbol.insert(symbol.to_owned(), known).is_some() {
                return Err(fault(n, format!("{symbol} is there twice")));
            }
        }
        Ok(all)
    }

    /// The name of a symbol.
    pub fn name(&self, symbol: &str) -> Option<&str> {
        self.by_symbol.get(symbol).map(|known| known.name.as_str())
    }

    /// The ISIN of a symbol.
    pub fn isin(&self, symbol: &str) -> Option<&str> {
        self.by_symbol.get(symbol).map(|known| known.isin.as_str()).filter(|isin| !isin.is_empty())
    }
}

/// ISO 6166: letters count as two digits, 10 to 35; every other digit from the right is doubled, and the sum of all digits ends with 0.
fn is_isin(text: &str) -> bool {
    let is_shaped = text.len() == 12
        && text.bytes().take(2).all(|byte| byte.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    let digits = text.chars().filter_map(|c| c.to_digit(36)).flat_map(|value| {
        let (tens, ones) = (value / 10, value % 10);
        [(value > 9).then_some(tens), Some(ones)].into_iter().flatten()
    });
    let digits: Vec<u32> = digits.collect();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(n, digit)| {
            let value = if n % 2 == 1 { digit * 2 } else { *digit };
            value / 10 + value % 10
        })
        .sum();
    is_shaped && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_have_names_and_isins() {
        let all = Symbology::read("# ours\nsymbol, name ,ISIN\nIBM,IBM.N,US4592001014\n\nXBT/USD,BTC=KRK,\n").unwrap();
        assert_eq!((all.name("IBM"), all.isin("IBM")), (Some("IBM.N"), Some("US4592001014")));
        assert_eq!((all.name("XBT/USD"), all.isin("XBT/USD"), all.name("AAPL")), (Some("BTC=KRK"), None, None));
        assert_eq!(Symbology::read("name,symbol\nB,A").unwrap().name("A"), Some("B"));
    }

    #[test]
    fn wrong_lines_are_told_with_their_number() {
        for (text, line, what) in [
            ("", 1, "it is empty"),
            ("# x\nsym,name", 2, "the columns are symbol,name,isin"),
            ("symbol,name\nA", 2, "a symbol and a name are wanted"),
            ("symbol,name\nA,B,C", 2, "in 2 columns"),
            ("symbol,name\nA,B\nA,C", 3, "A is there twice"),
            ("symbol,name\nA,B\nC,B", 3, "B is the name of two symbols"),
            ("symbol,name,isin\nIBM,IBM.N,US4592001015", 2, "US4592001015 is no ISIN"),
            ("symbol,name,isin\nIBM,IBM.N,us4592001014", 2, "no ISIN"),
        ] {
            let error = Symbology::read(text).unwrap_err();
            assert!(error.line == line && error.what.contains(what), "{text:?}: {error}");
        }
        // Published examples of ISO 6166.
        for isin in ["US0378331005", "GB0002634946", "AU0000XVGZA3", "DE000BAY0017"] {
            assert!(is_isin(isin), "{isin}");
        }
        assert!(!is_isin("US037833100X") && !is_isin("US03783310055") && !is_isin("0378331005US"));
    }
}
