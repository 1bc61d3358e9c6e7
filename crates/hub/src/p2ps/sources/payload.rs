//! The payload of requests on its way upstream: elements that this server does not act upon go to the provider as they
//! came.

use crate::filter::bodies::{Fault, copy_elements};
use crate::p2ps::encode;
use rwf::container::{ElementList, ElementListEncoder, SetScope};
use rwf::wire::Writer;
use rwf::{DataType, EncodeError};

/// Elements that are acted upon here.
const OWN: [&[u8]; 4] = [b":ItemList", b":StreamIdList", b":ViewType", b":ViewData"];

/// The elements of a request's payload that are left to the provider, as an element list; empty if there are none.
pub(crate) fn relayed(container: DataType, body: &[u8]) -> Vec<u8> {
    if container == DataType::ELEMENT_LIST { merged(&[body], |name| !OWN.contains(&name)) } else { Vec::new() }
}

/// A view as payload together with other elements; empty if there is neither.
pub(crate) fn joined(view: Option<Vec<u8>>, elements: &[u8]) -> Vec<u8> {
    match view {
        Some(view) if elements.is_empty() => view,
        Some(view) => merged(&[&view, elements], |_| true),
        None => elements.to_vec(),
    }
}

/// One element list of several; empty if no element has such a name, or if one of the lists cannot be read.
fn merged(lists: &[&[u8]], wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut any = false;
    let result = encode::append(&mut out, 256, |w| {
        any = write(lists, &wanted, w)?;
        Ok(())
    });
    if result.is_err() || !any {
        out.clear();
    }
    out
}

fn write(lists: &[&[u8]], wanted: &impl Fn(&[u8]) -> bool, w: &mut Writer<'_>) -> Result<bool, EncodeError> {
    let mut out = ElementListEncoder::begin(w)?;
    for list in lists {
        let Ok(list) = ElementList::decode(list, &SetScope::NONE) else { return Ok(false) };
        match copy_elements(&list, wanted, &mut out) {
            Ok(()) => {}
            Err(Fault::Unreadable) => return Ok(false),
            Err(Fault::Unwritable(error)) => return Err(error),
        }
    }
    let any = !out.is_empty();
    out.finish()?;
    Ok(any)
}
