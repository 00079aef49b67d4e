# SPDX-License-Identifier: GPL-2.0-only
# Tests that each request is counted in once and out once, whatever the driver does with it, and that requests in flight never exceed
# the bound. The part `returned` counts requests that are inserted again.
vflash memory_backed=1 timeout_ms=100 read_ns=500000
attach vflash0 8
echo 2 > /sys/block/vflash0/queue/nomerges
IOS=600
reads() { # WHAT FIO_OPTION...
	what=$1
	shift
	at_first=$(($(counted vflash0 inserted) - $(completed vflash0)))
	load vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --number_ios=$IOS "$@"
	no_faults
	account vflash0
	AGAIN=$(($(counted vflash0 inserted) - $(completed vflash0) - at_first))
	echo "$what: inserted again: $AGAIN"
}
bound vflash0 8
reads normal
expect normal $AGAIN 0

ANYHOW="--continue_on_error=all --ignore_error=EIO:110"
fault error_every=7
reads "ended with an error" $ANYHOW
expect error $AGAIN 0
fault lose_every=97
reads "lost, timed out" $ANYHOW
expect "time-out" $AGAIN 0
fault busy_every=7
reads "driver out of memory"
expect busy $AGAIN 0
fault devbusy_every=7
reads "driver busy until a completion"
expect devbusy $AGAIN 0
fault requeue_every=7 dontprep=1
reads "returned, issued again by the block layer"
expect dontprep $AGAIN 0

fault requeue_every=11 busy_every=13 devbusy_every=17 lose_every=199 error_every=23 timeout_requeue=1
reads "all faults" $ANYHOW
fault requeue_every=11 dontprep=1 busy_every=13 devbusy_every=17 lose_every=199 timeout_requeue=1
reads "all faults, with dontprep" --ioengine=io_uring --numjobs=2 --prioclass=1 --prio=3
bound_kept
