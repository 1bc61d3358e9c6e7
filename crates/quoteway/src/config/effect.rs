//! Parameters that are accepted and have no effect here, each with the reason and what to use instead.

/// Parameters of one component that have no effect for one reason.
pub(super) struct NoEffect {
    /// The component, as [`Section::RMDS`](super::Section::RMDS).
    component: &'static str,
    /// The parameters, as RMDS spells them.
    names: &'static [&'static str],
    /// Why, as the end of a sentence after "has no effect here: ".
    why: &'static str,
}

impl NoEffect {
    /// The end of a sentence that begins with the parameter.
    pub(super) fn sentence(&self) -> String {
        format!("has no effect here: {}", self.why)
    }
}

const TABLE: &[NoEffect] =
    &[NoEffect { component: "P2PS", names: &["hashTableSize"], why: "tables grow with what is in them" }];

/// The entry for a key of a component, without regard to case and underscores.
pub(super) fn of_key(component: &str, name: &str) -> Option<&'static NoEffect> {
    let name = name.replace('_', "");
    TABLE.iter().find(|e| e.component == component && e.names.iter().any(|n| n.eq_ignore_ascii_case(&name)))
}
