//! The model of an application: what it has had, and what of that is against the rules.

use std::collections::BTreeMap;

use lbm_store::receiver::{Delivered, Sink};

/// What a receiver's application has had, over all its processes.
#[derive(Debug, Default)]
pub(crate) struct Had {
    /// By message: how often.
    pub(crate) count: BTreeMap<u64, u32>,
    /// The last one of this process.
    pub(crate) last: Option<u64>,
    pub(crate) faults: Vec<String>,
    /// Messages that came behind later ones of the same process: the later, the earlier.
    pub(crate) turned: Vec<(u64, u64)>,
    pub(crate) lost: u64,
}

impl Sink for Had {
    fn message(&mut self, _source: u32, message: Delivered<'_>) {
        let id = u64::from_be_bytes(message.payload[..8].try_into().expect("each begins with its number"));
        let length = message.payload.len();
        if length != length_of(id) || message.payload[8..].iter().any(|b| *b != id as u8) {
            self.faults.push(format!("message {id} has other bytes"));
        }
        let count = self.count.entry(id).or_insert(0);
        *count += 1;
        if *count > 1 && !message.repeated {
            self.faults.push(format!("message {id} came {count} times, and is not flagged"));
        }
        if let Some(last) = self.last.filter(|last| *last >= id) {
            self.turned.push((last, id));
        }
        self.last = Some(id);
    }

    fn lost(&mut self, _source: u32, _first: u32, count: u32) {
        self.lost += u64::from(count);
    }
}

/// Some are so long that they are cut into fragments.
fn length_of(id: u64) -> usize {
    if id % 7 == 3 { 400 } else { 20 + (id % 50) as usize }
}

pub(crate) fn payload(id: u64) -> Vec<u8> {
    let mut payload = vec![id as u8; length_of(id)];
    payload[..8].copy_from_slice(&id.to_be_bytes());
    payload
}
