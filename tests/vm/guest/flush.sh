# SPDX-License-Identifier: GPL-2.0-only
# Tests that counters stay exact with FUA writes, flushes and a journalling file system, with each kind of write cache, with and
# without splitting, also while the driver returns and refuses requests.
cat > /tmp/flush.fio << 'JOBS'
[global]
rw=randwrite
bs=4k
size=64k
ioengine=psync
[fua]
direct=1
sync=dsync
bs=32k
[flushes]
direct=1
offset=1m
fdatasync=1
prioclass=1
prio=1
[buffered]
offset=2m
size=256k
bsrange=4k-32k
fsync=4
verify=crc32c
verify_fatal=1
JOBS
# FIO_OPTION: the place; for k2 with a write-back cache without faults and with each kind of fault, else with all faults at once
writes() {
	troubles=" ,requeue_every=3,requeue_every=3 dontprep=1,busy_every=3 devbusy_every=5"
	[ $SCHEDULER = k2 ] && [ $cache = 1 ] || troubles="requeue_every=3 dontprep=1 busy_every=4 devbusy_every=5"
	IFS=,
	set -- "$1" $troubles
	unset IFS
	where=$1
	shift
	for faults; do
		no_faults
		fault $faults
		begin flush fio --eta=never $where /tmp/flush.fio
		end flush
		echo "$where, $faults"
	done
	no_faults
}
for cache in 0 1 2; do
	vflash memory_backed=1 write_cache=$cache
	attach vflash0 4
	[ $cache = 0 ] || [ $SCHEDULER != k2 ] || echo 4 > /sys/block/vflash0/queue/iosched/split_kib
	bound vflash0 4
	[ $cache = 0 ] || MOST_BEFORE= # flushes bypass the scheduler, and are in the drive beside the requests that it dispatched
	writes --filename=/dev/vflash0
	/bin/mke2fs -q -t ext4 -J size=4 -E nodiscard,lazy_itable_init=1 /dev/vflash0 32m || fail "mke2fs"
	mkdir -p /mnt
	mount -t ext4 /dev/vflash0 /mnt || fail "mount"
	writes --directory=/mnt
	umount /mnt
	blkdiscard -l 1048576 /dev/vflash0 || fail "discard"
	bound_kept
	[ $cache = 0 ] || [ $SCHEDULER != k2 ] || [ $(counted vflash0 split_pieces) -gt 100 ] || fail "no request is split"
	echo "write cache $cache"
	account vflash0
	rmmod vflash
done
