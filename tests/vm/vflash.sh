# SPDX-License-Identifier: GPL-2.0-only
# Tests the block device vflash0 on a stock kernel: bad parameters, data, injected faults, removal. Every step says what it
# tests; the first failure ends the job.
schedulers="none mq-deadline"

step "bad parameters are refused in one sentence"
refused dies=0 "dies=0: expected 1 to 255 (dies)"
refused dies=256 "dies=256: expected 1 to 255 (dies)"
refused queues=65 "queues=65: expected 1 to 64 (queues)"
refused fetch_kib=3 "fetch_kib=3: expected a power of two, at least unit_kib"
refused buffer_kib=8 "buffer_kib=8: expected at least program_kib"
refused dilation=0 "dilation=0: expected 1 to 10000 (factor)"
refused depth=0 "depth=0: expected 1 to 10240"
refused attachment=4 "attachment=4: expected 0 to 3"
refused write_cache=3 "write_cache=3: expected 0 to 2"
refused timeout_ms=0 "timeout_ms=0: expected 1 to 3600000"
for wrong in dies=abc dies=-1 no_such=1 memory_backed=2; do
	insmod $EXTRA/vflash.ko $wrong 2> /dev/null && grep -q vflash /proc/modules &&
		[ $wrong != no_such=1 ] && fail "$wrong was accepted"
	[ ! -d /sys/module/vflash ] || unload # the kernel only warns about unknown names
done

step "the disk and its queue have the values of the parameters"
load capacity_mib=128 max_kib=256 write_cache=2 slots=7 dilation=1000 # slow enough to be kept busy by any host
[ "$(cat /sys/block/vflash0/size)" = 262144 ] || fail "size"
[ "$(cat $QUEUE/max_hw_sectors_kb)" = 256 ] || fail "max_hw_sectors_kb"
[ "$(cat $QUEUE/rotational)" = 0 ] || fail "rotational"
[ "$(cat $QUEUE/fua)" = 1 ] || fail "fua"
[ "$(cat $QUEUE/write_cache)" = "write back" ] || fail "write_cache"
[ "$(ls /sys/block/vflash0/mq | wc -l)" = $CPUS ] || fail "queues"
$FIO --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 --number_ios=600 > /tmp/out || fail "$(cat /tmp/out)"
[ "$(counted slots_used_max)" = 7 ] || fail "slots: $(counted slots_used_max)"
[ "$(counted commands)" -ge 600 ] || fail "commands: $(counted commands)"
[ "$(counted programs)" -gt 10 ] || fail "programs: $(counted programs)"
programs=$(counted programs)
$FIO --name=w --rw=write --bs=4k --ioengine=psync --sync=dsync --number_ios=10 > /tmp/out || fail "FUA: $(cat /tmp/out)"
[ "$(counted programs)" = $((programs + 10)) ] || fail "a FUA write is not programmed at once"
unload

step "data stay right with all faults at once"
load memory_backed=1 capacity_mib=192 timeout_ms=100 depth=32 slots=16
cat > /tmp/verify.fio <<- JOBS
	[global]
	filename=$DISK
	direct=1
	verify=crc32c
	verify_fatal=1
	verify_backlog=64
	rw=randwrite
	[large]
	bsrange=4k-512k
	ioengine=libaio
	iodepth=16
	size=16m
	[ring]
	bsrange=4k-64k
	ioengine=io_uring
	iodepth=16
	offset=64m
	size=5m
	[sectors]
	bsrange=512-8k
	blockalign=512
	ioengine=libaio
	iodepth=8
	offset=96m
	size=1m
	[sync]
	direct=0
	bsrange=4k-64k
	ioengine=psync
	fsync=8
	offset=128m
	size=2m
JOBS
for scheduler in $schedulers; do
	for dontprep in 0 1; do
		echo $scheduler > $QUEUE/scheduler
		verified "$scheduler, dontprep $dontprep" lose_every=499 dontprep=$dontprep
	done
done

step "errors and time-outs are reported, and end with the fault"
echo none > $QUEUE/scheduler
fault error_every=1
dd if=$DISK of=/dev/null bs=4k count=1 iflag=direct 2> /tmp/out && fail "no error"
grep -q "Input/output error\|I/O error" /tmp/out || fail "$(cat /tmp/out)"
fault error_every=0 lose_every=1 timeout_requeue=0
dd if=$DISK of=/dev/null bs=4k count=1 iflag=direct 2> /tmp/out && fail "no time-out"
fault lose_every=0
dd if=$DISK of=/dev/null bs=4k count=1 iflag=direct 2> /tmp/out || fail "$(cat /tmp/out)"

step "discarded or zeroed sectors read as zeroes, and others stay"
dd if=/dev/urandom of=/tmp/before bs=1M count=8 2> /dev/null
dd if=/tmp/before of=$DISK bs=1M oflag=direct 2> /dev/null
# by path: busybox has a smaller blkdiscard
blkdiscard -o 8192 -l 8192 $DISK || fail "discard of pages"
blkdiscard -o 1048576 -l 2097152 $DISK || fail "discard of many"
/bin/blkdiscard -z -o 512 -l 1024 $DISK || fail "zeroes in a part of a page"
/bin/blkdiscard -z -o 40448 -l 9216 $DISK || fail "zeroes across pages"
/bin/blkdiscard -z -o 4194816 -l 1048064 $DISK || fail "zeroes up to a page"
for hole in 16:16 2048:4096 1:2 79:18 8193:2047; do
	dd if=/dev/zero of=/tmp/before bs=512 seek=${hole%:*} count=${hole#*:} conv=notrunc 2> /dev/null
done
echo 3 > /proc/sys/vm/drop_caches
dd if=$DISK of=/tmp/after bs=1M count=8 iflag=direct 2> /dev/null
cmp /tmp/before /tmp/after || fail "data differ"
reads=$(counted die_reads)
dd if=$DISK of=/dev/null bs=64k skip=16 count=32 iflag=direct 2> /dev/null
[ "$(counted die_reads)" = "$reads" ] || fail "a trimmed block is read from a die"
unload

step "a file system with a journal, with write caches of all kinds"
modprobe ext4
mkdir -p /mnt
for cache in 0 1 2; do
	load memory_backed=1 capacity_mib=96 write_cache=$cache
	/bin/mke2fs -q -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 $DISK 2> /tmp/out || fail "$(cat /tmp/out)"
	mount -t ext4 $DISK /mnt || fail "mount"
	for i in 1 2 3 4 5 6 7 8; do
		dd if=/dev/urandom of=/mnt/$i bs=64k count=$((4 * i)) conv=fsync 2> /dev/null || fail "write $i"
	done
	rm /mnt/2 /mnt/5
	fstrim /mnt || fail "fstrim"
	md5sum /mnt/[0-9] > /tmp/sums
	umount /mnt
	echo 3 > /proc/sys/vm/drop_caches
	mount -t ext4 $DISK /mnt || fail "mount again"
	md5sum -c /tmp/sums > /tmp/out || fail "$(cat /tmp/out)"
	umount /mnt
	unload
done

step "it is not unloaded while it is in use, and can be unloaded once the user has died"
load
for again in 1 2 3; do
	under_load 500
	rmmod vflash 2> /dev/null && fail "unloaded under load"
	kill -9 $(pidof fio)
	await "fio does not end" no_fio
	unload
	load
done

step "it is unplugged under load"
for scheduler in $schedulers; do
	echo $scheduler > $QUEUE/scheduler
	fault requeue_every=5 busy_every=9
	under_load 500
	echo 1 > $PARAMETERS/remove
	[ ! -e /sys/block/vflash0 ] || fail "still there"
	wait
	echo 1 > $PARAMETERS/remove || fail "a second time"
	unload
	load
done
unload
