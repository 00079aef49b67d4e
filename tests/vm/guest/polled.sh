# SPDX-License-Identifier: GPL-2.0-only
# Tests that polled requests do not keep the drive from others. One task submits more polled reads than the scheduler's bound, and does
# not poll. The reads must complete all the same: only then is there room for the reads of a second task. When the first task polls at
# last, its reads must have succeeded. (If the scheduler left them to be polled, null_blk would fail them after 5 s.)
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
