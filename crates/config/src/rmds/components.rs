//! The components that parameters of RMDS belong to, by their names.

/// Names of the consumer side.
pub(super) const P2PS: &[&str] = &["P2PS", "ADS"];
/// Names of the provider side.
pub(super) const SRC_DIST: &[&str] = &["Src_Dist", "ADH", "SrcDist", "Source_Distributor"];
/// Names of the backbone.
pub(super) const RRCP: &[&str] = &["RRCP", "RRCPD"];
/// The levels that a parameter of a service may stand under.
pub(super) const ANY_COMPONENT: &[&str] = &["P2PS", "ADS", "Src_Dist", "ADH", "SrcDist", "Source_Distributor"];

/// Whether a word names a component.
pub(super) fn is_component(word: &str) -> bool {
    ANY_COMPONENT.iter().chain(RRCP).any(|c| c.eq_ignore_ascii_case(word))
}

/// The component that a word was to name, by its spelling.
pub(super) fn near_component(word: &str) -> Option<&'static str> {
    let close = |c: &str| strsim::damerau_levenshtein(&c.to_lowercase(), &word.to_lowercase()) <= 2 && word.len() > 2;
    ["P2PS", "ADS", "Src_Dist", "ADH", "RRCP"].into_iter().find(|c| close(c))
}
