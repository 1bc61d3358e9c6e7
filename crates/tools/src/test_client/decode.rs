//! Decoding of updates for its own sake: a client that looks at every field costs what a real one does.

use super::args::Depth;
use super::watch::Meter;
use rwf::dictionary::Dictionary;
use rwf::{DataType, FieldList, SetScope, peek};
use std::hint::black_box;

/// Field types by id, dense: a look-up is one load.
#[derive(Clone, Debug)]
pub struct FieldTypes(Box<[DataType]>);

impl FieldTypes {
    /// The types of a dictionary.
    pub fn of(dictionary: &Dictionary) -> Self {
        let mut types = vec![DataType::UNKNOWN; 1 << 16].into_boxed_slice();
        for field in dictionary.fields() {
            types[field.fid() as u16 as usize] = field.data_type();
        }
        Self(types)
    }

    #[inline]
    fn get(&self, fid: i16) -> DataType {
        self.0[fid as u16 as usize]
    }
}

/// Decodes the field list of an update as deep as the meter wants.
pub fn fields(msg: &[u8], meter: &mut Meter) {
    if peek::container(msg) != Some(DataType::FIELD_LIST) {
        return;
    }
    let Some(list) = peek::body(msg).and_then(|body| FieldList::decode(body, &SetScope::default()).ok()) else {
        meter.counts.strange += 1;
        return;
    };
    for entry in list.entries() {
        let Ok(entry) = entry else {
            meter.counts.strange += 1;
            return;
        };
        meter.counts.values += 1;
        if meter.depth == Depth::Values {
            let data_type = entry.resolve(meter.types.get(entry.fid));
            let known = data_type.is_primitive() && data_type != DataType::UNKNOWN;
            if known && black_box(entry.value(data_type)).is_err() {
                meter.counts.strange += 1;
            }
        }
    }
}
