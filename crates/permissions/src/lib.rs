//! Who may see which item: the job of DACS as a state machine without I/O.
//!
//! * [`lock`]: what an item demands, in the format that real feeds send: encode, decode, combine, compare, as text.
//! * [`rights`]: what the administrator grants, as one readable text, and the questions about it.
//! * [`Permissions`]: logins, open items, decisions, audit.
//!
//! ```
//! use permissions::rights::Rights;
//! use permissions::{LoggedIn, LoginRequest, Mode, Opened, Permissions, Settings, Watch};
//!
//! let rights = r#"
//! [services.IDN]
//! id = 257
//! [users.alice.grants]
//! IDN = [62, "100-199"]
//! "#;
//! let mut permissions = Permissions::new(Settings { mode: Mode::On, ..Settings::default() });
//! permissions.set_rights(Rights::parse("rights.toml", rights)?.into());
//!
//! let request =
//!     LoginRequest { connection: 1, user: "alice", position: "10.0.0.1/net", application: None, wants_locks: true };
//! let LoggedIn::Yes(login) = permissions.login(0, &request) else { panic!("a known user") };
//! let item = permissions.item("IDN", "IBM.N")?;
//! let Opened::Yes(open) = permissions.open(0, login, item, 7, Watch::Streaming) else { panic!("a service that alice has") };
//! // The image comes, with its lock.
//! permissions.set_lock(0, item, Some(&[3, 1, 1, 0x56, 0x25, 0xC0]), &mut Vec::new());
//! let denial = permissions.admit(0, open).unwrap_err();
//! assert_eq!(denial.answer().text, "Access Denied: User req to PE(5625)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod gate;
pub mod lock;
pub mod rights;

pub use gate::*;
