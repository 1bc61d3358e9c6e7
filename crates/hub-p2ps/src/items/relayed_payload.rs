//! The payload of requests on its way upstream: elements that this server does not act upon go to the provider as they
//! came, and whatever else there is in the request of a private stream, which is between its two ends.

use super::view_spec::DataStreams;
use crate::encode;
use crate::filter::bodies::{Fault, copy_elements};
use rwf::container::{ElementList, ElementListEncoder, SetScope};
use rwf::msg::RequestMsg;
use rwf::wire::Writer;
use rwf::{DataType, EncodeError};
use std::borrow::Cow;
use std::sync::Arc;

/// Elements that are acted upon here.
const OWN: [&[u8]; 4] = [b":ItemList", b":StreamIdList", b":ViewType", b":ViewData"];
/// The one that is acted upon in requests for symbol lists and records of chains.
const OWN_OF_LISTS: &[u8] = b":SymbolListBehaviors";

/// What of a request's payload is left to the provider. All items of a batch have the same, in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelayedPayload {
    container: DataType,
    body: Arc<[u8]>,
    ext_header: Option<Arc<[u8]>>,
}

impl RelayedPayload {
    /// Of a request for an item that watchers may share: elements. Of one for a private stream (a tunnel's class of service is a filter
    /// list) everything but what is acted upon here.
    pub(crate) fn of(request: &RequestMsg<'_>, is_private: bool) -> Option<Self> {
        // Nearly all requests have none.
        if request.body.is_empty() && request.ext_header.is_none() {
            return None;
        }
        let (container, body) = match request.container {
            DataType::ELEMENT_LIST => {
                let is_list = DataStreams::may_be_of(request.domain) && !is_private;
                let is_own = |name: &[u8]| OWN.contains(&name) || is_list && name == OWN_OF_LISTS;
                (DataType::ELEMENT_LIST, Cow::Owned(merged(&[request.body], |name| !is_own(name))))
            }
            container if is_private => (container, Cow::Borrowed(request.body)),
            _ => (DataType::NO_DATA, Cow::Borrowed(&[][..])),
        };
        let container = if body.is_empty() { DataType::NO_DATA } else { container };
        let ext_header = request.ext_header.filter(|_| is_private).map(Into::into);
        let any = container != DataType::NO_DATA || ext_header.is_some();
        any.then(|| Self { container, body: (*body).into(), ext_header })
    }

    /// `ExtendedHeader` of the request.
    pub(crate) fn ext_header(&self) -> Option<&[u8]> {
        self.ext_header.as_deref()
    }
}

/// A view as payload together with what else there is; of another container than an element list there is no view.
pub(crate) fn joined(view: Option<Vec<u8>>, relayed: Option<&RelayedPayload>) -> (DataType, Vec<u8>) {
    let body = match (view, relayed) {
        (Some(view), Some(RelayedPayload { container: DataType::ELEMENT_LIST, body, .. })) => {
            merged(&[&view, body], |_| true)
        }
        (Some(view), _) => view,
        (None, Some(RelayedPayload { container, body, .. })) => return (*container, body.to_vec()),
        (None, None) => Vec::new(),
    };
    (if body.is_empty() { DataType::NO_DATA } else { DataType::ELEMENT_LIST }, body)
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
