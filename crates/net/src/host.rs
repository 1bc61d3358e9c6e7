//! Facts about the machine, for reports that name where a figure was measured, and for hints why a socket is small.

use std::{fmt, fs, thread};

/// The machine. What the system does not tell is empty or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Processor model.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor of the first CPU.
    pub governor: Option<String>,
    /// Where the kernel takes its time from; `tsc` or `kvm-clock` are cheap.
    pub clock_source: Option<String>,
    /// Runs under a hypervisor.
    pub is_virtual: bool,
    /// `net.core.wmem_max`: the cap of `SO_SNDBUF`, before doubling.
    pub send_buffer_max: Option<u64>,
    /// `net.core.rmem_max`: the cap of `SO_RCVBUF`, before doubling.
    pub receive_buffer_max: Option<u64>,
}

impl Host {
    /// Reads the facts.
    pub fn read() -> Self {
        let cpuinfo = line("/proc/cpuinfo").unwrap_or_default();
        let cpu_field = |name: &str| field(&cpuinfo, name).unwrap_or_default();
        let meminfo = line("/proc/meminfo").unwrap_or_default();
        let memory = field(&meminfo, "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
        Self {
            name: name(),
            cpu: cpu_field("model name"),
            cores: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory: memory.unwrap_or(0) * 1024,
            kernel: line("/proc/sys/kernel/osrelease").unwrap_or_default(),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            is_virtual: cpu_field("flags").split(' ').any(|flag| flag == "hypervisor"),
            send_buffer_max: number("/proc/sys/net/core/wmem_max"),
            receive_buffer_max: number("/proc/sys/net/core/rmem_max"),
        }
    }
}

/// The host's name, as a login's position states it.
pub fn name() -> String {
    line("/proc/sys/kernel/hostname").unwrap_or_default()
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabytes = self.memory as f64 / (1u64 << 30) as f64;
        write!(f, "{}: {} x {}, {gigabytes:.0} GB, Linux {}", self.name, self.cores, self.cpu, self.kernel)?;
        if self.is_virtual {
            f.write_str(", virtual")?;
        }
        if let Some(governor) = &self.governor {
            write!(f, ", governor {governor}")?;
        }
        if let Some(source) = &self.clock_source {
            write!(f, ", clock {source}")?;
        }
        Ok(())
    }
}

/// A file's text without the white space at its end.
fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// The first `name : value` of a `/proc` file.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_known() {
        let host = Host::read();
        assert!(host.cores >= 1 && host.memory > 1 << 20 && !host.kernel.is_empty());
        assert!(host.to_string().contains(&host.kernel));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 17\nmodel name\t: Some CPU: fast\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU: fast"));
        assert_eq!(field(text, "name"), None);
    }
}
