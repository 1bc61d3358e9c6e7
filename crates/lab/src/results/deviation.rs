//! An aspect of a test of a report beside the same here.

/// An aspect of a test: there, here, and whether that is the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Topology, processes, binding, ...
    pub aspect: &'static str,
    /// In the report.
    pub original: String,
    /// In this call.
    pub ours: String,
    /// How the two compare.
    pub same: Same,
}

/// Whether an aspect is the same here as there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// Nothing is easier or harder here by this.
    Yes,
    /// The value differs.
    No,
    /// The report does not say how it was there.
    NotSaid,
}

impl Same {
    /// Of what a report says.
    pub(crate) fn of(is_same: bool) -> Self {
        if is_same { Self::Yes } else { Self::No }
    }

    /// Of what a report may not say.
    pub(crate) fn maybe(is_same: Option<bool>) -> Self {
        is_same.map_or(Self::NotSaid, Self::of)
    }

    /// For a reader.
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotSaid => "not said",
        }
    }
}
