//! One message of an item: fields are decoded when they are looked at.

use crate::values::to_python;
use client::fields::fields;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rwf::dictionary::Dictionary;
use rwf::msg::{Msg, MsgClass};
use std::sync::Arc;

/// A message of an item: a mapping from names of fields to values.
#[pyclass(frozen, mapping, module = "quoteway")]
pub struct Tick {
    /// Name of the item.
    #[pyo3(get)]
    item: Py<PyString>,
    /// When it was received: nanoseconds since 1970, UTC.
    #[pyo3(get)]
    time_ns: i64,
    /// Nothing comes of the item behind this.
    #[pyo3(get)]
    is_final: bool,
    class: MsgClass,
    msg: Box<[u8]>,
    dictionary: Arc<Dictionary>,
}

pub(crate) fn kind(class: MsgClass) -> &'static str {
    match class {
        MsgClass::REFRESH => "refresh",
        MsgClass::UPDATE => "update",
        MsgClass::STATUS => "status",
        MsgClass::GENERIC => "generic",
        MsgClass::ACK => "ack",
        _ => "other",
    }
}

/// A state as text: stream, data, code and reason.
pub(crate) fn state(msg: &[u8]) -> Option<String> {
    match Msg::decode(msg).ok()? {
        Msg::Refresh(refresh) => Some(refresh.state.to_string()),
        Msg::Status(status) => status.state.map(|state| state.to_string()),
        _ => None,
    }
}

impl Tick {
    pub(crate) fn new(
        item: Py<PyString>,
        time_ns: i64,
        message: &client::queue::Message<'_>,
        dictionary: Arc<Dictionary>,
    ) -> Self {
        let client::queue::Message { class, is_final, msg, .. } = *message;
        Self { item, time_ns, is_final, class, msg: msg.into(), dictionary }
    }

    fn body(&self) -> &[u8] {
        match self.class {
            MsgClass::REFRESH | MsgClass::UPDATE => rwf::peek::body(&self.msg).unwrap_or_default(),
            _ => &[],
        }
    }

    fn find<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(wanted) = self.dictionary.field_named(name) else { return Ok(None) };
        for field in fields(self.body(), &self.dictionary) {
            let field = field.map_err(|e| PyValueError::new_err(e.to_string()))?;
            if field.fid() == wanted.fid() {
                let value = field.value().map_err(|e| PyValueError::new_err(format!("{name}: {e}")))?;
                return to_python(py, &self.dictionary, field.fid(), &value).map(Some);
            }
        }
        Ok(None)
    }
}

#[pymethods]
impl Tick {
    /// `refresh`, `update`, `status`, `generic` or `ack`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(self.class)
    }

    /// Of a refresh or status: stream and data state with the reason; else `None`.
    #[getter]
    fn state(&self) -> Option<String> {
        state(&self.msg)
    }

    /// The message as text with all its members.
    fn text(&self) -> String {
        rwf_text::message(&self.msg, Some(&self.dictionary)).to_string()
    }

    /// The message as it came: RWF.
    fn raw(&self) -> &[u8] {
        &self.msg
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.find(py, name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn __contains__(&self, name: &str) -> bool {
        self.dictionary.field_named(name).is_some_and(|wanted| {
            fields(self.body(), &self.dictionary).flatten().any(|field| field.fid() == wanted.fid())
        })
    }

    fn __len__(&self) -> usize {
        fields(self.body(), &self.dictionary).flatten().count()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyList::new(py, self.keys())?.try_iter()?.into_any())
    }

    /// Names of the fields, in the message's order.
    fn keys(&self) -> Vec<&str> {
        fields(self.body(), &self.dictionary).flatten().map(|field| field.name()).collect()
    }

    /// The value of a field, or `default` if the message does not have it.
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.find(py, name)?.or(default))
    }

    /// All fields as a `dict`.
    fn dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        body_dict(py, self.body(), &self.dictionary)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let item = self.item.bind(py).to_string();
        if let (MsgClass::STATUS, Some(state)) = (self.class, self.state()) {
            return Ok(format!("<{item} status {state}>"));
        }
        let all = self.dict(py)?;
        let shown: Vec<String> = all.iter().take(6).map(|(name, value)| format!("{name}={value}")).collect();
        let more = if all.len() > 6 { format!(" and {} more", all.len() - 6) } else { String::new() };
        Ok(format!("<{item} {} {}{more}>", self.kind(), shown.join(" ")))
    }
}

/// The fields of a body as a `dict`.
pub(crate) fn body_dict<'py>(py: Python<'py>, body: &[u8], dictionary: &Dictionary) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for field in fields(body, dictionary) {
        let field = field.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let value = field.value().map_err(|e| PyValueError::new_err(format!("{}: {e}", field.name())))?;
        all.set_item(field.name(), to_python(py, dictionary, field.fid(), &value)?)?;
    }
    Ok(all)
}
