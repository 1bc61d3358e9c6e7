//! Limits of a crate.

use super::figures::Figures;

/// Lines of source, which are neither blank nor comment nor test.
const SOURCE: usize = 16_000;
/// Fields of one struct that is more than data, which is one with private fields.
const FIELDS: usize = 24;
/// Methods in the `impl` blocks of one struct.
const METHODS: usize = 60;
/// Lines of one function.
pub(super) const FUNCTION: usize = 120;

type Line = (&'static str, usize, &'static [usize], &'static [usize], usize, usize);

/// Where crates are above that, their figures of today: they only fall. A crate without a line keeps them, and has no circles.
/// Lines of source, files in circles by names, files in circles with methods, fields, methods; the test prints lines that can be lower.
#[rustfmt::skip]
const ABOVE: &[Line] = &[
    ("hub-distributor", 16_000, &[], &[34], 29, 392),
    ("hub-io", 16_000, &[], &[4], 24, 60),
    ("hub-p2ps", 16_000, &[], &[54], 24, 433),
    ("lbm-c", 16_000, &[7], &[7], 24, 60),
    ("permissions", 16_000, &[], &[2], 24, 70),
    ("rwf", 16_000, &[2, 2], &[4, 2, 2, 2], 24, 60),
    // Messages hold containers, and containers may hold messages.
    ("rwf-text", 16_000, &[], &[3], 24, 60),
    ("server", 16_000, &[], &[2], 28, 60),
    ("sim", 16_000, &[2], &[3, 2, 2], 30, 60),
];

/// Limits of a crate, or figures held against them: what is within the house's own limits counts as those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    source: usize,
    circles: Vec<usize>,
    circles_with_methods: Vec<usize>,
    fields: usize,
    methods: usize,
}

impl Limits {
    pub(super) fn of(name: &str) -> Self {
        let own = ABOVE.iter().find(|(of, ..)| *of == name);
        let (_, source, circles, with_methods, fields, methods) = own.copied().unwrap_or(("", 0, &[], &[], 0, 0));
        Self::new(source, circles, with_methods, fields, methods)
    }

    /// The lowest limits that a crate keeps.
    pub(super) fn fitting(f: &Figures) -> Self {
        Self::new(f.source, &f.circles, &f.circles_with_methods, f.widest_closed.0, f.most_methods.0)
    }

    pub(super) fn new(
        source: usize,
        circles: &[usize],
        circles_with_methods: &[usize],
        fields: usize,
        methods: usize,
    ) -> Self {
        Self {
            source: source.max(SOURCE),
            circles: circles.to_vec(),
            circles_with_methods: circles_with_methods.to_vec(),
            fields: fields.max(FIELDS),
            methods: methods.max(METHODS),
        }
    }

    /// Whether a crate of these figures keeps the limits. Circles are held against each other by size, the largest first.
    pub(super) fn hold(&self, today: &Self) -> bool {
        let fit = |most: &[usize], found: &[usize]| {
            found.len() <= most.len() && found.iter().zip(most).all(|(found, most)| found <= most)
        };
        today.source <= self.source
            && fit(&self.circles, &today.circles)
            && fit(&self.circles_with_methods, &today.circles_with_methods)
            && today.fields <= self.fields
            && today.methods <= self.methods
    }

    /// The line of the table that says so.
    pub(super) fn line(&self, name: &str) -> String {
        let grouped = |n: usize| if n < 1000 { n.to_string() } else { format!("{}_{:03}", n / 1000, n % 1000) };
        format!(
            "    ({name:?}, {}, &{:?}, &{:?}, {}, {}),",
            grouped(self.source),
            self.circles,
            self.circles_with_methods,
            self.fields,
            self.methods
        )
    }
}
