//! The types of fields, for the decoding of updates.

use rwf::DataType;
use rwf::dictionary::Dictionary;

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

    /// The type of a field.
    #[inline]
    pub(super) fn get(&self, fid: i16) -> DataType {
        self.0[fid as u16 as usize]
    }
}
