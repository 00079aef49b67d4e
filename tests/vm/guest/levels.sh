# SPDX-License-Identifier: GPL-2.0-only
# Tests that each of the 65536 I/O priorities puts a request on its level, for each way to submit and insert it.
null irqmode=0 queue_mode=2
attach nullb0
echo 2 > /sys/block/nullb0/queue/nomerges
rt() { # LEVEL COMMAND...: runs it as a task of this real-time level
	level=$1
	shift
	ionice -c 1 -n $level "$@"
}
levels nullb0 aio 8 || fail "aio"
levels nullb0 uring 8 || fail "io_uring"
levels nullb0 worker 8 61 || fail "io_uring's workers"
levels nullb0 sqpoll 8 31 || fail "io_uring's polling thread"
rt 3 levels nullb0 aio 3 7 || fail "aio of a task of level 3"
rt 0 levels nullb0 uring 0 7 || fail "io_uring of a task of level 0"
ionice -c 3 levels nullb0 aio 8 31 || fail "aio of an idle task"
levels nullb0 aio 8 31 nobody || fail "aio without a right to the real-time class"
levels nullb0 uring 8 31 nobody || fail "io_uring without a right to the real-time class"
account nullb0
