//! Which capabilities this process lacks, so that the error can name them instead of "operation not permitted".

use std::fs;

/// (name, bit), `linux/capability.h`. `CAP_SYS_ADMIN` stands for the first two since Linux 5.8.
const BPF: (&str, u32) = ("CAP_BPF", 39);
const PERFMON: (&str, u32) = ("CAP_PERFMON", 38);
const NET_ADMIN: (&str, u32) = ("CAP_NET_ADMIN", 12);
const SYS_ADMIN: u32 = 21;

/// Names of the capabilities that loading and attaching need and this process does not have.
pub(super) fn missing() -> Vec<&'static str> {
    // Without /proc nobody can tell; the kernel then says no itself.
    fs::read_to_string("/proc/self/status").map_or_else(|_| Vec::new(), |status| missing_in(&status))
}

fn missing_in(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let Some(effective) = effective else { return Vec::new() };
    let has = |bit: u32| effective & (1 << bit) != 0;
    let needs = |(name, bit): (&'static str, u32), instead: bool| (!has(bit) && !instead).then_some(name);
    [needs(BPF, has(SYS_ADMIN)), needs(PERFMON, has(SYS_ADMIN)), needs(NET_ADMIN, false)]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::missing_in;

    #[test]
    fn missing_capabilities_are_named() {
        let status = |mask: &str| format!("Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{mask}\nCapBnd:\t0\n");
        assert_eq!(missing_in(&status("000001ffffffffff")), Vec::<&str>::new(), "root");
        assert_eq!(missing_in(&status("0000000000000000")), ["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]);
        assert_eq!(missing_in(&status("000000c000001000")), Vec::<&str>::new(), "exactly the three");
        assert_eq!(missing_in(&status("0000000000201000")), Vec::<&str>::new(), "SYS_ADMIN and NET_ADMIN");
        assert_eq!(missing_in(&status("000000c000000000")), ["CAP_NET_ADMIN"]);
    }
}
