# SPDX-License-Identifier: GPL-2.0-only
# Tests that iocost, which charges a cgroup for each request until it ends, finds the cgroup idle after its requests were split at
# insertion: requests that were too large when submitted, and requests that grew in a plug.
T=/sys/kernel/tracing
grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
[ -e $T/events/iocost/iocost_iocg_idle ] || skip "iocost does not say when a cgroup is idle"
vflash
attach vflash0 8
Q=/sys/block/vflash0/queue
echo +io > /cg/cgroup.subtree_control || fail "the controller io cannot be enabled"
echo "$(cat /sys/block/vflash0/dev) enable=1" > /cg/io.cost.qos || fail "iocost cannot be enabled"
mkdir -p /cg/paid
echo 16 > $Q/iosched/split_kib
in_cgroup() (
	echo 0 > /cg/paid/cgroup.procs || exit 1
	exec "$@"
)
idle_again() {
	grep -q 'iocost_iocg_idle: \[vflash0:/paid\]' $T/trace
}
found_idle() { # WHAT FIO_OPTION...: a load in the cgroup that is all split at insertion
	what=$1
	shift
	before=$(counted vflash0 split_requests)
	echo > $T/trace
	begin load in_cgroup fio $QUIET --filename=/dev/vflash0 --name=l --size=8m "$@"
	end load
	[ "$(counted vflash0 split_requests)" -ge $((before + 50)) ] || fail "$what: not split"
	account vflash0
	await "$what: iocost never finds the cgroup idle" idle_again
	echo "$what: $(($(counted vflash0 split_requests) - before)) split"
}
echo 1 > $T/events/iocost/iocost_iocg_idle/enable
echo 1 > $T/tracing_on
found_idle "grown in a plug" --rw=read --bs=4k --ioengine=io_uring --iodepth=32 --iodepth_batch_submit=32 \
	--iodepth_batch_complete_min=32 --iodepth_batch_complete_max=32
echo 2 > $Q/nomerges
found_idle "too large from the start" --rw=randread --bs=64k --ioengine=libaio --iodepth=4
found_idle "written" --rw=randwrite --bs=64k --ioengine=libaio --iodepth=4
echo 0 > $T/events/iocost/iocost_iocg_idle/enable
