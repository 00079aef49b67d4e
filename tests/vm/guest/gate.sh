# SPDX-License-Identifier: GPL-2.0-only
# Tests that with flush_gate_us writes of the background wait while a flush is in the drive, that none is lost while flushes,
# a journalling file system and real-time tasks come and go, and that the scheduler is switched and the drive unplugged then.
vflash memory_backed=1 write_cache=1 flush_ns=2000000
k2 vflash0 8
Q=/sys/block/vflash0/queue
K=$Q/iosched
expect "'never' to flush_gate_us" "$(put $K/flush_gate_us never)" EINVAL
expect "too much" "$(put $K/flush_gate_us 1000001)" ERANGE
writer() {
	begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 \
		--offset=128m --size=32m --loops=1000 --time_based --runtime=600 --verify=crc32c --verify_fatal=1 \
		--verify_backlog=32
}
syncer() {
	begin syncer fio $QUIET --filename=/dev/vflash0 --name=s --rw=randwrite --bs=4k --ioengine=psync --fdatasync=1 \
		--size=32m --numjobs=2 --time_based --runtime=600
}
writer
syncer
progress vflash0
expect "held while it is off" "$(counted vflash0 flush_gated)" 0
echo 10000 > $K/flush_gate_us
await 30 "nothing is held" counts flush_gated 50
stop writer syncer
account vflash0
before=$(counted vflash0 flush_gated)
writer
for round in 1 2 3; do progress vflash0; done
expect "held without a flush" "$(counted vflash0 flush_gated)" $before
# A limit that is shorter than a flush, and one that is much longer.
syncer
for limit in 100 1000000 10000; do
	echo $limit > $K/flush_gate_us
	before=$(counted vflash0 flush_gated)
	await 30 "nothing is held" counts flush_gated $((before + 20))
	progress vflash0
done
for round in 1 2 3; do
	begin switch sh -c "echo none > $Q/scheduler"
	end switch 60
	k2 vflash0 8
	echo 10000 > $K/flush_gate_us
	await 30 "nothing is held" counts flush_gated 5
done
stop syncer
account_soon() {
	stop writer
	unchanged writer
	account vflash0
}
account_soon

# ext4, whose journal flushes, beside a real-time reader.
/bin/mke2fs -q -t ext4 -J size=4 -E nodiscard,lazy_itable_init=1 /dev/vflash0 64m || fail "mke2fs"
mkdir -p /mnt
mount -t ext4 /dev/vflash0 /mnt || fail "mount"
begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --offset=128m --ioengine=psync --prioclass=1 \
	--prio=1 --thinktime=2ms --time_based --runtime=600
fio --eta=never --directory=/mnt --name=f --rw=write --bs=4k --filesize=4k-16k --nrfiles=100 --openfiles=1 --numjobs=2 \
	--create_on_open=1 --fsync_on_close=1 --fallocate=none --file_service_type=sequential --verify=crc32c --do_verify=1 \
	--verify_fatal=1 > /tmp/files.out 2>&1 || { tail -5 /tmp/files.out; fail "fio on ext4"; }
umount /mnt
stop rt
account vflash0

writer
syncer
await 30 "nothing is held" counts flush_gated $(($(counted vflash0 flush_gated) + 5))
begin remove sh -c "echo 1 > $FAULTS/remove"
end remove 60
stop writer syncer
rmmod vflash || fail "vflash does not unload"
rmmod k2 || fail "k2 does not unload"
