# SPDX-License-Identifier: GPL-2.0-only
# Tests that mqfq loads when the kernel has no room for another policy of cgroups: it logs that once, has no files in cgroups, and takes
# weights from its parameter. When there is room again, it has the files.
[ -e /cg/cgroup.controllers ] && grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
echo +io > /cg/cgroup.subtree_control || fail "the controller io cannot be enabled"
mkdir -p /cg/a /cg/b
load_module blkcg_policies
load_module mqfq
vflash read_ns=$((1000000 * SLOW))
attach vflash0 8
echo 64 > /sys/block/vflash0/queue/iosched/t_kib
expect "lines in the log" "$(kernel_log "mqfq policies" | grep -c 'mqfq: cgroups have no files')" 1
ls /cg/a/io.mqfq.* /cg/io.mqfq.* 2> /dev/null && fail "there are files, although the kernel has no room for them"
weigh() { # CGROUP WEIGHT
	echo "$(stat -c %i /cg/$1) $2" > /sys/module/mqfq/parameters/weights || fail "$1 cannot weigh $2"
}
in_cgroup() ( # NAME COMMAND...
	echo 0 > /cg/$1/cgroup.procs || exit 1
	shift
	exec "$@"
)
had() { # CGROUP: prints its bytes from the module's statistics
	flow=$(statistics vflash0 | sed -n "s/^flow\([0-9]*\)\.cgroup $(stat -c %i /cg/$1)$/\1/p")
	statistics vflash0 | sed -n "s/^flow$flow\.bytes //p"
}
weigh a 100
weigh b 300
for group in a b; do
	begin load-$group in_cgroup $group fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=16k --ioengine=libaio \
		--iodepth=32 --norandommap $FOREVER
done
sleep 1
a=$(had a) b=$(had b)
sleep 4
a=$(($(had a) - a)) b=$(($(had b) - b))
echo "a $a bytes, b $b bytes"
[ $((b * 100)) -gt $((a * 285)) ] && [ $((b * 100)) -lt $((a * 315)) ] || fail "not 1 : 3"
stop load-a load-b
account vflash0
scheduler vflash0 none
rmmod mqfq || fail "mqfq does not unload"
rmmod blkcg_policies || fail "the other policies cannot be unregistered"
load_module mqfq
expect "with room" "$(cat /cg/a/io.mqfq.weight)" 100
[ -e /cg/io.mqfq.stat ] || fail "with room there is no io.mqfq.stat"
rmmod mqfq || fail "mqfq does not unload"
rmdir /cg/a /cg/b
echo -io > /cg/cgroup.subtree_control
