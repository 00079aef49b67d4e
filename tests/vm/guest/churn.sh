# SPDX-License-Identifier: GPL-2.0-only
# Tests that cgroups can be created and removed while others share the disk, and that data stay right; with mqfq also while its
# statistics are read all the time, and the scheduler is switched off and on.
[ -e /cg/cgroup.controllers ] && grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
vflash memory_backed=1
attach vflash0 4
[ $SCHEDULER != mqfq ] || echo 16 > /sys/block/vflash0/queue/iosched/t_kib
echo +io > /cg/cgroup.subtree_control || fail "the controller io cannot be enabled"
in_cgroup() ( # NAME COMMAND...
	echo 0 > /cg/$1/cgroup.procs || exit 1
	shift
	exec "$@"
)
for name in first second; do
	mkdir /cg/$name
	[ $name = first ] && offset=0 || offset=32m
	begin $name in_cgroup $name fio $QUIET --filename=/dev/vflash0 --name=$name --rw=randrw --bs=16k --ioengine=libaio \
		--iodepth=16 --size=8m --offset=$offset $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
done
progress vflash0
place=0
reads() { # CGROUP COUNT: of blocks that were not read before
	place=$((place + $2))
	in_cgroup $1 dd if=/dev/vflash0 of=/dev/null bs=4k count=$2 skip=$((16384 + place % 16384)) iflag=direct 2> /dev/null ||
		fail "no read from cgroup $1"
}
statistics_of_all() { # reads all statistics until /tmp/enough exists
	while [ ! -e /tmp/enough ]; do
		cat /proc/tailgate-mqfq /cg/io.mqfq.stat /cg/*/io.mqfq.stat /cg/*/*/io.mqfq.stat > /tmp/said 2> /dev/null
		! grep -q '^[0-9]*:[0-9]* bytes=' /tmp/said || touch /tmp/has_said
	done
}
rm -f /tmp/enough /tmp/has_said
[ $SCHEDULER != mqfq ] || begin statistics statistics_of_all
for number in $(seq 30); do
	if [ $SCHEDULER = mqfq ] && [ $((number % 3)) = 0 ]; then
		scheduler vflash0 none
		attach vflash0 4
	fi
	mkdir -p /cg/short/child
	echo +io > /cg/short/cgroup.subtree_control
	reads short/child 3
	await "cgroup number $number cannot be removed" rmdir /cg/short/child /cg/short 2> /dev/null
done
if [ $SCHEDULER = mqfq ]; then
	await "a cgroup never has statistics" test -e /tmp/has_said
	touch /tmp/enough
	end statistics
fi
progress vflash0
stop first second
unchanged first
unchanged second
account vflash0
await "a cgroup cannot be removed" rmdir /cg/first /cg/second 2> /dev/null
echo -io > /cg/cgroup.subtree_control
