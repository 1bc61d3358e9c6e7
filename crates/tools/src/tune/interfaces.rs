//! Network cards and their interrupts, as the kernel shows them.

use std::fs;
use std::path::Path;

/// Interfaces with a device behind them, sorted. Virtual ones have no interrupts, and no queue worth a name.
pub fn physical(system: &Path) -> Vec<String> {
    let folder = system.join("sys/class/net");
    let mut all = names(&folder);
    all.retain(|name| folder.join(name).join("device").exists());
    all
}

/// The interrupts of an interface, by number. Those of a virtio card belong to the PCI device that its own is part of.
pub fn interrupts(system: &Path, interface: &str) -> Vec<u32> {
    let device = system.join("sys/class/net").join(interface).join("device");
    for owner in [device.clone(), device.join("..")] {
        let mut numbers: Vec<u32> = names(&owner.join("msi_irqs")).iter().filter_map(|n| n.parse().ok()).collect();
        if numbers.is_empty() {
            let line = fs::read_to_string(owner.join("irq")).unwrap_or_default();
            numbers.extend(line.trim().parse::<u32>().ok().filter(|n| *n > 0));
        }
        if !numbers.is_empty() {
            numbers.sort_unstable();
            return numbers;
        }
    }
    Vec::new()
}

/// The file that says on which processors an interrupt may run, below the root of the system.
pub fn affinity(interrupt: u32) -> String {
    format!("proc/irq/{interrupt}/smp_affinity_list")
}

/// Where the interrupts of all cards may run, for a report: `eth0: 38 on 0-1, 39 on 0`.
pub fn affinities(system: &Path) -> Option<String> {
    let of = |interface: &String| {
        let places = interrupts(system, interface).into_iter().filter_map(|n| {
            let text = fs::read_to_string(system.join(affinity(n))).ok()?;
            Some(format!("{n} on {}", text.trim()))
        });
        let places: Vec<String> = places.collect();
        (!places.is_empty()).then(|| format!("{interface}: {}", places.join(", ")))
    };
    let all: Vec<String> = physical(system).iter().filter_map(of).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Entries of a folder, sorted; none if it cannot be read.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtio_cards_interrupts_are_those_of_the_pci_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |path: &str| fs::create_dir_all(folder.path().join(path)).expect("a folder");
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, folder.path().join(at)).expect("a link");
        for path in ["sys/class/net/eth0", "sys/class/net/eth1", "sys/class/net/lo", "sys/devices/3/virtio2"] {
            make(path);
        }
        for path in ["sys/devices/3/msi_irqs/39", "sys/devices/3/msi_irqs/38", "sys/devices/4", "proc/irq/38"] {
            make(path);
        }
        link("../../../devices/3/virtio2", "sys/class/net/eth0/device");
        link("../../../devices/4", "sys/class/net/eth1/device");
        fs::write(folder.path().join("sys/devices/4/irq"), "11\n").expect("a file");
        fs::write(folder.path().join(affinity(38)), "0-1\n").expect("a file");
        assert_eq!(physical(folder.path()), ["eth0", "eth1"]);
        assert_eq!(interrupts(folder.path(), "eth0"), [38, 39]);
        assert_eq!(interrupts(folder.path(), "eth1"), [11]);
        assert!(interrupts(folder.path(), "lo").is_empty());
        assert_eq!(affinities(folder.path()).as_deref(), Some("eth0: 38 on 0-1"));
    }
}
