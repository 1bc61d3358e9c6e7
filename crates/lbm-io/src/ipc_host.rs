//! Where segments of shared memory are, and which of them can be reached from here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "LBTIPC_";

/// The host id of advertisements: equal for all who see the same `/dev/shm`, be it that of a host or of a container.
pub(crate) fn id() -> u32 {
    static ID: OnceLock<u32> = OnceLock::new();
    *ID.get_or_init(|| {
        let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mount = fs::metadata(DIRECTORY).map_or(0, |m| m.dev());
        // FNV-1a.
        boot.iter()
            .chain(&mount.to_ne_bytes())
            .fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    })
}

/// The file of a session.
pub(crate) fn path(session_id: u32, transport_id: u16) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{PREFIX}{session_id:08x}_{transport_id}"))
}

/// Removes what processes that died have left; once a process.
pub(crate) fn sweep() {
    static SWEPT: OnceLock<usize> = OnceLock::new();
    SWEPT.get_or_init(|| net::shm::sweep(Path::new(DIRECTORY), PREFIX));
}
