# SPDX-License-Identifier: GPL-2.0-only
# Tests that NVMe passthrough commands that a task submits in a batch do not count as requests in the drive, where each takes two seconds.
# Kernels before 6.4 give such commands to the scheduler.
null irqmode=2 completion_nsec=2000000000
nvme tcp
await "no character device" test -c /dev/ng0n1
attach $NVME_PATH 1
await "the first reads do not end" idle $NVME_PATH
before=$(counted $NVME_PATH inserted)
begin commands fio $QUIET --filename=/dev/ng0n1 --direct=0 --name=c --rw=randread --bs=4k --ioengine=io_uring_cmd --cmd_type=nvme \
	--iodepth=8 --iodepth_batch_submit=8 --number_ios=8
await "the commands do not go to the drive" more_than $NVME_PATH $((before + 7))
expect "commands that count" $(counted $NVME_PATH inflight) 0
end commands
account $NVME_PATH
expect "commands that the scheduler was given" $(($(counted $NVME_PATH inserted) - before)) 8
