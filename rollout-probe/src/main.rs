fn main() {
    let p = rollout_probe::kernel::Probe::attach(std::path::Path::new("/sys/fs/cgroup/unified"));
    match p { Ok(p) => { println!("{:?}", p.hooks()); p.dbg(); loop { std::thread::sleep(std::time::Duration::from_secs(3)); let s = p.snapshot().unwrap(); println!("{s:?}"); } }, Err(e) => println!("{e:#}") }
}
