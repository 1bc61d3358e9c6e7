//! What the payload of a request asks for. It is read once for a message, however many items a batch names, and what is kept of it for
//! each item is shared by all of them.

use super::refusal::Refusal;
use crate::items::relayed_payload::RelayedPayload;
use crate::items::view_spec::{DataStreams, Subset};
use rwf::msg::{RequestFlags, RequestMsg};
use rwf::rdm::request::{Payload, View};
use std::cell::OnceCell;

/// Fields of a view that cost as much as an item without.
const FIELDS_A_PIECE: usize = 64;

/// The part of a request that is about views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WantedView {
    /// Everything is wanted.
    Whole,
    /// The fields of this subset are wanted.
    View(Subset),
    /// The view stays as it is.
    Keep,
}

impl WantedView {
    /// Reads it; `flagged` says that the request claims to have a view.
    fn of(flagged: bool, view: Option<View>) -> Result<Self, Refusal<'static>> {
        match (flagged, view) {
            (false, _) => Ok(Self::Whole),
            (true, None) => Ok(Self::Keep),
            (true, Some(View::Fields(mut fids))) => {
                fids.sort_unstable();
                fids.dedup();
                Ok(Self::View(Subset::Fields(fids.into())))
            }
            (true, Some(View::Elements(mut names))) => {
                names.sort_unstable();
                names.dedup();
                Ok(Self::View(Subset::Elements(names.into())))
            }
            (true, Some(View::Unsupported(kind))) => Err(Refusal::UnknownViewType { kind }),
            (true, Some(View::Invalid)) => Err(Refusal::BadView {
                why: ":ViewType must be 1 or 2, and :ViewData an array of field ids or of names",
            }),
        }
    }
}

/// The payload of a request, for the items that the request opens or changes.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) view: WantedView,
    /// How the items are opened that a symbol list or a chain names.
    pub(super) data_streams: Option<DataStreams>,
    /// What is left to the provider: read with the first item that is new.
    relayed: OnceCell<Option<RelayedPayload>>,
}

impl Wanted {
    /// What a request asks for whose payload was read. Takes the view out of it.
    pub(super) fn of(msg: &RequestMsg<'_>, payload: &mut Payload<'_>) -> Result<Self, Refusal<'static>> {
        let view = WantedView::of(msg.flags.contains(RequestFlags::HAS_VIEW), payload.view.take())?;
        Ok(Self { view, data_streams: DataStreams::of(msg, payload), relayed: OnceCell::new() })
    }

    /// Of a request without a payload.
    pub(super) const fn whole() -> Self {
        Self { view: WantedView::Whole, data_streams: None, relayed: OnceCell::new() }
    }

    /// Of a record of a chain that follows one which was asked for so.
    pub(super) const fn followed(streams: DataStreams) -> Self {
        Self { view: WantedView::Whole, data_streams: Some(streams), relayed: OnceCell::new() }
    }

    /// Of a batch that says nothing of views: it means the streams as they are.
    pub(super) fn or_keep(mut self) -> Self {
        if self.view == WantedView::Whole {
            self.view = WantedView::Keep;
        }
        self
    }

    /// The fields or elements that are asked for; everything if `None`.
    pub(super) fn subset(&self) -> Option<Subset> {
        if let WantedView::View(subset) = &self.view { Some(subset.clone()) } else { None }
    }

    /// Pieces of work that one item of a batch is: a large view is gone over more than once for each.
    pub(super) fn pieces(&self) -> usize {
        1 + if let WantedView::View(subset) = &self.view { subset.weight() / FIELDS_A_PIECE } else { 0 }
    }

    /// What the provider of an item is asked beside a view. `msg` is the request that this was read from, or one of those that it stands for.
    pub(super) fn relayed(&self, msg: &RequestMsg<'_>) -> Option<RelayedPayload> {
        let is_private = msg.flags.contains(RequestFlags::PRIVATE_STREAM);
        self.relayed.get_or_init(|| RelayedPayload::of(msg, is_private)).clone()
    }
}
