#!/bin/busybox sh
# The guest's first process: mounts what a node has, runs the privileged tests, says how they ended, and powers off.
# The host reads the lines that begin with `GUEST`.
/bin/busybox --install -s /busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/busybox HOME=/ LANG=C.UTF-8

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
for module in /modules/*.ko; do
    insmod "$module" || echo "GUEST cannot load $module"
done
ip link set lo up
# Nothing of the kernel's own in the middle of a line of ours; the host shows the ring buffer when a test fails.
dmesg -n 1

read -r up _ < /proc/uptime
echo "GUEST booted $(uname -r) in $up s"
ROLLOUT_PROBE_BIN=/rollout-probe /kernel-tests --color=never $(cat /arguments)
code=$?
[ $code = 0 ] || dmesg | tail -n 40
read -r up _ < /proc/uptime
echo "GUEST ended with $code after $up s"
poweroff -f
