# SPDX-License-Identifier: GPL-2.0-only
# Tests a scheduler together with other features of the block layer: splitting at max_sectors_kb, nomerges, polling, RWF_NOWAIT,
# write-back throttling, few tags.
vflash memory_backed=1 max_kib=512
attach vflash0 4
bound vflash0 4
Q=/sys/block/vflash0/queue
VERIFY="--verify=crc32c --do_verify=1 --verify_fatal=1"
for merges in 0 1 2; do
	echo $merges > $Q/nomerges
	for kib in 4 64 512; do
		echo $kib > $Q/max_sectors_kb
		load vflash0 $VERIFY --size=1m \
			--name=large --rw=write --bs=512k --ioengine=psync \
			--name=mixed --offset=1m --rw=randwrite --bsrange=4k-256k --ioengine=io_uring --iodepth=8
	done
done
account vflash0
echo 0 > $Q/nomerges

load vflash0 --rw=randread --bs=4k --number_ios=500 --iodepth=16 --continue_on_error=all --ignore_error=EAGAIN \
	--name=uring --ioengine=io_uring --nowait=1 --name=aio --ioengine=libaio --nowait=1 \
	--name=sync --ioengine=pvsync2 --nowait=1
account vflash0
[ ! -e $Q/wbt_lat_usec ] || {
	echo 500 > $Q/wbt_lat_usec
	begin reads fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=4k --ioengine=psync --time_based --runtime=2
	load vflash0 --name=b --direct=0 --rw=write --bs=64k --size=8m --fsync=32 --ioengine=psync $VERIFY
	end reads
	echo 0 > $Q/wbt_lat_usec
	account vflash0
}
for tags in 8 4 2; do
	echo $tags > $Q/nr_requests || fail "nr_requests $tags"
	load vflash0 \
		--name=w --rw=randwrite --bsrange=4k-512k --size=1m --ioengine=libaio --iodepth=16 --numjobs=2 \
		--offset_increment=4m $VERIFY \
		--name=rt --prioclass=1 --prio=0 --rw=randread --bs=4k --ioengine=psync --number_ios=50 --verify=0
done
bound_kept
account vflash0
rmmod vflash

null irqmode=2 completion_nsec=20000 queue_mode=2 poll_queues=1
attach nullb0 4
[ $SCHEDULER != k2 ] || echo 16 > /sys/block/nullb0/queue/iosched/split_kib
bound nullb0 4
load nullb0 \
	--name=small --rw=randread --bs=4k --ioengine=io_uring --hipri=1 --iodepth=16 --numjobs=2 --number_ios=2000 \
	--name=large --rw=randwrite --bs=64k --ioengine=io_uring --hipri=1 --iodepth=4 --number_ios=50 \
	--name=sync --rw=randread --bs=4k --ioengine=pvsync2 --hipri=1 --prioclass=1 --prio=2 --number_ios=1000
bound_kept
account nullb0
polled_pieces=$(counted nullb0 split_pieces)
rmmod null_blk
[ $SCHEDULER = k2 ] || exit 0
[ $polled_pieces -ge 200 ] || fail "polled requests are not split"

# Writes to a zone must keep their order, so they are not split. Linux 6.1 refuses schedulers that do not declare to keep it.
null zoned=1 zone_size=16
if echo k2 2> /dev/null > /sys/block/nullb0/queue/scheduler; then
	echo 16 > /sys/block/nullb0/queue/iosched/split_kib
	load nullb0 --name=w --zonemode=zbd --rw=write --bs=128k --number_ios=8 --ioengine=psync
	expect "writes to a zone that were split" "$(counted nullb0 split_requests)" 0
	load nullb0 --name=r --rw=read --bs=128k --number_ios=8 --ioengine=psync --size=1m
	expect "pieces of reads" "$(counted nullb0 split_pieces)" 64
	account nullb0
fi
