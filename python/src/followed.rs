//! Members of chains and symbol lists.

use crate::QuotewayError;
use crate::session::seconds;
use crate::tick::Tick;
use client::queue::Message;
use client_io::{FollowError, Followed, Step};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rwf::dictionary::Dictionary;
use rwf::msg::MsgClass;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long a wait lasts before signals, such as Ctrl-C, are looked at.
const SLICE: Duration = Duration::from_millis(100);

/// Members of a chain or symbol list, as they come and go.
#[pyclass(frozen, module = "quoteway._native")]
pub struct NativeFollowed {
    followed: Mutex<Option<Followed>>,
    dictionary: Arc<Dictionary>,
    /// From the session's clock to the time of day, nanoseconds.
    to_wall_ns: i64,
}

/// A step that is no part of the subscription any more.
struct Owned {
    kind: &'static str,
    name: String,
    /// Time of receipt, class, whether it is the last, bytes.
    message: Option<(u64, MsgClass, bool, Vec<u8>)>,
}

fn failed(error: &FollowError) -> PyErr {
    QuotewayError::new_err(error.to_string())
}

fn step(followed: &mut Followed, timeout: Duration) -> Result<Option<Owned>, FollowError> {
    let (kind, item, message) = match followed.next(Some(timeout))? {
        None => return Ok(None),
        Some(Step::Joined { item }) => ("joined", item, None),
        Some(Step::Left { item }) => ("left", item, None),
        Some(Step::Broken { record }) => ("broken", record, None),
        Some(Step::Message(Message { item, received_ns, class, is_final, msg })) => {
            ("message", item, Some((received_ns, class, is_final, msg.to_vec())))
        }
    };
    Ok(Some(Owned { kind, name: followed.name(item).to_owned(), message }))
}

impl NativeFollowed {
    pub(crate) fn new(followed: Followed, dictionary: Arc<Dictionary>) -> Self {
        let to_wall_ns = net::clock::wall() as i64 - net::clock::now() as i64;
        Self { followed: Mutex::new(Some(followed)), dictionary, to_wall_ns }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Followed>>> {
        match self.followed.try_lock() {
            Ok(followed) => Ok(followed),
            Err(TryLockError::Poisoned(followed)) => Ok(followed.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("another thread waits on these members; give each thread its own"))
            }
        }
    }
}

fn open(followed: &mut Option<Followed>) -> PyResult<&mut Followed> {
    followed.as_mut().ok_or_else(|| QuotewayError::new_err("the members are closed"))
}

#[pymethods]
impl NativeFollowed {
    /// What happens next: its kind, the name, and the message if it is one; `None` after so many seconds without.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<(&'static str, String, Option<Tick>)>> {
        let until = seconds(timeout)?.map(|timeout| Instant::now() + timeout);
        let mut followed = self.lock()?;
        let followed = open(&mut followed)?;
        loop {
            let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE));
            if let Some(Owned { kind, name, message }) = py.detach(|| step(followed, left)).map_err(|e| failed(&e))? {
                let tick = message.map(|(received_ns, class, is_final, msg)| {
                    let item = PyString::new(py, &name).unbind();
                    let message = Message { item: 0, received_ns, class, is_final, msg: &msg };
                    Tick::new(item, received_ns as i64 + self.to_wall_ns, &message, Arc::clone(&self.dictionary))
                });
                return Ok(Some((kind, name, tick)));
            }
            py.check_signals()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// Names of the members now, and whether all are known.
    fn members(&self) -> PyResult<(Vec<String>, bool)> {
        let mut followed = self.lock()?;
        let followed = open(&mut followed)?;
        Ok((followed.members().into_iter().map(str::to_owned).collect(), followed.is_complete()))
    }

    /// Closes all.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let followed = self.lock()?.take();
        py.detach(|| drop(followed));
        Ok(())
    }
}
