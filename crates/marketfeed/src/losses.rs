//! What a conversion could not say.

use std::fmt;

use rustc_hash::FxHashMap;

/// Why a field was dropped, or changed, on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// The dictionary does not define the field.
    NoDefinition,
    /// The field is not carried in Marketfeed.
    NotInMarketfeed,
    /// The type of the field has no form on the other side (arrays, containers, buffers).
    Type,
    /// The value is none of the field's type.
    Value,
    /// Infinity or not a number.
    Special,
    /// Longer than the field may be.
    TooLong,
    /// Text with a separator (0x1C to 0x1F) in it.
    Separator,
    /// Parts of a date or time that the other side cannot hold alone, or a date out of range.
    PartialDate,
    /// Kept, without the parts of a time that the field cannot hold.
    TimeCut,
    /// Kept, with another hint of the same number (a power of ten above 0, or whole numbers as a fraction).
    Hint,
}

impl Loss {
    /// Whether the field itself was dropped.
    pub const fn is_drop(self) -> bool {
        !matches!(self, Self::TimeCut | Self::Hint)
    }

    /// A word for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoDefinition => "no definition",
            Self::NotInMarketfeed => "not in Marketfeed",
            Self::Type => "type",
            Self::Value => "value",
            Self::Special => "infinity or not a number",
            Self::TooLong => "too long",
            Self::Separator => "separator in text",
            Self::PartialDate => "partial date or time",
            Self::TimeCut => "time cut (kept)",
            Self::Hint => "hint changed (kept)",
        }
    }
}

/// Counters by field and reason: at most one for each field id and reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    counts: FxHashMap<(i16, Loss), u64>,
}

impl Losses {
    pub(crate) fn add(&mut self, fid: i16, loss: Loss) {
        *self.counts.entry((fid, loss)).or_default() += 1;
    }

    /// How often a field met a loss.
    pub fn of(&self, fid: i16, loss: Loss) -> u64 {
        self.counts.get(&(fid, loss)).copied().unwrap_or(0)
    }

    /// All counters, by field and reason.
    pub fn all(&self) -> Vec<(i16, Loss, u64)> {
        let mut all: Vec<(i16, Loss, u64)> = self.counts.iter().map(|((fid, loss), n)| (*fid, *loss, *n)).collect();
        all.sort_unstable();
        all
    }

    /// Fields and reasons that were met: grows when a field meets a loss for the first time.
    pub fn kinds(&self) -> usize {
        self.counts.len()
    }

    /// Fields dropped.
    pub fn dropped(&self) -> u64 {
        self.counts.iter().filter(|((_, loss), _)| loss.is_drop()).map(|(_, n)| n).sum()
    }
}

impl fmt::Display for Losses {
    /// A line for each counter: field id, reason, count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (fid, loss, count) in self.all() {
            writeln!(f, "{fid:6}  {:24} {count}", loss.name())?;
        }
        Ok(())
    }
}
