//! The shared key of a hub: who has it proves so when connecting, and signs what it announces.
//!
//! Signatures are HMAC-SHA-256 over a label and fields, each behind its length, so that no two lists of fields are one text.
//! `docs/wire/backbone.md` has the labels and fields.

use std::io;
use std::os::unix::fs::MetadataExt as _;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Bytes of a signature, and of a number that is used once.
pub const LENGTH: usize = 32;
/// A signature.
pub type Signature = [u8; LENGTH];
/// A number that is used once.
pub type Nonce = [u8; LENGTH];

/// The key of a hub. It is not shown.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl Key {
    /// Reads a key's file: at least 32 bytes, without the white space around them. Nobody but its owner may be able to read it.
    ///
    /// # Errors
    /// The file cannot be read, is too short, or others can read it; the message says what to do.
    pub fn from_file(path: &str) -> io::Result<Self> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("hub.key_file {path}: {what}"));
        let failed = |e: io::Error| io::Error::new(e.kind(), format!("hub.key_file {path} cannot be read: {e}"));
        let mode = std::fs::metadata(path).map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(wrong("others than its owner can read it; `chmod 600` it"));
        }
        Self::new(std::fs::read(path).map_err(failed)?.trim_ascii())
            .ok_or_else(|| wrong("fewer than 32 bytes; `openssl rand -hex 32` makes a key"))
    }

    /// A key of these bytes; `None` if they are fewer than 32.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() >= LENGTH).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// Signs fields under a label.
    pub fn sign(&self, label: &str, fields: &[&[u8]]) -> Signature {
        let mut out = [0; LENGTH];
        out.copy_from_slice(self.tag(label, fields).as_ref());
        out
    }

    /// Whether a signature is that of these fields, in the same time whatever is wrong with it.
    pub fn verify(&self, label: &str, fields: &[&[u8]], signature: &Signature) -> bool {
        hmac::verify(&self.0, &content(label, fields), signature).is_ok()
    }

    fn tag(&self, label: &str, fields: &[&[u8]]) -> hmac::Tag {
        hmac::sign(&self.0, &content(label, fields))
    }
}

fn content(label: &str, fields: &[&[u8]]) -> Vec<u8> {
    let mut content = Vec::new();
    for field in std::iter::once(label.as_bytes()).chain(fields.iter().copied()) {
        content.extend_from_slice(&(field.len() as u32).to_le_bytes());
        content.extend_from_slice(field);
    }
    content
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// A number that nobody has seen before.
///
/// # Errors
/// The system gives no random numbers.
pub fn nonce() -> io::Result<Nonce> {
    let mut nonce = [0; LENGTH];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_signature_is_that_of_its_key_label_and_fields_alone() {
        let key = Key::new(&[7; 32]).expect("long enough");
        let signature = key.sign("a", &[b"one", b"two"]);
        assert!(key.verify("a", &[b"one", b"two"], &signature));
        assert!(!key.verify("b", &[b"one", b"two"], &signature));
        assert!(!key.verify("a", &[b"onet", b"wo"], &signature));
        assert!(!Key::new(&[8; 32]).expect("long enough").verify("a", &[b"one", b"two"], &signature));
        assert_ne!(nonce().expect("random"), nonce().expect("random"));
    }

    #[test]
    fn a_key_is_long_and_its_owner_s_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hub.key");
        let path = path.to_str().expect("UTF-8");
        let read = || Key::from_file(path).map(drop).map_err(|e| e.to_string());
        assert!(read().expect_err("it is not there").contains("cannot be read"));
        std::fs::write(path, "00".repeat(32) + "\n").expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("set");
        assert!(read().expect_err("others can read it").contains("chmod 600"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("set");
        assert_eq!(read(), Ok(()));
        std::fs::write(path, "short").expect("written");
        assert!(read().expect_err("short").contains("32 bytes"));
    }
}
