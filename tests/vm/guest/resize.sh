# SPDX-License-Identifier: GPL-2.0-only
# Tests that the number of a drive's hardware queues can change while the scheduler is set and the statistics are read, and that
# no data are lost and no memory is leaked or overwritten. The block layer switches the scheduler off, replaces the hardware queues,
# and switches it on again. No lock covers all three steps, so another scheduler may be set in between. Needs slub_debug=FZP on the
# kernel command line, which detects memory that is overwritten.
grep -q 'slub_debug=FZP' /proc/cmdline || skip "this machine does not check memory"
modprobe null_blk nr_devices=0 || fail "null_blk does not load"
load_module $MODULE
forever() { # NAME COMMANDS: repeats them until /tmp/NAME.end exists
	rm -f /tmp/$1.end
	begin $1 sh -c "until [ -e /tmp/$1.end ]; do $2; done"
}
no_more() { # NAME
	touch /tmp/$1.end
	end $1
}
set_scheduler() { # a command of its own, for `begin`
	echo $SCHEDULER > $Q/scheduler
}
without_io() { # DISK FILE: where its number of hardware queues is set
	# The scheduler is set beside the change, and is switched off after it. Beside it, the kernel's own schedulers do not survive
	# being switched off: both kernels then read an array of tags that was freed (KASAN reports it, with mq-deadline and bfq).
	Q=/sys/block/$1/queue
	forever reads "cat /proc/tailgate-$SCHEDULER > /dev/null"
	for round in $(seq 25); do
		begin set set_scheduler
		echo 2 > $2 || fail "$1 does not take two hardware queues"
		end set
		echo none > $Q/scheduler
		begin set set_scheduler
		echo 1 > $2 || fail "$1 does not take one hardware queue"
		end set
		echo none > $Q/scheduler
	done
	no_more reads
	expect "lines of statistics without a disk" $(wc -l < /proc/tailgate-$SCHEDULER) 1
}
with_io() { # DISK FILE: but without switching schedulers: that may fail in the kernel's own schedulers
	scheduler $1 $SCHEDULER
	begin io fio $QUIET --filename=/dev/$1 --name=w --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --numjobs=2 \
		--size=16m --offset_increment=16m $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
	forever reads "cat /proc/tailgate-$SCHEDULER > /dev/null"
	for round in 1 2 3 4 5; do
		for queues in 2 1; do
			echo $queues > $2
			expect "hardware queues" "$(cat $2)" $queues
			expect "the scheduler is back" "$(sed 's/.*\[\(.*\)\].*/\1/' /sys/block/$1/queue/scheduler)" $SCHEDULER
			progress $1
		done
	done
	no_more reads
	stop io
	unchanged io
	account $1
	scheduler $1 none
}

CONFIG=/sys/kernel/config/nullb
grep -q ' /sys/kernel/config ' /proc/mounts || mount -t configfs none /sys/kernel/config || fail "no configfs"
mkdir $CONFIG/resized || fail "no disk from configfs"
for setting in irqmode=0 queue_mode=2 submit_queues=1 size=64 memory_backed=1 power=1; do
	echo ${setting#*=} > $CONFIG/resized/${setting%%=*} || fail "null_blk takes no $setting"
done
DISK=resized # older kernels number it
[ -b /dev/$DISK ] || DISK=nullb$(cat $CONFIG/resized/index)
await "no disk" test -b /dev/$DISK
without_io $DISK $CONFIG/resized/submit_queues
with_io $DISK $CONFIG/resized/submit_queues
vflash memory_backed=1 queues=2
without_io vflash0 $FAULTS/hw_queues
with_io vflash0 $FAULTS/hw_queues
