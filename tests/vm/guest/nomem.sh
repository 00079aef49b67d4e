# SPDX-License-Identifier: GPL-2.0-only
# Tests that whichever allocation fails while k2 is set, changed, read or unloaded, the call fails or has done its work, nothing is
# left half done, and the disk goes on. Not while it is loaded: the kernel's own code for modules and their tracepoints warns then.
# Needs a kernel with fault injection.
needs_injection
vflash
Q=/sys/block/vflash0/queue
is_counted() { # k2 has statistics of the disk
	[ "$(counted vflash0 inflight_max)" != 0 ]
}
works() { # the disk takes a request, whatever its scheduler is
	dd if=/dev/vflash0 of=/dev/null bs=64k count=1 iflag=direct 2> /dev/null || fail "the disk does not read after $RESULT"
}

insmod $EXTRA/k2.ko
other=none
set_or_not() { # k2 with all that belongs to it, or another scheduler and nothing of k2
	works
	case $(cat $Q/scheduler) in
	*'[k2]'*)
		[ "$RESULT" = ok ] || fail "k2 is set in spite of $RESULT"
		is_counted || fail "k2 is set, and there are no statistics"
		;;
	*)
		[ "$RESULT" != ok ] || fail "k2 is not set: $(cat $Q/scheduler)"
		! is_counted || fail "statistics, and k2 is not set"
		;;
	esac
	scheduler vflash0 $other
}
for other in none mq-deadline; do
	each_allocation set_or_not write $Q/scheduler k2
done
begin reads fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 --norandommap \
	--time_based --runtime=3600
each_allocation set_or_not write $Q/scheduler k2
stop reads

k2 vflash0
left() { # or not: it is k2 still
	works
	k2 vflash0
}
each_allocation left write $Q/scheduler none
each_allocation left write $Q/scheduler mq-deadline
each_allocation works write $Q/nr_requests 64
each_allocation works write $Q/nr_requests 256
for knob in $Q/iosched/*; do
	before=$(cat $knob)
	each_allocation works write $knob "$before"
	expect "$knob" "$(cat $knob)" "$before"
	each_allocation works read $knob
done
each_allocation works write $Q/iosched/split_kib 16
for file in $(find /proc/tailgate* -type f); do
	each_allocation works read $file
done
scheduler vflash0 none
unloaded() {
	case $RESULT in ok) [ ! -d /sys/module/k2 ] || fail "k2 has not gone" ;; esac
	[ -d /sys/module/k2 ] || insmod $EXTRA/k2.ko || fail "k2 does not load again"
}
each_allocation unloaded unload k2
