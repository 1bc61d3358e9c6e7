//! The module `quoteway._native`: sessions, subscriptions and publishers of `client-io` for Python. What is nicer to write in Python is in
//! `quoteway/__init__.py`.
//!
//! `unsafe` is in none of these files: the capsules of Arrow are made by safe constructors.
#![forbid(unsafe_code)]

mod book;
mod columns;
mod followed;
mod publisher;
mod session;
mod tick;
mod values;

use pyo3::prelude::*;

pyo3::create_exception!(
    quoteway,
    QuotewayError,
    pyo3::exceptions::PyException,
    "What Quoteway cannot do; the text says what, where and what to do."
);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("QuotewayError", module.py().get_type::<QuotewayError>())?;
    module.add_class::<session::NativeSession>()?;
    module.add_class::<book::NativeBook>()?;
    module.add_class::<followed::NativeFollowed>()?;
    module.add_class::<tick::Tick>()?;
    module.add_class::<columns::Batch>()?;
    module.add_class::<publisher::NativePublisher>()?;
    Ok(())
}
