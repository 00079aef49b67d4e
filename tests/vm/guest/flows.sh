# SPDX-License-Identifier: GPL-2.0-only
# Tests that real-time tasks of one level in different cgroups are different flows: each is predicted, the statistics show the cgroup
# of each flow, and other cgroups can be created and removed.
[ -e /cg/cgroup.controllers ] && grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
vflash read_fixed_ns=200000
attach vflash0 1000
K=/sys/block/vflash0/queue/iosched
echo auto > $K/rt_target_us
echo 256 > $K/inflight_kib_max
echo +io > /cg/cgroup.subtree_control || fail "the controller io cannot be enabled"
mkdir -p /cg/first /cg/second
in_cgroup() ( # NAME COMMAND...
	echo 0 > /cg/$1/cgroup.procs || exit 1
	shift
	exec "$@"
)
reader() { # CGROUP THINKTIME
	begin $1 in_cgroup $1 fio $QUIET --filename=/dev/vflash0 --name=$1 --rw=randread --bs=4k --ioengine=psync --prioclass=1 \
		--prio=3 --thinktime=$2 $FOREVER --thread
}
shows() { # FIELD: prints it for all flows, by number
	statistics vflash0 | sed -n "s/^flow[0-9]*\.$1 //p" | tr '\n' ' '
}
begin background fio $QUIET --filename=/dev/vflash0 --name=b --rw=randread --bs=16k --ioengine=libaio --iodepth=8 \
	--norandommap $FOREVER
reader first 20ms
first() {
	[ "$(shows cgroup)" = "$(stat -c %i /cg/first) " ]
}
await "no flow of the cgroup" first
reader second 33ms
both() {
	[ "$(counted vflash0 ahead_predicted)" = 2 ]
}
await "not both are predicted" both
expect "cgroups" "$(shows cgroup)" "$(stat -c %i /cg/first) $(stat -c %i /cg/second) "
expect "levels" "$(shows level)" "3 3 "
statistics vflash0 | grep ^flow

place=0
a_read() { # CGROUP: of a block that was not read before
	place=$((place + 1))
	in_cgroup $1 ionice -c 1 -n 3 dd if=/dev/vflash0 of=/dev/null bs=4k count=1 skip=$((place * 256)) 2> /dev/null ||
		fail "no read from cgroup $1"
}
# more flows than there are places, one after the other: an ended flow leaves its place, even if its cgroup was removed
for number in $(seq 20); do
	mkdir /cg/short
	whose=$(stat -c %i /cg/short)
	a_read short
	await "the cgroup cannot be removed" rmdir /cg/short 2> /dev/null
	known() {
		shows cgroup | grep -qw $whose
	}
	[ $number -gt 14 ] || known || fail "no flow of cgroup number $number"
done
expect "flows" "$(shows level | wc -w)" 16
gone() { # a new flow gets the place of an ended one
	mkdir -p /cg/last
	a_read last
	shows cgroup | grep -qw $(stat -c %i /cg/last)
}
await "a new flow finds no place" gone
shows cgroup | grep -qw $(stat -c %i /cg/first) || fail "a flow that goes on has lost its place"
still_both() { # an ended flow stays predicted until its place is given away, so look only at these two
	for name in first second; do
		number=$(statistics vflash0 | sed -n "s/^flow\([0-9]*\)\.cgroup $(stat -c %i /cg/$name)$/\1/p")
		[ "$(counted vflash0 flow$number.predicted)" = 1 ] || return 1
	done
}
await "not both are predicted any more" still_both
stop background first second
account vflash0
await "a cgroup cannot be removed" rmdir /cg/first /cg/second /cg/last 2> /dev/null
echo -io > /cg/cgroup.subtree_control
