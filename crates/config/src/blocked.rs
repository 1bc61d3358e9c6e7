//! The files of blocked items.

use hub::p2ps::BlockedList;

use super::Config;

/// Items that files may block, all together.
const MOST: usize = 1_000_000;

/// The items of the files that `p2ps.blocked_items_file` names.
///
/// # Errors
/// A file that cannot be read, or names too many items.
pub fn blocked_list(config: &Config) -> Result<BlockedList, String> {
    let mut list = BlockedList::default();
    for entry in &config.p2ps.blocked_items_file.0 {
        // A path that begins with a slash names no service.
        let named = entry.split_once(':').filter(|_| !entry.starts_with('/'));
        let (service, file) = named.map_or(("", entry.as_str()), |(service, file)| (service.trim(), file.trim()));
        let bytes = super::read_named(file.as_ref())
            .map_err(|e| format!("p2ps.blocked_items_file: {file} cannot be read: {e}"))?;
        let names = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
        for name in names.filter(|name| !name.is_empty() && name[0] != b'#') {
            list.add(service, name);
        }
        if list.len() > MOST {
            return Err(format!("p2ps.blocked_items_file: {file}: more than {MOST} items are blocked"));
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::blocked_list;
    use crate::{Config, Selection, load};

    #[test]
    fn files_name_items_of_one_service_or_of_all() {
        let dir = tempfile::tempdir().unwrap();
        let [own, all] = ["own", "all"].map(|name| dir.path().join(name).display().to_string());
        std::fs::write(&own, "# wrong prices\nIBM.N\n\n  TRI.N  \r\n").unwrap();
        std::fs::write(&all, "0#.FTSE").unwrap();
        let config = |text: &str| Config::parse("q.toml", text).unwrap();
        let text = format!("[p2ps]\nblocked_items_file = [\"FEED:{own}\", \"{all}\"]\n");
        let list = blocked_list(&config(&text)).unwrap();
        assert_eq!(list.len(), 3);
        assert!(list.has("FEED", b"IBM.N") && list.has("FEED", b"TRI.N") && !list.has("OTHER", b"IBM.N"));
        assert!(list.has("FEED", b"0#.FTSE") && list.has("OTHER", b"0#.FTSE"));
        let missing = blocked_list(&config("[p2ps]\nblocked_items_file = \"FEED:/no/such\"\n")).unwrap_err();
        assert!(missing.contains("/no/such cannot be read"), "{missing}");
        // As an rmds.cnf has it.
        let cnf = dir.path().join("rmds.cnf");
        std::fs::write(&cnf, format!("*P2PS*FEED*blockedItemsFile : {own}\n")).unwrap();
        let loaded = load(&cnf, &Selection::default()).unwrap();
        assert!(blocked_list(&loaded.config).unwrap().has("FEED", b"IBM.N"));
    }
}
