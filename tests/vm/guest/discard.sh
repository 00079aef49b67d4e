# SPDX-License-Identifier: GPL-2.0-only
# Tests that with discard_kib_max discards are split at multiples of the discard granularity and go one at a time; that they wait
# during real-time activity and go when it has ended; that none is lost when the scheduler is switched or the drive unplugged while
# they are held; and that other data stay right.
vflash memory_backed=1 capacity_mib=512 unit_kib=16 fetch_kib=16 write_cache=1 read_ns=2000000 write_fixed_ns=8000000
Q=/sys/block/vflash0/queue
K=$Q/iosched
on() { # K2 without write-back throttling, which delays discards while reads are slow
	attach vflash0 8
	echo 0 > $Q/wbt_lat_usec
}
on
expect "granularity" "$(cat $Q/discard_granularity)" 16384
for bad in 3 -1 word; do
	expect "'$bad' to discard_kib_max" "$(put $K/discard_kib_max "$bad")" EINVAL
done
expect "too much" "$(put $K/discard_kib_max 1048580)" ERANGE
expect "after that" "$(cat $K/discard_kib_max)" 0
zeroes() { # FROM_KIB KIB: prints the number of bytes that are not zero
	dd if=/dev/vflash0 bs=1k skip=$1 count=$2 2> /dev/null | tr -d '\000' | wc -c
}
fill() { # FROM_KIB KIB
	dd if=/dev/zero bs=1k count=$2 2> /dev/null | tr '\000' 'x' | dd of=/dev/vflash0 bs=1k seek=$1 conv=fsync 2> /dev/null
}

# Off: discards are neither split nor counted.
blkdiscard -o 0 -l 8388608 /dev/vflash0 || fail "discard"
expect "counted while it is off" "$(counted vflash0 discards_dispatched) $(counted vflash0 discard_requests)" "0 0"

# Pieces. The block layer splits where the first granule begins, and the plug merges both parts again.
echo 64 > $K/discard_kib_max
fill 0 2048
blkdiscard -o 4096 -l 1044480 /dev/vflash0 || fail "discard"
expect "discards dispatched of 1 MiB less 4 KiB" "$(counted vflash0 discards_dispatched)" 17
# exactly the discarded bytes read as zeroes
expect "bytes left in the discarded range" "$(zeroes 4 1020)" 0
expect "bytes left outside of it" "$(zeroes 0 4) $(zeroes 1024 1024)" "4096 1048576"
# without bio_merge of the scheduler: bios that the block layer has split already, and nomerges
before=$(counted vflash0 discards_dispatched)
blkdiscard -o 67108864 -l 67108864 /dev/vflash0 || fail "discard"
expect "64 MiB in pieces of 64 KiB" "$(($(counted vflash0 discards_dispatched) - before))" 1024
echo 2 > $Q/nomerges
blkdiscard -o 2097152 -l 2097152 /dev/vflash0 || fail "discard"
expect "2 MiB, with nomerges" "$(($(counted vflash0 discards_dispatched) - before))" 1056
echo 0 > $Q/nomerges
# a piece is at least a granule
echo 4 > $K/discard_kib_max
before=$(counted vflash0 discards_dispatched)
blkdiscard -o 2097152 -l 131072 /dev/vflash0 || fail "discard"
expect "128 KiB in granules" "$(($(counted vflash0 discards_dispatched) - before))" 8
# write zeroes are not limited
before=$(counted vflash0 discards_dispatched)
/bin/blkdiscard -z -o 2097152 -l 1048576 /dev/vflash0 || fail "zeroes"
expect "write zeroes" "$(counted vflash0 discards_dispatched)" $before
echo 64 > $K/discard_kib_max
account vflash0

# Discards are held, while data are written and verified.
real_time() { # always has requests in the drive: an emulated CPU may pause for longer than real-time activity lasts
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --size=16m --ioengine=libaio --iodepth=4 \
		--prioclass=1 --prio=1 $FOREVER --thread
	seen=$(counted vflash0 level1.dispatched)
	await "no real-time request" counts level1.dispatched $((seen + 10))
}
end_real_time() {
	of_rt 9
	end rt 137
}
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=8 --offset=256m \
	--size=32m --loops=1000 $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
real_time
begin trim blkdiscard -o 33554432 -l 67108864 /dev/vflash0
before=$(counted vflash0 discards_dispatched)
await "held for ever" counts discards_dispatched $((before + 3))
[ "$(counted vflash0 discards_dispatched)" -lt $((before + 100)) ] || fail "discards are not held"
! ended trim || fail "the discard has ended"
echo 1000 > $K/be_floor_iops
before=$(counted vflash0 discards_dispatched)
await "the floor is not in force" counts discards_dispatched $((before + 100))
echo 10 > $K/be_floor_iops # lets a few discards go
! ended trim || fail "the discard has ended before the real-time task"
end_real_time
end trim
more_than vflash0 0
expect "bytes left in the discarded range, after the hold" "$(zeroes 32768 65536)" 0

# The scheduler is switched, off and on, while discards are held.
real_time
for round in 1 2 3; do
	begin trim blkdiscard -o 33554432 -l 33554432 /dev/vflash0
	before=$(counted vflash0 discards_dispatched)
	await "held for ever" counts discards_dispatched $((before + 1))
	one_of none mq-deadline
	begin switch sh -c "echo $ONE > $Q/scheduler"
	end switch
	end trim
	on
	echo 64 > $K/discard_kib_max
	echo 10 > $K/be_floor_iops
	await "no real-time request" counts level1.dispatched 10 # until then discards are not held
done
# Held discards go at once when the limit is switched off.
begin trim blkdiscard -o 33554432 -l 33554432 /dev/vflash0
before=$(counted vflash0 discards_dispatched)
await "held for ever" counts discards_dispatched $((before + 1))
echo 0 > $K/discard_kib_max
end trim
echo 64 > $K/discard_kib_max
# Discards that the driver returns are not held.
fault requeue_every=3
begin trim blkdiscard -o 33554432 -l 1048576 /dev/vflash0
before=$(counted vflash0 discards_dispatched)
await "held for ever" counts discards_dispatched $((before + 2))
end_real_time
end trim
no_faults
stop writer
unchanged writer
account vflash0

# The drive is unplugged while discards are held.
real_time
begin trim blkdiscard -o 33554432 -l 67108864 /dev/vflash0
before=$(counted vflash0 discards_dispatched)
await "held for ever" counts discards_dispatched $((before + 1))
begin remove sh -c "echo 1 > $FAULTS/remove"
end remove
await "blkdiscard does not end" ended trim
stop rt
[ -z "$(statistics vflash0)" ] || fail "statistics of a disk that is gone"
rmmod vflash || fail "vflash does not unload"
rmmod k2 || fail "k2 does not unload"
