//! Reads the counter maps into plain values.

use super::{KernelError, absent_map};
use crate::ledger::Counters;
use aya::{
    Ebpf,
    maps::{HashMap, MapData, PerCpuArray},
};

pub(super) fn read(ebpf: &Ebpf) -> Result<Counters, KernelError> {
    Ok(Counters {
        tallies: hash(ebpf, "TALLIES")?,
        codes: hash(ebpf, "CODES")?,
        lost_sync: per_cpu(ebpf, "LOST_SYNC")?,
        packets: per_cpu(ebpf, "PACKETS")?,
    })
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
