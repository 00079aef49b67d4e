# SPDX-License-Identifier: GPL-2.0-only
# Tests that polled requests hold up nobody. A task submits more of them than the scheduler's bound, and does not poll: they must end
# all the same, so that another task can read. When the first task polls, it must find the results. null_blk lets a request fail that
# stays polled and that nobody polls for 5 s.
null irqmode=2 completion_nsec=20000 queue_mode=2 poll_queues=1
attach nullb0 8
for step in 2 1; do # 1: adjacent reads, which a plug may merge
	rm -f /tmp/poll
	begin poller polled nullb0 32 $step /tmp/poll
	await "the polled reads are not submitted" grep -q submitted /tmp/poller.out
	load nullb0 --name=other --rw=randread --bs=4k --ioengine=psync --number_ios=100
	account nullb0
	touch /tmp/poll
	end poller
	cat /tmp/poller.out
done
