//! Subscriptions.

use crate::QuotewayError;
use crate::columns::{Batch, Columns, Reals, name_array};
use crate::session::seconds;
use crate::tick::{Tick, body_dict, state};
use arrow_array::ArrayRef;
use client::queue::Overflow;
use client_io::{Ended, Subscription};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rwf::dictionary::Dictionary;
use rwf::msg::Priority;
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// How long a wait lasts before signals, such as Ctrl-C, are looked at.
const SLICE: Duration = Duration::from_millis(100);

/// Items of a session.
#[pyclass(frozen, module = "quoteway._native")]
pub struct NativeBook {
    inner: Mutex<Option<Inner>>,
    items: Vec<Py<PyString>>,
    names: Vec<String>,
    /// The same, as columns have them: batches share them.
    name_array: ArrayRef,
    places: HashMap<String, u32>,
    dictionary: Arc<Dictionary>,
    fields: Option<Vec<String>>,
}

struct Inner {
    subscription: Subscription,
    /// Nobody has iterated yet.
    is_lazy: bool,
    seq: i64,
    /// From the session's clock to the time of day, nanoseconds.
    to_wall_ns: i64,
    /// The columns of the last batch, empty, and whether they had decimals.
    columns: Option<(bool, Columns)>,
    /// The waker, and the end that an event loop watches.
    wakes: Option<(Arc<Wakes>, UnixStream)>,
}

/// Wakes an event loop that watches the other end.
struct Wakes(UnixStream);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        // A pipe that is full wakes the loop already.
        let _ = (&self.0).write(&[1]);
    }
}

fn ended(error: Ended) -> PyErr {
    QuotewayError::new_err(error.to_string())
}

impl NativeBook {
    pub(crate) fn new(
        py: Python<'_>,
        subscription: Subscription,
        dictionary: Arc<Dictionary>,
        fields: Option<Vec<String>>,
        is_lazy: bool,
    ) -> Self {
        let names = subscription.names().to_vec();
        let items = names.iter().map(|name| PyString::new(py, name).unbind()).collect();
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place as u32)).collect();
        let to_wall_ns = net::clock::wall() as i64 - net::clock::now() as i64;
        let inner = Inner { subscription, is_lazy, seq: 0, to_wall_ns, columns: None, wakes: None };
        let name_array = name_array(names.iter().map(String::as_str));
        Self { inner: Mutex::new(Some(inner)), items, names, name_array, places, dictionary, fields }
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Inner>>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(inner)) => Ok(inner.into_inner()),
            Err(TryLockError::WouldBlock) => {
                Err(PyRuntimeError::new_err("another thread waits on this book; give each thread a book of its own"))
            }
        }
    }
}

fn open(inner: &mut Option<Inner>) -> PyResult<&mut Inner> {
    inner.as_mut().ok_or_else(|| QuotewayError::new_err("the book is closed"))
}

impl Inner {
    fn iterates(&mut self) {
        if std::mem::take(&mut self.is_lazy) {
            self.subscription.set_overflow(Overflow::Wait);
        }
    }
}

/// Waits without the lock of the interpreter, in slices between which signals are looked at. False: the time is over.
fn wait(py: Python<'_>, inner: &mut Inner, timeout: Option<Duration>) -> PyResult<bool> {
    let until = timeout.map(|timeout| Instant::now() + timeout);
    loop {
        let left = until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE));
        let subscription = &mut inner.subscription;
        let is_ready = py.detach(|| subscription.wait_ready(Some(left))).map_err(ended)?;
        if is_ready {
            return Ok(true);
        }
        py.check_signals()?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
    }
}

#[pymethods]
impl NativeBook {
    /// Names of the items.
    #[getter]
    fn items(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The next message; `None` after so many seconds without.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Tick>> {
        let timeout = seconds(timeout)?;
        let mut inner = self.lock()?;
        let inner = open(&mut inner)?;
        inner.iterates();
        let to_wall_ns = inner.to_wall_ns;
        if !inner.subscription.has_ready() && !wait(py, inner, timeout)? {
            return Ok(None);
        }
        let message = inner.subscription.next(Some(Duration::ZERO)).map_err(ended)?;
        Ok(message.map(|message| self.tick(py, to_wall_ns, &message)))
    }

    /// A message without waiting: `None` if none is there, and then the descriptor of [`NativeBook::wake_descriptor`] becomes readable when there is.
    fn next_ready(&self, py: Python<'_>) -> PyResult<Option<Tick>> {
        let mut inner = self.lock()?;
        let inner = open(&mut inner)?;
        inner.iterates();
        if let Some((wakes, _)) = &inner.wakes {
            let waker = Waker::from(Arc::clone(wakes));
            match inner.subscription.poll_ready(&mut Context::from_waker(&waker)) {
                Poll::Ready(ready) => ready.map_err(ended)?,
                Poll::Pending => return Ok(None),
            }
        }
        let to_wall_ns = inner.to_wall_ns;
        let message = inner.subscription.next(Some(Duration::ZERO)).map_err(ended)?;
        Ok(message.map(|message| self.tick(py, to_wall_ns, &message)))
    }

    /// The descriptor that becomes readable when messages come, or the end, after [`NativeBook::next_ready`] gave none.
    fn wake_descriptor(&self) -> PyResult<i32> {
        let mut inner = self.lock()?;
        let inner = open(&mut inner)?;
        if inner.wakes.is_none() {
            let (loops, ours) = UnixStream::pair()?;
            loops.set_nonblocking(true)?;
            ours.set_nonblocking(true)?;
            inner.wakes = Some((Arc::new(Wakes(ours)), loops));
        }
        Ok(inner.wakes.as_ref().map_or(-1, |(_, loops)| loops.as_raw_fd()))
    }

    /// Reads the descriptor empty.
    fn clear_wake(&self) -> PyResult<()> {
        let mut inner = self.lock()?;
        if let Some((_, loops)) = &mut open(&mut inner)?.wakes {
            let mut bytes = [0; 64];
            while loops.read(&mut bytes).is_ok_and(|count| count == bytes.len()) {}
        }
        Ok(())
    }

    /// Up to so many rows of messages that wait or come, as columns. Waits for the first as long as `timeout`, and takes what is there then;
    /// `None` after a `timeout` without any.
    #[pyo3(signature = (rows, timeout=None, decimals=false))]
    fn next_batch(&self, py: Python<'_>, rows: usize, timeout: Option<f64>, decimals: bool) -> PyResult<Option<Batch>> {
        let timeout = seconds(timeout)?;
        if rows == 0 {
            return Err(PyValueError::new_err("rows: a batch has one row at least"));
        }
        let mut inner = self.lock()?;
        let inner = open(&mut inner)?;
        inner.iterates();
        if !inner.subscription.has_ready() && !wait(py, inner, timeout)? {
            return Ok(None);
        }
        let mut columns = match inner.columns.take() {
            Some((had_decimals, columns)) if had_decimals == decimals => columns,
            _ => self.columns(decimals)?,
        };
        let batch = py.detach(|| {
            while columns.rows() < rows && inner.subscription.has_ready() {
                let Ok(Some(message)) = inner.subscription.next(Some(Duration::ZERO)) else { break };
                inner.seq += 1;
                // What cannot be read is a row without fields.
                let _ = columns.push(inner.seq, message.received_ns as i64 + inner.to_wall_ns, &message);
            }
            columns.finish()
        })?;
        inner.columns = Some((decimals, columns));
        Ok(Some(batch))
    }

    /// The image of an item, as it is now: its fields, or `None` if there is none yet.
    fn image<'py>(&self, py: Python<'py>, item: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let place = *self.places.get(item).ok_or_else(|| PyKeyError::new_err(item.to_owned()))?;
        let Some(refresh) = self.refreshes(py, vec![place])?.pop().flatten() else { return Ok(None) };
        body_dict(py, rwf::peek::body(&refresh).unwrap_or_default(), &self.dictionary).map(Some)
    }

    /// The state of an item's image: stream and data state with the reason; `None` if there is no image.
    fn state(&self, py: Python<'_>, item: &str) -> PyResult<Option<String>> {
        let place = *self.places.get(item).ok_or_else(|| PyKeyError::new_err(item.to_owned()))?;
        Ok(self.refreshes(py, vec![place])?.pop().flatten().and_then(|refresh| state(&refresh)))
    }

    /// The images of all items, as they are now: a row each, for those that have one.
    #[pyo3(signature = (decimals=false))]
    fn frame(&self, py: Python<'_>, decimals: bool) -> PyResult<Batch> {
        let all = self.refreshes(py, (0..self.names.len() as u32).collect())?;
        let mut columns = self.columns(decimals)?;
        let now = net::clock::wall() as i64;
        for (place, refresh) in all.iter().enumerate() {
            let Some(refresh) = refresh else { continue };
            let body = rwf::peek::body(refresh).unwrap_or_default();
            let pushed = columns.push_image(place as i64, now, place as u32, body);
            pushed.map_err(|e| PyValueError::new_err(format!("{}: {e}", self.names[place])))?;
        }
        columns.finish()
    }

    /// Pauses items, all without a list, or goes on with them.
    #[pyo3(signature = (items, is_paused))]
    fn pause(&self, py: Python<'_>, items: Option<Vec<String>>, is_paused: bool) -> PyResult<()> {
        let place = |item: String| self.places.get(&item).copied().ok_or_else(|| PyKeyError::new_err(item));
        let places = match items {
            Some(items) => items.into_iter().map(place).collect::<PyResult<_>>()?,
            None => (0..self.names.len() as u32).collect(),
        };
        let mut inner = self.lock()?;
        let subscription = &open(&mut inner)?.subscription;
        py.detach(|| subscription.pause(places, is_paused)).map_err(ended)
    }

    /// Asks for another priority of an item. False: the item has ended.
    fn set_priority(&self, py: Python<'_>, item: &str, class_: u8, count: u16) -> PyResult<bool> {
        let place = *self.places.get(item).ok_or_else(|| PyKeyError::new_err(item.to_owned()))?;
        let mut inner = self.lock()?;
        let subscription = &open(&mut inner)?.subscription;
        let priority = Some(Priority { class: class_, count });
        py.detach(|| subscription.reissue(place, move |request| request.priority = priority))
            .map_err(|e| QuotewayError::new_err(e.to_string()))
    }

    /// Counts: queued, merged, dropped, full, cut.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut inner = self.lock()?;
        let counts = open(&mut inner)?.subscription.counts();
        let all = PyDict::new(py);
        for (name, count) in [
            ("queued", counts.queued),
            ("merged", counts.merged),
            ("dropped", counts.dropped),
            ("full", counts.full),
            ("cut", counts.cut),
        ] {
            all.set_item(name, count)?;
        }
        Ok(all)
    }

    /// Closes the items.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.lock()?.take();
        py.detach(|| drop(inner));
        Ok(())
    }
}

impl NativeBook {
    fn refreshes(&self, py: Python<'_>, places: Vec<u32>) -> PyResult<Vec<Option<Vec<u8>>>> {
        let mut inner = self.lock()?;
        let subscription = &open(&mut inner)?.subscription;
        py.detach(|| subscription.images(places)).map_err(ended)
    }

    fn columns(&self, decimals: bool) -> PyResult<Columns> {
        let reals = if decimals { Reals::Decimal } else { Reals::Double };
        let names = self.fields.clone().ok_or_else(|| {
            QuotewayError::new_err(
                "columns need names: subscribe with fields=[...], or give fields to batches() and frame()",
            )
        })?;
        Columns::new(&self.name_array, names, Arc::clone(&self.dictionary), reals)
    }

    fn tick(&self, py: Python<'_>, to_wall_ns: i64, message: &client::queue::Message<'_>) -> Tick {
        let item = self.items[message.item as usize].clone_ref(py);
        Tick::new(item, message.received_ns as i64 + to_wall_ns, message, Arc::clone(&self.dictionary))
    }
}
