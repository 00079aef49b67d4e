# SPDX-License-Identifier: GPL-2.0-only
# Tests each single failing allocation while a scheduler is set, changed, read or unloaded: the call fails without effect or succeeds
# completely, and the disk still works. Loading is not tested, as the kernel's own code for modules and tracepoints warns then.
# Needs a kernel with fault injection.
needs_injection
vflash
Q=/sys/block/vflash0/queue
is_counted() { # does the disk have statistics?
	[ -n "$(statistics vflash0)" ]
}
works() { # checks that the disk reads, with any scheduler
	dd if=/dev/vflash0 of=/dev/null bs=64k count=1 iflag=direct 2> /dev/null || fail "the disk does not read after $RESULT"
}

references() { # MODULE
	cat /sys/module/$1/refcnt 2> /dev/null || echo 0
}
kyber_or_not() { # for comparison: what happens with one of Linux' own schedulers
	works
	scheduler vflash0 none
}
load_module $MODULE
other=none
set_or_not() { # checks that the scheduler is set completely, or not at all
	works
	case $(cat $Q/scheduler) in
	*"[$SCHEDULER]"*)
		[ "$RESULT" = ok ] || fail "it is set in spite of $RESULT"
		is_counted || fail "it is set, and there are no statistics"
		;;
	*)
		[ "$RESULT" != ok ] || fail "it is not set: $(cat $Q/scheduler)"
		! is_counted || fail "statistics, and it is not set"
		;;
	esac
	scheduler vflash0 $other
}
# Linux 6.1 leaks a reference to the scheduler's module if an allocation fails before it calls the scheduler (blk_mq_init_sched()). In
# the second run, without allocations that are made only once, our scheduler loses as many as kyber.
kyber_has=$(references kyber_iosched)
each_allocation kyber_or_not write $Q/scheduler kyber
lost=$(($(references kyber_iosched) - kyber_has))
each_allocation set_or_not write $Q/scheduler $SCHEDULER
before=$(references $MODULE)
other=mq-deadline
each_allocation set_or_not write $Q/scheduler $SCHEDULER
ours=$(($(references $MODULE) - before))
echo "references lost: kyber $lost, $MODULE $before and then $ours"
[ $ours -le $((lost + 2)) ] || fail "$MODULE loses more references than kyber"
begin reads fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 --norandommap \
	--time_based --runtime=3600
each_allocation set_or_not write $Q/scheduler $SCHEDULER
stop reads

attach vflash0
left() { # switched off, or still set: it can be set again
	works
	attach vflash0
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
[ $SCHEDULER != k2 ] || each_allocation works write $Q/iosched/split_kib 16
for file in $(find /proc/tailgate* -type f); do
	each_allocation works read $file
done
scheduler vflash0 none
unloaded() {
	case $RESULT in ok) [ ! -d /sys/module/$MODULE ] || fail "$MODULE was not unloaded" ;; esac
	load_module $MODULE
}
if [ $lost = 0 ]; then
	each_allocation unloaded unload $MODULE
else
	echo "no scheduler can be unloaded any more: kyber has lost $lost references, too"
	echo $MODULE >> /tmp/loaded_for_ever
fi
