//! Sites that serve each other: how a directory says through which of them a service has come.

use rwf::rdm::directory::{Action, Link, Part};

/// The links of a service that comes through these sites.
pub fn links(path: &[String]) -> Option<Part<Vec<Link>>> {
    let link = |name: &String| Link {
        name: name.clone(),
        action: Action::Add,
        up: Some(true),
        kind: Some(1),
        code: Some(1),
        text: None,
    };
    (!path.is_empty()).then(|| Part::Set(path.iter().map(link).collect()))
}
