//! An endpoint, and the state that endpoints answer from.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use config::Role;
use schemars::{Schema, SchemaGenerator};

use super::About;
use super::answer::{Answer, Fault};
use super::asked::{Asked, Parameter};
use super::history::Histories;
use super::threads::Threads;
use crate::agents::lifecycle::Lifecycle;
use crate::agents::permissions::Administration;

/// The state that requests are answered from.
pub(super) struct Api {
    pub(super) threads: Threads,
    pub(super) about: About,
    pub(super) life: Lifecycle,
    /// `None` while permissions are off, and where there are none.
    pub(super) administration: Option<Administration>,
    pub(super) histories: Arc<Histories>,
    /// Users who were shown an image of late: the audit has it once a minute, and not for each look of the page.
    pub(super) shown: Mutex<HashMap<(String, String), Instant>>,
}

type Answered<'a> = Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send + 'a>>;

/// One thing that can be asked or done.
pub(super) struct Endpoint {
    pub(super) method: &'static str,
    /// With `{name}` for what varies.
    pub(super) path: &'static str,
    pub(super) role: Role,
    /// In a line.
    pub(super) summary: &'static str,
    pub(super) query: &'static [Parameter],
    /// Members of the body, all of them texts; those that end with `?` may be left out.
    pub(super) body: &'static [Parameter],
    /// The shape of the answer.
    pub(super) answer: fn(&mut SchemaGenerator) -> Schema,
    pub(super) handle: for<'a> fn(&'a Api, &'a Asked) -> Answered<'a>,
}
