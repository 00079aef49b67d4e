# SPDX-License-Identifier: GPL-2.0-only
# Tests that with discard_kib_max discards are cut where granules end and go one at a time, that they wait while there is
# real-time activity and go when that has ended, that none is lost when the scheduler is switched or the drive unplugged while
# they are held, and that data beside them stay right.
vflash memory_backed=1 capacity_mib=512 unit_kib=16 fetch_kib=16 write_cache=1 read_ns=2000000 write_fixed_ns=8000000
Q=/sys/block/vflash0/queue
K=$Q/iosched
on() { # K2, and no write-back throttling, which holds discards up as long as there are slow reads
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
zeroes() { # FROM_KIB KIB: so much reads as zeroes
	dd if=/dev/vflash0 bs=1k skip=$1 count=$2 2> /dev/null | tr -d '\000' | wc -c
}
fill() { # FROM_KIB KIB
	dd if=/dev/zero bs=1k count=$2 2> /dev/null | tr '\000' 'x' | dd of=/dev/vflash0 bs=1k seek=$1 conv=fsync 2> /dev/null
}

# Off: as all else.
blkdiscard -o 0 -l 8388608 /dev/vflash0 || fail "discard"
expect "counted while it is off" "$(counted vflash0 discards_dispatched) $(counted vflash0 discard_requests)" "0 0"

# Pieces. The block layer itself cuts where the first granule begins, and the plug joins that to the rest again.
echo 64 > $K/discard_kib_max
fill 0 2048
blkdiscard -o 4096 -l 1044480 /dev/vflash0 || fail "discard"
expect "of 1 MiB less 4 KiB, went" "$(counted vflash0 discards_dispatched)" 17
# what the granules cover reads as zeroes, and nothing else does: vflash drops the bytes that it is told
expect "left of it" "$(zeroes 4 1020)" 0
expect "beside it" "$(zeroes 0 4) $(zeroes 1024 1024)" "4096 1048576"
# by ways that ask no scheduler: bios that the block layer has cut already, and nomerges
before=$(counted vflash0 discards_dispatched)
blkdiscard -o 67108864 -l 67108864 /dev/vflash0 || fail "discard"
expect "64 MiB in pieces of 64 KiB" "$(($(counted vflash0 discards_dispatched) - before))" 1024
echo 2 > $Q/nomerges
blkdiscard -o 2097152 -l 2097152 /dev/vflash0 || fail "discard"
expect "2 MiB, with nomerges" "$(($(counted vflash0 discards_dispatched) - before))" 1056
echo 0 > $Q/nomerges
# a piece that is smaller than a granule is a granule
echo 4 > $K/discard_kib_max
before=$(counted vflash0 discards_dispatched)
blkdiscard -o 2097152 -l 131072 /dev/vflash0 || fail "discard"
expect "128 KiB in granules" "$(($(counted vflash0 discards_dispatched) - before))" 8
# not write zeroes
before=$(counted vflash0 discards_dispatched)
/bin/blkdiscard -z -o 2097152 -l 1048576 /dev/vflash0 || fail "zeroes"
expect "write zeroes" "$(counted vflash0 discards_dispatched)" $before
echo 64 > $K/discard_kib_max
account vflash0

# Held. Beside it data are written and verified.
real_time() { # some are always in the drive: emulation may stand still for longer than the grace
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
echo 10 > $K/be_floor_iops # a discard now and then
! ended trim || fail "the discard has ended before the real-time task"
end_real_time
end trim
more_than vflash0 0
expect "left of the discard" "$(zeroes 32768 65536)" 0

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
	await "no real-time request" counts level1.dispatched 10 # before that nothing is held
done
# Switched off, what is held goes at once.
begin trim blkdiscard -o 33554432 -l 33554432 /dev/vflash0
before=$(counted vflash0 discards_dispatched)
await "held for ever" counts discards_dispatched $((before + 1))
echo 0 > $K/discard_kib_max
end trim
echo 64 > $K/discard_kib_max
# The driver gives some back: those are not held.
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

# Unplugged while some are held.
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
