//! The field dictionary that the configuration names.

use std::io;

use rwf::dictionary::Dictionary;

use super::{Config, DictionaryFiles};

/// The dictionary of the configured files, those of single services merged into it; `None` if there are none, which means the built-in one. Of
/// what is another field, or another enumeration, in two of them the first counts.
///
/// # Errors
/// A file cannot be read; the message names it and the line.
pub fn dictionary(config: &Config) -> io::Result<Option<Dictionary>> {
    merged(config).map(|(dictionary, _)| dictionary)
}

/// What the dictionaries of single services have otherwise than those before them, one sentence each; nothing where a file cannot be read.
pub(super) fn conflicts(config: &Config) -> Vec<String> {
    merged(config).map(|(_, conflicts)| conflicts).unwrap_or_default()
}

fn merged(config: &Config) -> io::Result<(Option<Dictionary>, Vec<String>)> {
    let (mut known, mut conflicts) = (of_files(&config.dictionary)?, Vec::new());
    for (name, service) in &config.services {
        let Some(own) = of_files(&service.dictionary())? else { continue };
        let other = known.get_or_insert_with(Dictionary::builtin).merge(&own);
        conflicts.extend(other.iter().map(|conflict| format!("dictionary of service {name}: {conflict}")));
    }
    Ok((known, conflicts))
}

fn of_files(files: &DictionaryFiles) -> io::Result<Option<Dictionary>> {
    if files.field_file.is_empty() && files.enum_file.is_empty() {
        return Ok(None);
    }
    let read = |name: &str| {
        super::read_named(name.as_ref())
            .map_err(|e| io::Error::new(e.kind(), format!("dictionary file {name} cannot be read: {e}")))
    };
    let wrong = |e: rwf::dictionary::DictionaryError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    let mut dictionary = Dictionary::new();
    if !files.field_file.is_empty() {
        dictionary.load_fields(&files.field_file, &read(&files.field_file)?).map_err(wrong)?;
    }
    if !files.enum_file.is_empty() {
        dictionary.load_enums(&files.enum_file, &read(&files.enum_file)?).map_err(wrong)?;
    }
    Ok(Some(dictionary))
}

#[cfg(test)]
mod tests {
    use super::{conflicts, dictionary};
    use crate::Config;
    use rwf::dictionary::FieldDef;

    #[test]
    fn a_service_adds_its_fields_and_what_is_another_field_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let own = file("own", "SITE_A \"SITE A\" -5 NULL INTEGER 5 UINT64 8\nODD \"ODD\" 22 NULL INTEGER 5 UINT64 8\n");
        let text = format!("[service.FEED]\nfield_file = {own:?}\n");
        let config = Config::parse("t.toml", &text).expect("a configuration");
        let known = dictionary(&config).expect("a dictionary").expect("not the built-in one alone");
        assert_eq!(known.field(-5).map(FieldDef::acronym), Some("SITE_A"));
        assert_eq!(known.field(22).map(FieldDef::acronym), Some("BID"));
        let told = conflicts(&config);
        assert!(told.len() == 1 && told[0].contains("FEED") && told[0].contains("22"), "{told:?}");
        assert!(dictionary(&Config::default()).expect("nothing to read").is_none());
        let gone = Config::parse("t.toml", "[service.FEED]\nenum_file = \"/nowhere\"\n").expect("a configuration");
        assert!(dictionary(&gone).unwrap_err().to_string().contains("/nowhere"));
    }
}
