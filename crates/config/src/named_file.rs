//! Files that parameters name.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Bytes of the largest file that a parameter may name. Dictionaries of the field have some 2 MB, rights of 100,000 users some 20.
const FILE_MAX_BYTES: u64 = 256 << 20;

/// The bytes of a file that a parameter names.
///
/// # Errors
/// The file cannot be read; or it is a pipe, a device or a socket, whose reading may never end; or it is larger than 256 MB.
pub fn read_named(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why);
    // Opening a pipe that nobody writes waits, so what it is comes first.
    if !std::fs::metadata(path)?.is_file() {
        return Err(wrong("it is no file that ends (a folder, a pipe or a device): name a copy"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES { Err(wrong("it has more than 256 MB")) } else { Ok(bytes) }
}

/// As [`read_named`], as text.
///
/// # Errors
/// As [`read_named`]; or the text is not UTF-8.
pub fn read_named_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_named(path)?)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.utf8_error().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_never_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, text) = (folder.path().join("socket"), folder.path().join("text"));
        let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [socket.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = read_named(path).unwrap_err();
            assert!(error.to_string().contains("no file that ends"), "{}: {error}", path.display());
        }
        std::fs::write(&text, "a\u{e4}").unwrap();
        assert_eq!(read_named_text(&text).unwrap(), "a\u{e4}");
        std::fs::write(&text, [b'a', 0xff]).unwrap();
        assert_eq!(read_named_text(&text).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_named(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
