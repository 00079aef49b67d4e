# SPDX-License-Identifier: GPL-2.0-only
# Tests that a module can be loaded and unloaded, and its scheduler set and unset, under load on two disks, and that each is refused
# when it must be.
vflash
null irqmode=2 completion_nsec=20000 queue_mode=2
for disk in vflash0 nullb0; do
	begin $disk fio $QUIET --filename=/dev/$disk --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --norandommap \
		$FOREVER
done
disks() { # prints the disks in the statistics
	awk 'NR > 1 && !seen[$1]++ { printf "%s ", $1 }' /proc/tailgate-$SCHEDULER
}
for round in 1 2 3 4 5 6 7 8 9 10; do
	insmod $EXTRA/$MODULE.ko || fail "$MODULE does not load"
	expect "disks" "$(disks)" ""
	scheduler vflash0 $SCHEDULER
	expect "disks" "$(disks)" "vflash0 "
	scheduler nullb0 $SCHEDULER
	expect "disks" "$(disks)" "vflash0 nullb0 "
	before=$(cat $(bound_knob nullb0))
	set_bound vflash0 1
	progress vflash0
	progress nullb0
	expect "a disk's bound is its own" "$(cat $(bound_knob nullb0))" $before
	rmmod $MODULE 2> /dev/null && fail "$MODULE unloads while disks use it"
	insmod $EXTRA/$MODULE.ko 2> /dev/null && fail "$MODULE loads twice"
	scheduler vflash0 none
	expect "disks" "$(disks)" "nullb0 "
	rmmod $MODULE 2> /dev/null && fail "$MODULE unloads while a disk uses it"
	scheduler nullb0 mq-deadline
	rmmod $MODULE || fail "$MODULE does not unload"
	[ ! -e /proc/tailgate-$SCHEDULER ] || fail "the statistics exist after unloading"
done
stop vflash0 nullb0
insmod $EXTRA/$MODULE.ko
scheduler vflash0 $SCHEDULER
exec 3< /proc/tailgate-$SCHEDULER # open while the scheduler is switched off
head -1 <&3 > /dev/null
scheduler vflash0 none
exec 3<&-
rmmod $MODULE || fail "$MODULE does not unload"
