//! All counters at one time, as plain values.

use aya::{
    Ebpf,
    maps::{HashMap, MapData, PerCpuArray},
};
use rollout_probe_common::{
    abi::{CodeKey, Tally, TallyKey},
    outcome::{LostSync, Packet},
};

use super::{KernelError, absent_map};

/// What the kernel has counted since the programs were loaded.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Counters by key, in no order.
    pub tallies: Vec<(TallyKey, Tally)>,
    /// Exact error codes by key, in no order.
    pub codes: Vec<(CodeKey, u64)>,
    /// Connections lost, by [`LostSync`].
    pub lost_sync: [u64; LostSync::COUNT],
    /// Packets by [`Packet`].
    pub packets: [u64; Packet::COUNT],
}

impl Snapshot {
    pub(super) fn read(ebpf: &Ebpf) -> Result<Self, KernelError> {
        Ok(Self {
            tallies: hash(ebpf, "TALLIES")?,
            codes: hash(ebpf, "CODES")?,
            lost_sync: per_cpu(ebpf, "LOST_SYNC")?,
            packets: per_cpu(ebpf, "PACKETS")?,
        })
    }
}

fn hash<K: aya::Pod, V: aya::Pod>(ebpf: &Ebpf, name: &'static str) -> Result<Vec<(K, V)>, KernelError> {
    let error = |source| KernelError::Map { map: name, source };
    let map: HashMap<&MapData, K, V> =
        HashMap::try_from(ebpf.map(name).ok_or_else(|| absent_map(name))?).map_err(error)?;
    map.iter().collect::<Result<_, _>>().map_err(error)
}

fn per_cpu<const N: usize>(ebpf: &Ebpf, name: &'static str) -> Result<[u64; N], KernelError> {
    let error = |source| KernelError::Map { map: name, source };
    let map: PerCpuArray<&MapData, u64> =
        PerCpuArray::try_from(ebpf.map(name).ok_or_else(|| absent_map(name))?).map_err(error)?;
    let mut sums = [0; N];
    for (index, sum) in (0..).zip(&mut sums) {
        *sum = map.get(&index, 0).map_err(error)?.iter().sum();
    }
    Ok(sums)
}
