# SPDX-License-Identifier: GPL-2.0-only
# Tests that a flow that is far ahead leaves scheduler tags to other flows, that requests without real-time class leave some to
# real-time requests, and that class idle gets one request a second in any case. Time is virtual.
[ -e /cg/cgroup.controllers ] && grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
vflash queues=1 depth=64 read_ns=$((5000000 * SLOW))
attach vflash0 1
Q=/sys/block/vflash0/queue
echo 64 > $Q/nr_requests
echo 4 > $Q/iosched/t_kib
echo +io > /cg/cgroup.subtree_control
mkdir /cg/heavy /cg/light
held() {
	statistics vflash0 | awk '$1 == "queued" || $1 == "inflight" { held += $2 } END { print held }'
}
holds() { # LEAST MOST: one sample may be too high, as requests move while the counters are read
	got=$(held)
	[ $got -ge $1 ] && [ $got -le $2 ]
}
heavy() (
	echo 0 > /cg/heavy/cgroup.procs
	exec fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=400 --numjobs=3 \
		--norandommap $FOREVER
)
reads() { # MOST_MS COMMAND...: makes ten consecutive reads, which must take at most MOST_MS
	most_ms=$1
	shift
	uptime_ms
	since=$NOW
	"$@" dd if=/dev/vflash0 of=/dev/null bs=4k count=10 iflag=direct 2> /dev/null || fail "$*: no reads"
	uptime_ms
	echo "$* reads in $((NOW - since)) ms"
	[ $((NOW - since)) -le $((most_ms * SLOW)) ] || fail "ten reads took $((NOW - since)) ms"
}
begin load heavy
await "the load does not get three quarters of 64 tags" holds 44 48
usleep 200000
await "the load holds more than three quarters of 64 tags" holds 44 48
(echo 0 > /cg/light/cgroup.procs && reads 250 env) || exit 1
reads 150 ionice -c 1
reads 15000 ionice -c 3
stop load
account vflash0
rmdir /cg/heavy /cg/light
