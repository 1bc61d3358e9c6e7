//! The rights file, read as a whole.

use std::io;
use std::path::Path;

use permissions::rights::Rights;

/// Fault of rights that name nobody.
pub const NOBODY: &str = "there is no user in it: it is empty, or not written to its end";

/// The text of a rights file (`permissions.rights_file`), and the rights in it.
///
/// # Errors
/// The file cannot be read, has faults (each with its line), or names nobody.
pub fn rights_file(path: &Path) -> io::Result<(String, Rights)> {
    let name = path.display().to_string();
    let text = super::read_named_text(path)
        .map_err(|e| io::Error::new(e.kind(), format!("the rights file {name} cannot be read: {e}")))?;
    let rights = Rights::parse(&name, &text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
    if rights.users().next().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {NOBODY}")));
    }
    Ok((text, rights))
}
