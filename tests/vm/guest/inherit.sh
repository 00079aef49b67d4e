# SPDX-License-Identifier: GPL-2.0-only
# Tests that requests get their task's I/O class: set by ionice, inherited, or derived from SCHED_FIFO; that a returned request keeps
# its level; and that writeback of a real-time task's buffered data is not real-time.
vflash memory_backed=1
attach vflash0 2
on_level() { # LEVEL COMMAND...: checks that all requests of the command are inserted on this level
	level=$1
	all=$(counted vflash0 inserted) on=$(counted vflash0 level$level.inserted)
	shift
	"$@" || fail "$*"
	idle vflash0 || account vflash0
	all=$(($(counted vflash0 inserted) - all)) on=$(($(counted vflash0 level$level.inserted) - on))
	echo "level $level: $on of $all: $*"
	[ $all -ge 16 ] || fail "only $all inserted"
	expect "on level $level" $on $all
}
READ="dd if=/dev/vflash0 of=/dev/null bs=4k count=16 iflag=direct"
RANDOM_READ="fio $QUIET --filename=/dev/vflash0 --rw=randread --bs=4k --number_ios=200 --output=/dev/null"
on_level 8 $READ
on_level 5 ionice -c 1 -n 5 $READ
on_level 0 ionice -c 1 -n 0 sh -c "sh -c '$READ'"
on_level 8 ionice -c 2 -n 0 $READ
on_level 8 ionice -c 3 $READ
on_level 4 chrt -f 10 $READ
on_level 4 chrt -r 10 $RANDOM_READ --name=r --ioengine=libaio --iodepth=8
on_level 8 chrt -f 10 ionice -c 2 -n 0 $READ
on_level 2 $RANDOM_READ --name=r --ioengine=psync --prioclass=1 --prio=2
on_level 7 $RANDOM_READ --name=r --ioengine=io_uring --iodepth=32 --iodepth_batch=16 --prioclass=1 --prio=7
fault requeue_every=3
on_level 6 $RANDOM_READ --name=r --ioengine=libaio --iodepth=32 --prioclass=1 --prio=6
fault dontprep=1 busy_every=5
on_level 1 $RANDOM_READ --name=r --ioengine=libaio --iodepth=32 --prioclass=1 --prio=1
no_faults
echo 2 > /sys/block/vflash0/queue/nomerges
exec 3< /dev/vflash0 # keeps it open: the last close would write back in the task
buffered() {
	ionice -c 1 -n 1 dd if=/dev/zero of=/dev/vflash0 bs=4k count=512 2> /dev/null
	sync
}
on_level 8 buffered
exec 3<&-
account vflash0
