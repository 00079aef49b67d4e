# SPDX-License-Identifier: GPL-2.0-only
# Tests that raising or lowering the bounds of a saturated drive never stalls it, and that the drive fills to the new bound; also
# when no more requests are submitted, so that only completions can run the queue. Time is virtual.
vflash slots=256 depth=256 read_ns=$((2000000 * SLOW))
attach vflash0 1
echo 256 > /sys/block/vflash0/queue/nr_requests
BOUND=$(bound_knob vflash0)
begin load fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --numjobs=4 \
	--norandommap $FOREVER
progress vflash0
filled() { # BOUND: are this many in flight? The background may hold 96 tags, and asks for 128
	[ $(counted vflash0 inflight) = $1 ]
}
for bound in 1 64 1 8 2 3 2 64 63 64 1 2 32 31 1 64; do
	echo $bound > $BOUND
	progress vflash0
	await "the drive is not filled to $bound" filled $bound
done
for round in $(seq 100); do # faster than a request ends
	random 64
	echo $((RANDOM_IS + 1)) > $BOUND
done
progress vflash0
BYTES=/sys/block/vflash0/queue/iosched/inflight_kib_max
[ ! -e $BYTES ] || {
	echo 65535 > $BOUND
	for requests in 16 1 8 2 64; do # of 4 KiB
		echo $((4 * requests)) > $BYTES
		progress vflash0
		await "the drive is not filled to $requests requests" filled $requests
	done
	for kib in 1 3; do # less than a request
		echo $kib > $BYTES
		progress vflash0
		await "not one request goes alone" filled 1
	done
	for round in $(seq 100); do
		random 128
		echo $RANDOM_IS > $BYTES
	done
	progress vflash0
	echo 0 > $BYTES
}
echo 64 > $BOUND
await "the drive is not filled again" filled 64
progress vflash0
for other in 64 1023 8; do
	echo $other > /sys/block/vflash0/queue/nr_requests
	progress vflash0
done
[ $SCHEDULER != k2 ] || for share in 0 90 25; do
	echo $share > /sys/block/vflash0/queue/iosched/rt_tags
	progress vflash0
done
stop load
account vflash0

all_queued() { # are all reads of `order` queued? The driver refuses all until the bound has changed
	[ $(counted vflash0 inserted) -ge $((before + 48 * CPUS)) ]
}
echo 1023 > /sys/block/vflash0/queue/nr_requests
for change in "1 64" "64 1" "1 2" "2 3" "3 1" "8 7" "1 65535"; do
	echo ${change% *} > $BOUND
	before=$(counted vflash0 inserted)
	begin batch order vflash0 $SEED $CPUS hold
	await "the reads are not queued" all_queued
	echo ${change#* } > $BOUND
	fault busy_every=0
	await "the reads do not end" ended batch
	account vflash0
done
