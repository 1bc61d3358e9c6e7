//! Lines of memory that are asked for before they are needed.
//!
//! State machines that walk wide tables depend on it, so it knows nothing else: its one instruction is all that it has of `unsafe` code.
//!
//! A load that misses the caches holds up all that follows it once as many instructions wait as the processor can keep, a few hundred; a line that was only asked
//! for holds up nothing.

/// Asks the processor for the lines of these addresses, to be read or written soon. A hint: nothing is read or written, and any address will do.
/// On other architectures than `x86_64` nothing is asked for.
#[inline]
pub fn fetch(addresses: &[*const u8]) {
    // Eight at a time: a loop over each would be longer than what it does.
    let (eights, rest) = addresses.as_chunks::<8>();
    for eight in eights {
        for address in eight {
            fetch_one(*address);
        }
    }
    for address in rest {
        fetch_one(*address);
    }
}

#[inline]
fn fetch_one(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: an instruction that touches neither memory nor registers and faults at no address; every 64-bit processor has it.
    unsafe {
        std::arch::asm!("prefetcht0 [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_address_will_do() {
        let kept = [7u64; 64];
        let beyond = kept.as_ptr().cast::<u8>().wrapping_add(1 << 40);
        super::fetch(&[kept.as_ptr().cast(), std::ptr::null(), beyond, std::ptr::without_provenance(usize::MAX)]);
        assert_eq!(kept, [7; 64]);
    }
}
