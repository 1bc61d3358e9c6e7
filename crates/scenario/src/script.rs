//! Reading of scenarios.

/// A scenario: what is set up, and its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Title of the scenario.
    pub title: String,
    /// The variants that it runs in; empty for all.
    pub only: Vec<String>,
    /// Settings of the servers: `key=value`.
    pub settings: Vec<(String, String)>,
    /// The scenario's steps, in order.
    pub steps: Vec<Step>,
}

/// A line of a scenario that does or expects something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    /// The line as it stands.
    pub text: String,
    /// The variants for which it counts; empty for all.
    pub only: Vec<String>,
    /// The step's words. Text in quotation marks is one word, with them.
    pub words: Vec<String>,
}

/// A line that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// Line in the file, from 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

/// Reads the scenarios of a file.
///
/// # Errors
/// A line is outside of a scenario, or a quotation or bracket has no end.
pub fn scenarios(text: &str) -> Result<Vec<Scenario>, ScriptError> {
    let mut all: Vec<Scenario> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let error = |why: &str| ScriptError { line: number, why: why.to_owned() };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("scenario:") {
            let (title, only, settings, steps) = (title.trim().to_owned(), Vec::new(), Vec::new(), Vec::new());
            all.push(Scenario { title, only, settings, steps });
            continue;
        }
        let scenario = all.last_mut().ok_or_else(|| error("a file begins with a line scenario: TITLE"))?;
        if let Some(only) = line.strip_prefix("only:") {
            scenario.only.extend(only.split_whitespace().map(str::to_owned));
        } else if let Some(settings) = line.strip_prefix("set:") {
            for setting in settings.split_whitespace() {
                let (key, value) = setting.split_once('=').ok_or_else(|| error("a setting is KEY=VALUE"))?;
                scenario.settings.push((key.to_owned(), value.to_owned()));
            }
        } else {
            let (only, rest) = match line.strip_prefix('[') {
                Some(rest) => rest.split_once(']').ok_or_else(|| error("[ without ]"))?,
                None => ("", line),
            };
            let words = split(rest).ok_or_else(|| error("a text has no end"))?;
            let only = only.split_whitespace().map(str::to_owned).collect();
            scenario.steps.push(Step { line: number, text: line.to_owned(), only, words });
        }
    }
    Ok(all)
}

/// The words of a line; text in quotation marks is one, with them. `None`: a text has no end.
pub(crate) fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let end = if let Some(text) = rest.strip_prefix('"') {
            text.find('"')? + 2
        } else {
            rest.find(char::is_whitespace).unwrap_or(rest.len())
        };
        words.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_steps_with_their_numbers() {
        let text = "# about\nscenario: One\nset: a=1 b=x\nonly: plain\n\n[plain network] A gets STATUS 5 \"F10: down\" # why\n";
        let read = scenarios(text).expect("a script");
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].settings, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "x".to_owned())]);
        let step = &read[0].steps[0];
        assert_eq!((step.line, step.only.len()), (6, 2));
        assert_eq!(step.words, ["A", "gets", "STATUS", "5", "\"F10: down\""]);
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_line() {
        assert_eq!(scenarios("A gets x").map_err(|error| error.line), Err(1));
        assert_eq!(scenarios("scenario: x\nA gets \"x").map_err(|error| error.line), Err(2));
        assert_eq!(scenarios("scenario: x\n\nset: x").map_err(|error| error.line), Err(3));
    }
}
