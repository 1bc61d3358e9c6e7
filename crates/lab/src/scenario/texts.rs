//! Texts of a scenario with its own numbers.

use std::fmt::Write as _;

use super::Scenario;

impl Scenario {
    /// A text of the scenario with the numbers of this call: `{items}`, `{size}`, `{mounts}`, `{bursts}`.
    pub fn text(&self, text: &str) -> String {
        let number = |n: u32| {
            let digits = n.to_string();
            let head = digits.len() % 3;
            let groups = digits.as_bytes()[head..].chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
            let first = (head > 0).then(|| digits[..head].to_owned());
            first.into_iter().chain(groups).collect::<Vec<_>>().join(",")
        };
        let mut out = text.to_owned();
        for (name, value) in [("{items}", self.items), ("{mounts}", self.mounts), ("{bursts}", self.bursts)] {
            out = out.replace(name, &number(value));
        }
        out.replace("{size}", &self.update_size())
    }

    /// How long an update is, and what of it is counted.
    pub fn update_size(&self) -> String {
        if self.data_size > 0 {
            format!("{} bytes of data, {} with the header", self.data_size, self.message_size())
        } else {
            format!("{} bytes, header included", self.size)
        }
    }

    /// What a rate has to fulfil to count as held, for people.
    pub fn criterion(&self) -> String {
        let mut text = "nothing lost, no growing queue".to_owned();
        for (name, bound) in [("max", self.max_latency_us), ("mean", self.mean_latency_us)] {
            if bound > 0.0 {
                let _ = write!(text, ", {name} latency at most {bound:.0} us");
            }
        }
        text
    }
}
