//! Expressions over the subservices of a service: `NYSE & "Money 2000" & (NY | LONDON)`.

/// What a PE or an item name stands for. There is no "not": more rights never take anything away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    /// The subservice with this index.
    Subservice(u16),
    /// All are needed.
    And(Vec<Expression>),
    /// One is enough.
    Or(Vec<Expression>),
}

/// An expression is nested at most so deep.
const DEPTH_MAX: usize = 32;

impl Expression {
    /// Whether what `has` says suffices.
    pub(crate) fn holds(&self, has: &impl Fn(u16) -> bool) -> bool {
        match self {
            Self::Subservice(index) => has(*index),
            Self::And(parts) => parts.iter().all(|part| part.holds(has)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(has)),
        }
    }

    /// Visits every subservice in it.
    pub(crate) fn each(&self, visit: &mut impl FnMut(u16)) {
        match self {
            Self::Subservice(index) => visit(*index),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.each(visit)),
        }
    }

    /// The text of the expression, with names for the indices.
    pub(crate) fn text<'n>(&self, name: &impl Fn(u16) -> &'n str) -> String {
        let joined = |parts: &[Self], with: &str| {
            let text = |part: &Self| match part {
                Self::Subservice(_) => part.text(name),
                _ => format!("({})", part.text(name)),
            };
            parts.iter().map(text).collect::<Vec<_>>().join(with)
        };
        match self {
            Self::Subservice(index) => name(*index).to_owned(),
            Self::And(parts) => joined(parts, " & "),
            Self::Or(parts) => joined(parts, " | "),
        }
    }

    /// Reads an expression; `find` gives the index of a name. `&` binds tighter than `|`. Names with blanks or operators
    /// stand in double or single quotes.
    ///
    /// # Errors
    /// What is wrong, as a sentence without its beginning.
    pub(crate) fn parse(text: &str, find: &impl Fn(&str) -> Result<u16, String>) -> Result<Self, String> {
        let mut parser = Parser { rest: text, find, depth: 0 };
        let expression = parser.any()?;
        if parser.rest.trim_start().is_empty() {
            Ok(expression)
        } else {
            Err(format!("{:?} is left over after an expression", parser.rest.trim_start()))
        }
    }
}

struct Parser<'t, F> {
    rest: &'t str,
    find: &'t F,
    depth: usize,
}

impl<F: Fn(&str) -> Result<u16, String>> Parser<'_, F> {
    fn take(&mut self, what: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<Expression, String> {
        let first = self.all()?;
        let mut parts = vec![first];
        while self.take('|') {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Or(parts) })
    }

    fn all(&mut self) -> Result<Expression, String> {
        let first = self.one()?;
        let mut parts = vec![first];
        while self.take('&') {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::And(parts) })
    }

    fn one(&mut self) -> Result<Expression, String> {
        if self.take('(') {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(format!("an expression has more than {DEPTH_MAX} brackets within each other"));
            }
            let inner = self.any()?;
            self.depth -= 1;
            return if self.take(')') { Ok(inner) } else { Err("a bracket is not closed".to_owned()) };
        }
        for quote in ['"', '\''] {
            if self.take(quote) {
                let (name, rest) = self.rest.split_once(quote).ok_or("a quote is not closed")?;
                self.rest = rest;
                return (self.find)(name).map(Expression::Subservice);
            }
        }
        let end = self.rest.find(['&', '|', '(', ')', '"', '\'']).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.trim().is_empty() {
            return Err("a name is missing in an expression".to_owned());
        }
        self.rest = rest;
        (self.find)(name.trim()).map(Expression::Subservice)
    }
}
