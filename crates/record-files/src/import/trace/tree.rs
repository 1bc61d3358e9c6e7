//! Elements of a trace as a tree.

/// Elements within each other: more than any message has.
const DEPTH_MAX: usize = 40;

/// An element with its attributes. What stands between attributes without a name has one here: the stream's, data's and code's state as one text
/// (`state`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
}

impl Element {
    /// The value of an attribute.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The first child of a name.
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The number of an attribute.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name)?.parse().ok()
    }

    /// The flags of an element: `0x12 (WORDS)`.
    pub(super) fn flags(&self) -> u32 {
        let text = self.get("flags").and_then(|flags| flags.strip_prefix("0x")).unwrap_or_default();
        let digits = text.split(' ').next().unwrap_or_default();
        u32::from_str_radix(digits, 16).unwrap_or(0)
    }
}

/// Reads one element and what is in it.
///
/// # Errors
/// Why it is none.
pub(super) fn parse(text: &str) -> Result<Element, String> {
    let mut open: Vec<Element> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(closing) = rest.strip_prefix('/') {
            let end = closing.find('>').ok_or("an end tag is cut off")?;
            let done = open.pop().filter(|element| element.name == closing[..end]).ok_or("elements are not nested")?;
            rest = &closing[end + 1..];
            match open.last_mut() {
                Some(parent) => parent.children.push(done),
                None => return Ok(done),
            }
            continue;
        }
        let (element, is_whole, behind) = tag(rest)?;
        rest = behind;
        if !is_whole && open.len() >= DEPTH_MAX {
            return Err("elements are nested too deep".to_owned());
        }
        match open.last_mut() {
            _ if !is_whole => open.push(element),
            Some(parent) => parent.children.push(element),
            None => return Ok(element),
        }
    }
    Err("it has no end".to_owned())
}

/// A tag behind its `<`: the element, whether it has an end of its own, and what is behind it.
fn tag(text: &str) -> Result<(Element, bool, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).ok_or("a tag is cut off")?;
    let mut element = Element { name: text[..end].to_owned(), ..Element::default() };
    let mut rest = text[end..].trim_start();
    loop {
        if let Some(behind) = rest.strip_prefix('>') {
            return Ok((element, false, behind));
        }
        if let Some(behind) = rest.strip_prefix("/>") {
            return Ok((element, true, behind));
        }
        rest = attribute(rest, &mut element)?.trim_start();
    }
}

/// An attribute, or what stands in the place of one. Gives what is behind it.
fn attribute<'t>(text: &'t str, element: &mut Element) -> Result<&'t str, String> {
    if let Some(state) = text.strip_prefix("State: ") {
        let (state, behind) = state.split_once(" - text: \"").ok_or("a state has no text")?;
        let (reason, behind) = quoted(behind)?;
        element.attributes.push(("state".to_owned(), state.to_owned()));
        element.attributes.push(("text".to_owned(), reason));
        return Ok(behind);
    }
    if text.starts_with("Qos: ") {
        // `Qos: Realtime/TickByTick/Static - timeInfo: 0 - rateInfo: 0`: up to the last number.
        let rate = text.find("rateInfo: ").ok_or("a quality of service is cut off")? + "rateInfo: ".len();
        let digits = text[rate..].find(|c: char| !c.is_ascii_digit()).ok_or("a quality of service is cut off")?;
        element.attributes.push(("qos".to_owned(), text[..rate + digits].to_owned()));
        return Ok(&text[rate + digits..]);
    }
    let (name, value) = text.split_once("=\"").ok_or("an attribute has no value")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(format!("{:?} is no attribute", name.chars().take(40).collect::<String>()));
    }
    let (value, behind) = quoted(value)?;
    element.attributes.push((name.to_owned(), value));
    Ok(behind)
}

/// A value up to its quote, without its escapes, and what is behind that.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let (value, behind) = text.split_once('"').ok_or("a value has no end")?;
    Ok((unescaped(value), behind))
}

fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_without_a_name_is_read_too() {
        let text = "<REFRESH streamId=\"5\" State: Closed, Recoverable/Ok/None - text: \"a &lt;b&gt;\" Qos: Realtime/TickByTick/Static \
                    - timeInfo: 0 - rateInfo: 0 dataSize=\"0\">\n <key flags=\"0x03 (A|B)\"/>\n</REFRESH>\n";
        let root = parse(text).unwrap();
        assert_eq!(root.get("state"), Some("Closed, Recoverable/Ok/None"));
        assert_eq!((root.get("text"), root.get("dataSize")), (Some("a <b>"), Some("0")));
        assert_eq!(root.child("key").map(Element::flags), Some(3));
    }

    #[test]
    fn what_is_no_element_is_told() {
        for text in
            ["", "<A", "<A x", "<A x=\"", "<A></B>", "<A State: x>", "<A Qos: x>", "<A x y=\"1\">", "<A>", "</A>"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"<A>".repeat(100)).is_err());
    }
}
