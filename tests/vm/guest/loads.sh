# SPDX-License-Identifier: GPL-2.0-only
# Tests that k2 is loaded, set, unset and unloaded under load, on two disks at once, and refused where it must be.
vflash
null irqmode=2 completion_nsec=20000 queue_mode=2
for disk in vflash0 nullb0; do
	begin $disk fio $QUIET --filename=/dev/$disk --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --norandommap \
		$FOREVER
done
disks() { # those that the statistics show
	awk 'NR > 1 && !seen[$1]++ { printf "%s ", $1 }' /proc/tailgate-k2
}
for round in 1 2 3 4 5 6 7 8 9 10; do
	insmod $EXTRA/k2.ko || fail "k2 does not load"
	expect "disks" "$(disks)" ""
	scheduler vflash0 k2
	expect "disks" "$(disks)" "vflash0 "
	scheduler nullb0 k2
	expect "disks" "$(disks)" "vflash0 nullb0 "
	echo 1 > /sys/block/vflash0/queue/iosched/inflight_max
	progress vflash0
	progress nullb0
	expect "a disk's bound is its own" "$(cat /sys/block/nullb0/queue/iosched/inflight_max)" 32
	rmmod k2 2> /dev/null && fail "k2 unloads while disks use it"
	insmod $EXTRA/k2.ko 2> /dev/null && fail "k2 loads twice"
	scheduler vflash0 none
	expect "disks" "$(disks)" "nullb0 "
	rmmod k2 2> /dev/null && fail "k2 unloads while a disk uses it"
	scheduler nullb0 mq-deadline
	rmmod k2 || fail "k2 does not unload"
	[ ! -e /proc/tailgate-k2 ] || fail "the statistics stay"
done
stop vflash0 nullb0
insmod $EXTRA/k2.ko
scheduler vflash0 k2
exec 3< /proc/tailgate-k2 # held open while the scheduler goes
head -1 <&3 > /dev/null
scheduler vflash0 none
exec 3<&-
rmmod k2 || fail "k2 does not unload"
