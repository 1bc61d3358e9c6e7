//! What bytes are: the type numbers of primitives, of their forms in set definitions, and of containers.

use crate::macros::open_enum;

open_enum! {
    /// The type of a value or container (ETA `DataTypes`). Numbers without a name are kept as they are.
    DataType: u8 {
        /// Not known: the type of a field whose definition is missing.
        UNKNOWN = 0,
        /// Signed integer of up to 64 bits.
        INT = 3,
        /// Unsigned integer of up to 64 bits.
        UINT = 4,
        /// IEEE 754, 32 bits.
        FLOAT = 5,
        /// IEEE 754, 64 bits.
        DOUBLE = 6,
        /// Decimal or fraction: a mantissa and a hint, [`Real`](crate::Real).
        REAL = 8,
        /// Calendar date.
        DATE = 9,
        /// Time of day, down to the nanosecond.
        TIME = 10,
        /// Date and time.
        DATETIME = 11,
        /// Quality of service.
        QOS = 12,
        /// State of a stream and its data.
        STATE = 13,
        /// Number that an enumeration table of the dictionary explains.
        ENUM = 14,
        /// Array of one primitive type.
        ARRAY = 15,
        /// Bytes.
        BUFFER = 16,
        /// ASCII text.
        ASCII_STRING = 17,
        /// UTF-8 text.
        UTF8_STRING = 18,
        /// Text in the multi-lingual RMTES coding.
        RMTES_STRING = 19,
        /// In sets: signed integer in one byte.
        INT_1 = 64,
        /// In sets: unsigned integer in one byte.
        UINT_1 = 65,
        /// In sets: signed integer in two bytes.
        INT_2 = 66,
        /// In sets: unsigned integer in two bytes.
        UINT_2 = 67,
        /// In sets: signed integer in four bytes.
        INT_4 = 68,
        /// In sets: unsigned integer in four bytes.
        UINT_4 = 69,
        /// In sets: signed integer in eight bytes.
        INT_8 = 70,
        /// In sets: unsigned integer in eight bytes.
        UINT_8 = 71,
        /// In sets: a float without length.
        FLOAT_4 = 72,
        /// In sets: a double without length.
        DOUBLE_8 = 73,
        /// In sets: a real with a mantissa of 1 to 4 bytes, the size in the top bits of the hint byte.
        REAL_4RB = 74,
        /// In sets: a real with a mantissa of 2, 4, 6 or 8 bytes, the size in the top bits of the hint byte.
        REAL_8RB = 75,
        /// In sets: a date without length.
        DATE_4 = 76,
        /// In sets: time to the second.
        TIME_3 = 77,
        /// In sets: time to the millisecond.
        TIME_5 = 78,
        /// In sets: date and time to the second.
        DATETIME_7 = 79,
        /// In sets: date and time to the millisecond.
        DATETIME_9 = 80,
        /// In sets: date and time to the microsecond.
        DATETIME_11 = 81,
        /// In sets: date and time to the nanosecond.
        DATETIME_12 = 82,
        /// In sets: time to the microsecond.
        TIME_7 = 83,
        /// In sets: time to the nanosecond.
        TIME_8 = 84,
        /// No content.
        NO_DATA = 128,
        /// Bytes that only the application understands.
        OPAQUE = 130,
        /// XML text.
        XML = 131,
        /// Values by field id.
        FIELD_LIST = 132,
        /// Values by name.
        ELEMENT_LIST = 133,
        /// Page in ANSI terminal codes.
        ANSI_PAGE = 134,
        /// Containers by filter id.
        FILTER_LIST = 135,
        /// Containers by index.
        VECTOR = 136,
        /// Containers by key.
        MAP = 137,
        /// Containers in a row.
        SERIES = 138,
        /// A message.
        MSG = 141,
        /// JSON text.
        JSON = 142,
    }
}

impl DataType {
    const CONTAINER_MIN: u8 = 128;

    /// True for a base primitive type (below 64), known or not.
    #[inline]
    pub const fn is_primitive(self) -> bool {
        self.0 < 64
    }

    /// True for a form that only occurs in set definitions.
    #[inline]
    pub const fn is_set_primitive(self) -> bool {
        self.0 >= 64 && self.0 < Self::CONTAINER_MIN
    }

    /// True for a container, known or not.
    #[inline]
    pub const fn is_container(self) -> bool {
        self.0 >= Self::CONTAINER_MIN
    }

    /// The type that a header byte stands for, where containers are written less 128.
    #[inline]
    pub const fn from_wire_container(byte: u8) -> Self {
        Self(byte.wrapping_add(Self::CONTAINER_MIN))
    }

    /// The byte for headers in which containers are written less 128.
    #[inline]
    pub const fn wire_container(self) -> u8 {
        self.0.wrapping_sub(Self::CONTAINER_MIN)
    }

    /// The type of the value that a set-defined form holds; every other type is its own base.
    #[must_use]
    pub const fn base(self) -> Self {
        match self {
            Self::INT_1 | Self::INT_2 | Self::INT_4 | Self::INT_8 => Self::INT,
            Self::UINT_1 | Self::UINT_2 | Self::UINT_4 | Self::UINT_8 => Self::UINT,
            Self::FLOAT_4 => Self::FLOAT,
            Self::DOUBLE_8 => Self::DOUBLE,
            Self::REAL_4RB | Self::REAL_8RB => Self::REAL,
            Self::DATE_4 => Self::DATE,
            Self::TIME_3 | Self::TIME_5 | Self::TIME_7 | Self::TIME_8 => Self::TIME,
            Self::DATETIME_7 | Self::DATETIME_9 | Self::DATETIME_11 | Self::DATETIME_12 => Self::DATETIME,
            other => other,
        }
    }
}
