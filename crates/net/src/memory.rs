//! How much memory a process uses.

use std::{fs, io};

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that ever was resident.
    pub peak: u64,
    /// Address space.
    pub virtual_size: u64,
}

impl Memory {
    /// Of this process.
    ///
    /// # Errors
    /// When `/proc` is not there.
    pub fn of_self() -> io::Result<Self> {
        Self::read("/proc/self/status")
    }

    /// Of the process with this id.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> io::Result<Self> {
        Self::read(&format!("/proc/{pid}/status"))
    }

    fn read(path: &str) -> io::Result<Self> {
        let status = fs::read_to_string(path)?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kilobytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
            kilobytes
                .map(|kilobytes| kilobytes * 1024)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("no {name} in {path}")))
        };
        Ok(Self { resident: field("VmRSS")?, peak: field("VmHWM")?, virtual_size: field("VmSize")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_resident() {
        let before = Memory::of_self().expect("status");
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = Memory::of(std::process::id()).expect("status");
        assert!(after.resident >= before.resident + (48 << 20), "{before:?} {after:?}");
        assert!(after.peak >= after.resident && after.virtual_size >= after.resident);
        drop(block);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        assert!(Memory::of(u32::MAX).is_err());
    }
}
