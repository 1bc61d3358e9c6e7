//! The files of priorities of items.

use hub::distributor::{ItemPriorities, ItemPriority};

use super::Config;

/// Items of which files may say something, all together.
const MOST: usize = 1_000_000;

/// The contents of the files that `source_distributor.item_priority_file` names.
///
/// # Errors
/// A file that cannot be read, or names too many items; the first line that is none, with its number.
pub fn item_priorities(config: &Config) -> Result<ItemPriorities, String> {
    let mut list = ItemPriorities::default();
    for entry in &config.source_distributor.item_priority_file.0 {
        // A path that begins with a slash names no service.
        let named = entry.split_once(':').filter(|_| !entry.starts_with('/'));
        let (service, file) = named.map_or(("", entry.as_str()), |(service, file)| (service.trim(), file.trim()));
        let of = "source_distributor.item_priority_file";
        let text = super::read_named_text(file.as_ref()).map_err(|e| format!("{of}: {file} cannot be read: {e}"))?;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let read = line.rsplit_once([' ', '\t']).and_then(|(name, word)| Some((name.trim(), priority(word)?)));
            let (name, priority) = read.ok_or_else(|| {
                format!("{file}:{number}: {line:?} is no name and behind a blank a priority class (1 to 255) or locked")
            })?;
            list.add(service, name.as_bytes(), priority);
        }
        if list.len() > MOST {
            return Err(format!("{of}: {file}: more than {MOST} items have a priority"));
        }
    }
    Ok(list)
}

fn priority(word: &str) -> Option<ItemPriority> {
    if word.eq_ignore_ascii_case("locked") {
        return Some(ItemPriority::Locked);
    }
    word.parse().ok().filter(|&class| class > 0).map(ItemPriority::Class)
}

#[cfg(test)]
mod tests {
    use super::item_priorities;
    use crate::Config;
    use hub::distributor::ItemPriority;

    #[test]
    fn files_name_classes_and_locks_and_faults_have_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let [own, all] = ["own", "all"].map(|name| dir.path().join(name).display().to_string());
        std::fs::write(&own, "# of the desk\nIBM 5\n\nBRENT CRUDE\tlocked\n").unwrap();
        std::fs::write(&all, "IBM 2\n  TRI Locked \n").unwrap();
        let config = |text: &str| Config::parse("test.toml", text).expect("a configuration");
        let text = format!("[source_distributor]\nitem_priority_file = [\"FEED:{own}\", \"{all}\"]\n");
        let list = item_priorities(&config(&text)).expect("they can be read");
        assert_eq!(list.len(), 4);
        let of = |service, name: &str| list.of(service, name.as_bytes());
        assert_eq!(of("FEED", "IBM"), Some(ItemPriority::Class(5)));
        assert_eq!(of("OTHER", "IBM"), Some(ItemPriority::Class(2)));
        assert_eq!(of("FEED", "BRENT CRUDE"), Some(ItemPriority::Locked));
        assert_eq!((of("FEED", "TRI"), of("FEED", "X")), (Some(ItemPriority::Locked), None));
        for wrong in ["IBM", "IBM 0", "IBM 256", "IBM high"] {
            std::fs::write(&all, format!("TRI 3\n{wrong}\n")).unwrap();
            let fault = item_priorities(&config(&text)).unwrap_err();
            assert!(fault.contains(&format!("{all}:2: {wrong:?}")), "{fault}");
        }
    }
}
