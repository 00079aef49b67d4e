# SPDX-License-Identifier: GPL-2.0-only
# Tests that counters stay exact when pieces of a request fail at submission, or the driver loses requests, and that data are right once
# nothing fails any more. Needs a kernel with fault injection.
needs_injection
vflash memory_backed=1
attach vflash0 8
echo 16 > /sys/block/vflash0/queue/iosched/split_kib
bound vflash0 8
ANYHOW="--continue_on_error=all --ignore_error=EIO:110,EIO:110"
LOAD="--rw=randrw --bsrange=4k-512k --size=16m --loops=4 --ioengine=libaio --iodepth=16"
fail_submissions vflash0 10
load vflash0 --name=failing $LOAD $ANYHOW
echo "$(injected fail_make_request) submissions failed"
[ $(injected fail_make_request) -gt 50 ] || fail "too few submissions failed"
fail_no_more
account vflash0
fail_submissions vflash0 10
fail_allocations 20 'bio-*' # pieces without memory, too
load vflash0 --name=failing $LOAD $ANYHOW
echo "$(injected fail_make_request) submissions, $(injected failslab) allocations failed"
fail_no_more
account vflash0
load vflash0 --name=again --rw=randwrite --bsrange=4k-512k --size=16m --ioengine=libaio --iodepth=16 --verify=crc32c \
	--do_verify=1 --verify_fatal=1
bound_kept
account vflash0
rmmod vflash

null irqmode=2 completion_nsec=20000 queue_mode=2
attach nullb0 8
echo 200 > /sys/block/nullb0/queue/io_timeout
bound nullb0 8
fail_completions nullb0 1
load nullb0 --name=forgotten --rw=randread --bs=4k --number_ios=3000 --ioengine=libaio --iodepth=16 $ANYHOW
echo "$(injected fail_io_timeout) completions were lost"
[ $(injected fail_io_timeout) -gt 10 ] || fail "too few completions were lost"
fail_no_more
load nullb0 --name=again --rw=randread --bs=4k --number_ios=1000 --ioengine=libaio --iodepth=16
bound_kept
account nullb0
