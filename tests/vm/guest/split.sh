# SPDX-License-Identifier: GPL-2.0-only
# Tests that background requests larger than split_kib are dispatched in pieces, each counted once, and real-time requests whole, on
# each path to the scheduler; that the knob accepts valid values only; and that a disk gets its own worker before its first request
# is split, and not before splitting is switched on.
vflash memory_backed=1 capacity_mib=320 # mkfs.xfs wants 300
attach vflash0
Q=/sys/block/vflash0/queue
SPLIT=$Q/iosched/split_kib
echo 512 > $Q/max_sectors_kb

# Only the worker that the kernel keeps for a workqueue is counted: k2_vflash0, or on newer kernels kworker/R-k2_vflash0. A worker that all
# workqueues share, such as kworker/u8:1, shows the name of the workqueue it worked for last, also when that is gone.
workers() { # prints the number of vflash0's own workers
	cat /proc/[0-9]*/comm 2> /dev/null | grep -cE '^(kworker/R-)?k2_vflash0$'
}
has_worker() {
	[ $(workers) = 1 ]
}
expect "workers without splitting" "$(workers)" 0

refused() { # ERROR TEXT
	expect "'$2' to split_kib" "$(put $SPLIT "$2")" $1
	expect "after '$2'" "$(cat $SPLIT)" 8
}
for value in 0 4 508 512 8; do
	echo $value > $SPLIT || fail "$value is refused"
	expect "split_kib" "$(cat $SPLIT)" $value
done
await "splitting has no worker" has_worker
for value in 1 2 6 10 510 abc -4 '\n' 4k; do
	refused EINVAL "$value"
done
for value in 516 65536 65540 99999999999; do
	refused ERANGE "$value"
done

pieces() { # KIB LEVEL FIO_OPTION...: sets GOT to the requests dispatched at LEVEL, requests split, and pieces
	kib=$1 level=$2
	shift 2
	echo $kib > $SPLIT
	before="$(counted vflash0 level$level.dispatched) $(counted vflash0 split_requests) $(counted vflash0 split_pieces)"
	fio $QUIET --name=p --filename=/dev/vflash0 "$@" > /tmp/fio.out 2>&1 || { cat /tmp/fio.out; fail "fio $*"; }
	await "not at rest" idle vflash0
	set -- $before
	GOT="$(($(counted vflash0 level$level.dispatched) - $1)) $(($(counted vflash0 split_requests) - $2))"
	GOT="$GOT $(($(counted vflash0 split_pieces) - $3))"
	set --
}
check() { # WHAT WANTED
	expect "$1: requests at the drive, requests split, pieces" "$GOT" "$2"
}
ONE_MIB="--bs=512k --number_ios=2 --ioengine=psync"
for op in read write; do
	pieces 16 8 --rw=$op $ONE_MIB
	check "$op of 512 KiB" "64 2 64"
done
pieces 0 8 --rw=write $ONE_MIB
check "no splitting" "2 0 0"
pieces 508 8 --rw=write $ONE_MIB
check "a small last piece" "4 2 4"
pieces 16 8 --rw=write --bs=16k --number_ios=8 --ioengine=psync
check "requests as large as a piece" "8 0 0"
pieces 16 2 --rw=write $ONE_MIB --prioclass=1 --prio=2
check "real-time" "2 0 0"
pieces 16 8 --rw=write $ONE_MIB --prioclass=3
check "idle class" "64 2 64"
pieces 64 8 --rw=write $ONE_MIB --ioengine=io_uring --iodepth=2
check "io_uring, with REQ_NOWAIT" "16 2 16"
echo 2 > $Q/nomerges # bio_merge is not called then
pieces 16 8 --rw=write $ONE_MIB
check "without merges" "64 2 64"
echo 0 > $Q/nomerges
before="$(counted vflash0 split_requests) $(counted vflash0 dispatched)"
blkdiscard -l 1048576 /dev/vflash0 || fail "discard"
set -- $before
expect "discards split" "$(($(counted vflash0 split_requests) - $1))" 0
[ $(counted vflash0 dispatched) -gt $2 ] || fail "no discard was dispatched"
set --
# Adjacent writes of 4 KiB are merged in a plug without calling the scheduler. Those that become too large are taken apart.
BATCHES="--rw=write --bs=4k --size=512k --ioengine=io_uring --iodepth=64 --iodepth_batch=32 --iodepth_batch_complete_min=16"
pieces 0 8 $BATCHES
echo "batches of 4 KiB: $GOT"
[ ${GOT%% *} -lt 64 ] || fail "adjacent writes are not merged"
pieces 4 8 $BATCHES
echo "batches of 4 KiB in pieces of 4: $GOT"
expect "requests at the drive" ${GOT%% *} 128
pieces 16 8 $BATCHES
echo "batches of 4 KiB in pieces of 16: $GOT"
[ ${GOT%% *} -ge 32 ] || fail "a request grew beyond a piece"
taken=${GOT#* }
[ ${taken% *} -gt 0 ] || fail "requests that grew in a plug are not taken apart"
for tags in 4 8; do # splitting goes on with few tags
	echo $tags > $Q/nr_requests
	for share in 0 90; do
		echo $share > $Q/iosched/rt_tags
		pieces 4 8 --rw=randwrite --bs=512k --number_ios=8 --ioengine=libaio --iodepth=8
		check "nr_requests $tags" "1024 8 1024"
	done
done
echo 256 > $Q/nr_requests
echo 25 > $Q/iosched/rt_tags

# Buffered I/O on file systems, while the size of pieces changes and schedulers are switched; all data are read again.
above() { # FILE_SYSTEM LOOPS: tests it on vflash0
	case $1 in
	ext4) /bin/mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=1 /dev/vflash0 ;;
	xfs) mkfs.xfs -q -f -K /dev/vflash0 ;;
	f2fs) mkfs.f2fs -q -f -t 0 /dev/vflash0 > /tmp/out ;;
	esac || fail "no $1 is made"
	mkdir -p /mnt
	mount -t $1 /dev/vflash0 /mnt || fail "mount $1"
	begin files fio --eta=never --name=f --directory=/mnt --nrfiles=8 --filesize=1m-6m --rw=randwrite --bsrange=4k-1m \
		--ioengine=psync --fallocate=none --verify=crc32c --verify_fatal=1 --do_verify=1 --end_fsync=1 --loops=$2
	changes=0 switches=0
	be_patient
	until ended files; do
		one_of 0 4 16 64 256
		echo $ONE > $SPLIT
		changes=$((changes + 1))
		[ $((changes % 8)) != 0 ] || {
			one_of none mq-deadline
			scheduler vflash0 $ONE
			usleep 10000
			scheduler vflash0 k2
			switches=$((switches + 1))
		}
		usleep 10000
		still_patient "fio does not end"
	done
	end files
	echo 16 > $SPLIT
	before=$(counted vflash0 split_pieces)
	for round in 1 2; do
		find /mnt -type f | sort | xargs md5sum > /tmp/sum.$round
		umount /mnt
		echo 3 > /proc/sys/vm/drop_caches
		mount -t $1 /dev/vflash0 /mnt || fail "mount $1 again"
	done
	expect "the files on $1, read again" "$(cat /tmp/sum.2)" "$(cat /tmp/sum.1)"
	[ $(counted vflash0 split_pieces) -gt $before ] || fail "read-ahead on $1 is not split"
	umount /mnt
	echo "$1: $changes sizes of pieces, $switches switches"
}
fail_allocations 20 'bio-*' # every fifth piece finds no memory at once
above ext4 1
# Each machine tests at most one of the others.
case $CPUS in
1) above f2fs 1 ;;
4) above xfs 1 ;;
esac
# With almost no free memory, splitting goes on.
available() { # MiB
	awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo
}
[ $CPUS != 4 ] || {
	load vflash0 --name=w --rw=write --bs=512k --size=50m # fills the blocks now, as the drive keeps data in memory
	echo 4 > $SPLIT
	before=$(counted vflash0 split_pieces)
	mkdir /hog
	mount -t ramfs none /hog
	dd if=/dev/zero of=/hog/all bs=1M count=$(($(available) - 50)) 2> /dev/null
	left=$(available)
	load vflash0 --name=w --rw=randwrite --bs=512k --size=50m --ioengine=libaio --iodepth=32
	umount /hog
	echo "$left MiB were available"
	[ $left -lt 80 ] || fail "too much memory was free"
	expect "pieces" $(($(counted vflash0 split_pieces) - before)) 12800
}
echo "$(injected failslab) allocations failed"
fail_no_more
echo 0 > $SPLIT
account vflash0
