//! The field's language, held: words that name nothing here (docs/glossary.md has the term for each), and comments that name their subject.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Images that stood for terms, and names of drawers. Each part of a name counts: `post_office` is `post` and `office`.
const BANNED: [&str; 36] = [
    "office",
    "offices",
    "clerk",
    "clerks",
    "keeper",
    "keepers",
    "mail",
    "mails",
    "inbox",
    "inboxes",
    "employ",
    "employs",
    "seat",
    "seats",
    "courtesy",
    "courteous",
    "contest",
    "contests",
    "oversight",
    "asker",
    "askers",
    "breath",
    "historian",
    "newcomer",
    "newcomers",
    "hopeless",
    "door",
    "doors",
    "valve",
    "valves",
    "usher",
    "heed",
    "heeds",
    "heeded",
    "utils",
    "misc",
];

/// Words that say nothing as the name of a type, a module or a file.
const DRAWERS: [&str; 7] = ["util", "utils", "common", "manager", "helper", "helpers", "misc"];

/// Verbs of conversation that name no type: what a message is, or what came of it, has a term.
const VERBS_AS_TYPES: [&str; 4] = ["Hear", "Heard", "Tell", "Told"];

/// Of 1,000 comments of a crate, how many may begin with a word that stands for a subject.
const COMMENTS_MAX: usize = 90;

const SUBJECTLESS: [&str; 7] = ["It", "They", "What", "Who", "Those", "One", "That"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace")
}

/// Calls `each` with the crate, the path and the text of every source file.
fn sources(mut each: impl FnMut(&str, &Path, &str)) {
    fn visit(krate: &str, dir: &Path, each: &mut impl FnMut(&str, &Path, &str)) {
        for entry in fs::read_dir(dir).expect("a folder of the workspace").flatten() {
            let path = entry.path();
            if path.is_dir() {
                if entry.file_name() != "target" {
                    visit(krate, &path, each);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                each(krate, &path, &fs::read_to_string(&path).expect("text"));
            }
        }
    }
    for krate in fs::read_dir(crates()).expect("crates").flatten().filter(|entry| entry.path().is_dir()) {
        visit(&krate.file_name().to_string_lossy(), &krate.path(), &mut each);
    }
}

/// The text without comments and the contents of strings.
fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut at, mut out) = (0, Vec::with_capacity(bytes.len()));
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let skipped = if rest.starts_with(b"//") {
            rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            rest.windows(2).position(|two| two == b"*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(quote) = raw_string(rest) {
            quote
        } else if byte == b'"' {
            string(rest)
        } else if rest.starts_with(b"'\"'") || rest.starts_with(b"'\\") {
            1 + rest[2..].iter().position(|b| *b == b'\'').unwrap_or(0) + 2
        } else {
            0
        };
        if skipped == 0 {
            out.push(byte);
            at += 1;
        } else {
            out.push(b' ');
            at += skipped;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The length of the string that begins here with a quotation mark.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of the raw string that begins here, if one does.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.strip_prefix(b"r")?.iter().take_while(|b| **b == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(())?;
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|window| window == end).unwrap_or(body.len());
    Some((2 + hashes + length + end.len()).min(rest.len()))
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// The words that a name is made of, in lower case: `HubPeer`, `hub_peer` and `HUB_PEER` are `hub` and `peer`.
fn parts(name: &str) -> Vec<String> {
    let is_loud = !name.contains(|c: char| c.is_lowercase());
    let mut parts = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() && !is_loud {
            parts.push(String::new());
        }
        if letter != '_' {
            parts.last_mut().expect("one at least").extend(letter.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn names_are_the_fields_own() {
    // The lists below are of text, and so are not seen; names from other projects are theirs.
    let foreign = ["hyper_util", "http_body_util"];
    let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    sources(|krate, path, text| {
        let mut note = |word: &str, name: &str| {
            let place = format!("{}: {name}", path.display());
            found.entry((krate.to_owned(), word.to_owned())).or_default().push(place);
        };
        for name in identifiers(&code(text)).filter(|name| !foreign.contains(name)) {
            let parts = parts(name);
            for word in parts.iter().filter(|part| BANNED.contains(&part.as_str())) {
                note(word, name);
            }
            let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
            if is_type && (VERBS_AS_TYPES.contains(&name) || DRAWERS.contains(&parts.last().map_or("", |p| p))) {
                note(name, name);
            }
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let file = if stem == "mod" { path.parent().and_then(Path::file_name) } else { path.file_stem() };
        let file = file.map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        for word in
            parts(&file).iter().filter(|part| BANNED.contains(&part.as_str()) || DRAWERS.contains(&part.as_str()))
        {
            note(word, &file);
        }
    });
    let faults: Vec<String> = found
        .iter()
        .map(|((krate, word), places)| {
            format!("crates/{krate}: {word}: {} uses:\n  {}", places.len(), places.join("\n  "))
        })
        .collect();
    assert!(faults.is_empty(), "docs/glossary.md has the field's word:\n{}", faults.join("\n"));
}

/// What a comment line says, if it is one, by its kind.
fn comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    ["///", "//!", "//"].iter().find_map(|kind| Some((*kind, line.strip_prefix(kind)?.trim())))
}

#[test]
fn comments_name_their_subject() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    sources(|krate, _, text| {
        let count = counts.entry(krate.to_owned()).or_default();
        // The kind of the paragraph that goes on, if one does.
        let mut paragraph = None;
        for line in text.lines() {
            let Some((kind, said)) = comment(line) else {
                paragraph = None;
                continue;
            };
            if !said.is_empty() && paragraph != Some(kind) {
                let first = said.split(|c: char| !c.is_alphabetic()).next().unwrap_or("");
                count.0 += usize::from(SUBJECTLESS.contains(&first));
                count.1 += 1;
            }
            paragraph = (!said.is_empty()).then_some(kind);
        }
    });
    let mut faults = Vec::new();
    for (krate, (bad, all)) in &counts {
        let share = bad * 1_000 / all.max(&1);
        println!("{krate}: {bad} of {all} comments begin without a subject, {share} of 1,000");
        if share > COMMENTS_MAX {
            faults.push(format!(
                "crates/{krate}: {share} of 1,000 comments begin without a subject, {COMMENTS_MAX} at most"
            ));
        }
    }
    let (bad, all) = counts.values().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!("all: {bad} of {all}");
    assert!(
        faults.is_empty(),
        "what does the comment speak of? (It, They, What, Who, Those, One, That)\n{}",
        faults.join("\n")
    );
}

#[test]
fn names_are_taken_apart_and_comments_are_left_out() {
    assert_eq!(parts("HubPeer"), ["hub", "peer"]);
    assert_eq!(parts("HUB_PEER_2"), ["hub", "peer", "2"]);
    let text = "a // office\nlet b = \"clerk \\\" x\"; /* seat */ r#\"mail\"# c '\"' d";
    assert_eq!(identifiers(&code(text)).collect::<Vec<_>>(), ["a", "let", "b", "c", "d"]);
}
