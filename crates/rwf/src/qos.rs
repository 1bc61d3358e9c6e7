//! Quality of service: how old data is and how much of it is delivered.

use crate::macros::open_enum;
use crate::wire::{Reader, Writer};
use crate::{DecodeError, EncodeError};
use std::fmt;

open_enum! {
    /// How old data is (ETA `QosTimeliness`; three bits on the wire).
    Timeliness: u8 {
        /// Not said.
        UNSPECIFIED = 0,
        /// No delay.
        REALTIME = 1,
        /// Delayed by an unknown time.
        DELAYED_UNKNOWN = 2,
        /// Delayed by [`Qos::time_info`] seconds.
        DELAYED = 3,
    }
}

open_enum! {
    /// How many of the changes are delivered (ETA `QosRates`; four bits on the wire).
    Rate: u8 {
        /// Not said.
        UNSPECIFIED = 0,
        /// Every change.
        TICK_BY_TICK = 1,
        /// Conflated when the receiver cannot keep up.
        JIT_CONFLATED = 2,
        /// Conflated in intervals of [`Qos::rate_info`] milliseconds.
        TIME_CONFLATED = 3,
    }
}

/// A quality of service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Qos {
    /// How old data is.
    pub timeliness: Timeliness,
    /// How many changes are delivered.
    pub rate: Rate,
    /// The quality may change while the stream is open.
    pub dynamic: bool,
    /// Delay in seconds; on the wire only with [`Timeliness::DELAYED`].
    pub time_info: u16,
    /// Conflation interval in milliseconds; on the wire only with [`Rate::TIME_CONFLATED`].
    pub rate_info: u16,
}

impl Qos {
    /// Real time, every change: what most feeds offer.
    pub const REALTIME_TICK: Self = Self::new(Timeliness::REALTIME, Rate::TICK_BY_TICK);

    /// A fixed quality without interval figures.
    pub const fn new(timeliness: Timeliness, rate: Rate) -> Self {
        Self { timeliness, rate, dynamic: false, time_info: 0, rate_info: 0 }
    }

    /// Reads the wire form, 1 to 5 bytes: `timeliness<<5 | rate<<1 | dynamic`, then the figures.
    ///
    /// # Errors
    /// Truncated.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let byte = r.u8()?;
        let mut qos = Self { dynamic: byte & 1 != 0, ..Self::new(Timeliness(byte >> 5), Rate(byte >> 1 & 0xF)) };
        if qos.timeliness > Timeliness::DELAYED_UNKNOWN {
            qos.time_info = r.u16()?;
        }
        if qos.rate > Rate::JIT_CONFLATED {
            qos.rate_info = r.u16()?;
        }
        Ok(qos)
    }

    /// Writes the wire form.
    ///
    /// # Errors
    /// [`EncodeError::BufferFull`]; [`EncodeError::Unrepresentable`] for a timeliness over 7 or a rate over 15.
    pub fn write(&self, w: &mut Writer<'_>) -> Result<(), EncodeError> {
        if self.timeliness.0 > 7 || self.rate.0 > 15 {
            return Err(EncodeError::Unrepresentable("quality of service"));
        }
        w.u8(self.timeliness.0 << 5 | self.rate.0 << 1 | u8::from(self.dynamic))?;
        if self.timeliness > Timeliness::DELAYED_UNKNOWN {
            w.u16(self.time_info)?;
        }
        if self.rate > Rate::JIT_CONFLATED {
            w.u16(self.rate_info)?;
        }
        Ok(())
    }
}

impl fmt::Display for Qos {
    /// `REALTIME/TICK_BY_TICK`, with figures and `dynamic` where they apply.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timeliness)?;
        if self.timeliness > Timeliness::DELAYED_UNKNOWN {
            write!(f, " {} s", self.time_info)?;
        }
        write!(f, "/{}", self.rate)?;
        if self.rate > Rate::JIT_CONFLATED {
            write!(f, " {} ms", self.rate_info)?;
        }
        f.write_str(if self.dynamic { "/dynamic" } else { "" })
    }
}
