//! Item lists: which names a tool opens.
//!
//! Three forms: a file of one name a line (`-f`; the SDK's `<item name="..."/>` XML lists too), names on the command line
//! (`-il A,B`), and a pattern that makes many (`RDT{0..99999}`).

use std::fmt;
use std::path::Path;

/// The names in the text of an item file, in order. Blank lines and lines that begin with `#` or `!` are skipped.
pub fn parse_file(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    if text.contains("<item ") {
        for element in text.split("<item ").skip(1) {
            let element = element.split('>').next().unwrap_or_default();
            let quoted = element.split_once("name=\"").and_then(|(_, rest)| rest.split_once('"'));
            names.extend(quoted.map(|(name, _)| unescape(name)));
        }
        return names;
    }
    for line in text.lines() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if !line.trim().is_empty() && !line.starts_with(['#', '!']) {
            names.push(line.to_owned());
        }
    }
    names
}

/// The five predefined entities of XML.
fn unescape(text: &str) -> String {
    let mut result = text.to_owned();
    for (entity, plain) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")] {
        result = result.replace(entity, plain);
    }
    result
}

/// The names of a comma-separated list in which `PREFIX{FROM..TO}SUFFIX` stands for `TO - FROM + 1` names. Blanks around a name
/// are left out.
///
/// # Errors
/// When a range is not two numbers in order, or blanks stand where commas are meant.
pub fn parse_list(list: &str) -> Result<Vec<String>, NamesError> {
    let mut names = Vec::new();
    for part in list.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if part.contains(char::is_whitespace) {
            return Err(NamesError { part: part.to_owned(), what: BLANKS });
        }
        let Some((prefix, rest)) = part.split_once('{') else {
            names.push(part.to_owned());
            continue;
        };
        let bad = || NamesError { part: part.to_owned(), what: PATTERN };
        let (range, suffix) = rest.split_once('}').ok_or_else(bad)?;
        let (from, to) = range.split_once("..").ok_or_else(bad)?;
        let (from, to): (u32, u32) = (from.parse().map_err(|_| bad())?, to.parse().map_err(|_| bad())?);
        if from > to {
            return Err(bad());
        }
        names.extend((from..=to).map(|n| format!("{prefix}{n}{suffix}")));
    }
    Ok(names)
}

/// The names of an item file.
///
/// # Errors
/// When the file cannot be read or holds no name.
pub fn read_file(path: &Path) -> std::io::Result<Vec<String>> {
    let names = parse_file(&std::fs::read_to_string(path)?);
    if names.is_empty() {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "holds no item name"));
    }
    Ok(names)
}

const PATTERN: &str = "is no name pattern; write PREFIX{FROM..TO}, for example RDT{0..99999}";
/// One long name that nobody has would be asked for, and nothing would come.
const BLANKS: &str =
    "has blanks in it; names are separated by commas (IBM.N,TRI.N), and one that has a blank goes into a file of names";

/// A part of a list that is no name and no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesError {
    part: String,
    what: &'static str,
}

impl fmt::Display for NamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.part, self.what)
    }
}

impl std::error::Error for NamesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_lines_and_of_xml_are_read() {
        assert_eq!(parse_file("IBM.N\r\n# no\n\nTRI.N \n!x\n"), ["IBM.N", "TRI.N "]);
        let xml = r#"<itemList>
            <item domain="MarketPrice" name="A&amp;B.N" post="true"/>
            <item name="RDT2 "/> </itemList>"#;
        assert_eq!(parse_file(xml), ["A&B.N", "RDT2 "]);
    }

    #[test]
    fn lists_and_patterns_are_expanded() {
        assert_eq!(parse_list("IBM.N,RDT{8..10}.O,").unwrap(), ["IBM.N", "RDT8.O", "RDT9.O", "RDT10.O"]);
        assert_eq!(parse_list("X{0..99999}").unwrap().len(), 100_000);
        for bad in ["X{1", "X{1-2}", "X{2..1}", "X{a..b}"] {
            assert!(parse_list(bad).unwrap_err().to_string().contains(bad));
        }
    }

    #[test]
    fn blanks_are_no_commas() {
        assert_eq!(parse_list(" IBM.N, TRI.N ,").unwrap(), ["IBM.N", "TRI.N"]);
        for bad in ["IBM.N TRI.N", "IBM.N\tTRI.N", "X,RDT{0..9} Y"] {
            let told = parse_list(bad).unwrap_err().to_string();
            assert!(told.contains("separated by commas"), "{told}");
        }
    }
}
