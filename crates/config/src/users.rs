//! Users who may look at a process and act on it, as `http.users` has them.

use std::fmt;
use std::str::FromStr;

use argon2::password_hash::{Output, PasswordHash};
use argon2::{Algorithm, Argon2, Block, Params, Version};

/// The rights of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Anybody, also without a password: is the process alive?
    Anybody,
    /// Look.
    Viewer,
    /// Act.
    Operator,
}

impl Role {
    /// As users and documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// Somebody who may look or act, as `http.users` has it.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name, as the browser asks for it.
    pub name: String,
    /// The user's rights.
    pub role: Role,
    /// The password's hash in the form of the Password Hashing Competition ([`Hashed`] reads it).
    pub hash: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.role.name())
    }
}

impl FromStr for User {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.splitn(3, ':');
        let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("a user is NAME:ROLE:HASH");
        };
        let role = match role {
            "viewer" => Role::Viewer,
            "operator" => Role::Operator,
            _ => return Err("a role is viewer or operator"),
        };
        if name.is_empty() || Hashed::read(hash).is_none() {
            return Err("a name, and a hash as `quoteway ctl password` makes it");
        }
        Ok(Self { name: name.to_owned(), role, hash: hash.to_owned() })
    }
}

/// An entry's hash, and what is needed to make it again.
pub struct Hashed {
    argon2: Argon2<'static>,
    params: Params,
    salt: Vec<u8>,
    hash: Output,
}

impl Hashed {
    /// Reads an entry; `None` for what the function of no algorithm here made.
    pub fn read(text: &str) -> Option<Self> {
        let hash = PasswordHash::new(text).ok()?;
        let algorithm = Algorithm::try_from(hash.algorithm).ok()?;
        let version = hash.version.map_or(Some(Version::default()), |version| Version::try_from(version).ok())?;
        let params = Params::try_from(&hash).ok()?;
        let mut salt = [0; 64];
        let salt = hash.salt?.decode_b64(&mut salt).ok()?.to_vec();
        Some(Self { argon2: Argon2::new(algorithm, version, params.clone()), params, salt, hash: hash.hash? })
    }

    /// Whether it is that of a password. The comparison takes as long whatever differs.
    ///
    /// `memory` is what the algorithm works in (about 19 MB); it grows to what the entry needs, and is kept for the next check.
    pub fn is_of(&self, password: &[u8], memory: &mut Vec<Block>) -> bool {
        let blocks = self.params.block_count();
        if memory.len() < blocks {
            memory.resize(blocks, Block::default());
        }
        let made = Output::init_with(self.hash.len(), |out| {
            let made = self.argon2.hash_password_into_with_memory(password, &self.salt, out, &mut memory[..blocks]);
            made.map_err(Into::into)
        });
        made.is_ok_and(|made| made == self.hash)
    }
}
