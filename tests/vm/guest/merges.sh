# SPDX-License-Identifier: GPL-2.0-only
# Tests that counters stay exact and data right with each kind of merge: bios with plugged requests, bios with queued requests, and
# under k2 queued requests with each other.
vflash memory_backed=1 depth=256
attach vflash0 1
VERIFY="--verify=crc32c --do_verify=1 --verify_fatal=1"
merged() { # prints the reads and writes that the block layer merged
	awk '{ print $2 + $6 }' /sys/block/vflash0/stat
}
joined() { # BIOS
	[ $(merged) -ge $1 ]
}
backed_up() { # COMMAND FIO_OPTION...: runs a load whose requests stay queued, as the driver refuses all until COMMAND succeeds
	until_then=$1
	shift
	fault busy_every=1
	begin fio fio $QUIET --filename=/dev/vflash0 "$@"
	await "no bio merged: $*" $until_then
	fault busy_every=0
	end fio
	account vflash0
}
writes() { # WHAT FIO_OPTION...
	what=$1
	shift
	before=$(merged)
	backed_up "joined $((before + 16))" --name=w --rw=write --bs=4k --size=2m $VERIFY "$@"
	echo "$what: $(($(merged) - before)) bios joined another"
}
writes "batches of io_uring" --ioengine=io_uring --iodepth=64 --iodepth_batch=32 --iodepth_batch_complete_min=16
writes "one by one into a queue that is backed up" --ioengine=libaio --iodepth=64
for level in 0 3; do
	writes "real-time level $level" --ioengine=libaio --iodepth=64 --prioclass=1 --prio=$level
done

# Adjacent writes that are plugged with others between them are queued as separate requests. The bio that continues the last one makes
# k2 offer all of them for merging, so that they merge with each other.
requests_with_each_other() {
	cat > /tmp/iolog << 'LOG'
fio version 2 iolog
/dev/vflash0 add
/dev/vflash0 open
LOG
	for round in 0 1 2 3 4 5 6 7; do
		start=$((round * 1048576))
		for i in 0 1 2 3 4 5 6 7; do
			echo "/dev/vflash0 write $((start + i * 4096)) 4096"
			echo "/dev/vflash0 write $((start + 524288 + i * 8192)) 4096"
		done
		for i in 8 9 10 11; do
			echo "/dev/vflash0 write $((start + i * 4096)) 4096"
		done
	done >> /tmp/iolog
	echo "/dev/vflash0 close" >> /tmp/iolog
	backed_up "counts merged 1" --name=log --read_iolog=/tmp/iolog --ioengine=io_uring --iodepth=128 --iodepth_batch=20
	echo "$(counted vflash0 merged) requests merged into another"
}
case $SCHEDULER in
k2) requests_with_each_other ;;
mqfq)
	echo process > /sys/block/vflash0/queue/iosched/flow_by
	writes "by process" --ioengine=libaio --iodepth=64
	;;
esac

# Many CPUs merge at once: k2 does not merge a bio if the lock is taken. All data are checked.
set_bound vflash0 8
load vflash0 --name=w --rw=write --bs=4k --size=1m --numjobs=4 --offset_increment=8m $VERIFY --ioengine=libaio \
	--iodepth=32 --iodepth_batch=8
account vflash0
