//! Sites that serve each other: how a directory says through which of them a service has come.

use rwf::rdm::directory::{Action, Link, Part};
use std::collections::BTreeMap;

/// The text of a communication line that is up, which tells it from a site.
const LINE_UP: &str = "Communication line is up";
/// As [`LINE_UP`], of one that is down.
const LINE_DOWN: &str = "Communication line is down";

/// Communication lines by which providers of a service are reached (`commLinks`), by name, and whether they are up.
pub type Lines = BTreeMap<String, bool>;

/// The links of a service that comes through these sites, and here by these lines.
pub fn links(path: &[String], lines: &Lines) -> Option<Part<Vec<Link>>> {
    let link = |name: &str, up: bool, text: Option<&str>| Link {
        name: name.to_owned(),
        action: Action::Add,
        up: Some(up),
        kind: Some(1),
        // Fine, or recovery has started: a route is dialled until it is there.
        code: Some(if up { 1 } else { 2 }),
        text: text.map(str::to_owned),
    };
    let sites = path.iter().map(|site| link(site, true, None));
    let lines = lines.iter().map(|(name, &up)| link(name, up, Some(if up { LINE_UP } else { LINE_DOWN })));
    let all: Vec<Link> = sites.chain(lines).collect();
    (!all.is_empty()).then_some(Part::Set(all))
}

/// Whether a link is a communication line, as [`links`] says it; others are sites.
pub fn is_line(link: &Link) -> bool {
    link.text.as_deref().is_some_and(|text| text == LINE_UP || text == LINE_DOWN)
}
