# SPDX-License-Identifier: GPL-2.0-only
# Tests, and shows, that real-time readers that saturate the drive starve best effort, that best effort goes on once they stop, and
# that with be_floor_iops it gets this rate beside them: a real-time task then waits less than a second for a file system's journal.
# Time is virtual.
vflash slots=16 read_ns=4000000 memory_backed=1
attach vflash0 8
echo 0 > /sys/block/vflash0/queue/iosched/be_floor_iops
/bin/mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=1 /dev/vflash0 64m || fail "mke2fs"
mkdir -p /mnt
mount -t ext4 /dev/vflash0 /mnt || fail "mount"
level8() {
	counted vflash0 level8.dispatched
}
READ="--filename=/dev/vflash0 --offset=64m" # behind the file system
begin best fio $QUIET $READ --name=be --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --norandommap \
	$FOREVER
progress vflash0
begin rt fio $QUIET $READ --name=rt --rw=randread --bs=4k --ioengine=libaio --iodepth=16 --numjobs=3 \
	--norandommap --prioclass=1 --prio=4 $FOREVER
real_time() {
	[ $(statistics vflash0 | awk '$1 == "level4.inflight" { print $2 }') = 8 ]
}
await "real-time requests do not fill the drive" real_time
usleep 500000
all=$(counted vflash0 dispatched) best=$(level8)
begin sync ionice -c 1 -n 0 dd if=/dev/zero of=/mnt/a bs=4k count=1 conv=fsync
usleep 2000000
! ended sync || fail "fsync ends without a floor: this test shows nothing"
best=$(($(level8) - best)) all=$(($(counted vflash0 dispatched) - all))
echo 200 > /sys/block/vflash0/queue/iosched/be_floor_iops
usleep 1000000
ended sync || fail "a real-time task waits for a journal for a second, beside a floor"
end sync
uptime_ms
begun=$NOW
owed=$(level8)
usleep 2000000
owed=$(($(level8) - owed))
uptime_ms
most=$(((NOW - begun + 20) / 5 + 16))
echo 0 > /sys/block/vflash0/queue/iosched/be_floor_iops
await "real-time requests do not fill the drive any more" real_time
of_rt 9
end rt 137
echo "with a floor of 200 a second best effort gets $owed in two seconds, in which $most would be too many"
[ $owed -ge 396 ] || fail "best effort gets less than its floor"
[ $owed -lt $most ] || fail "best effort gets more than its floor"
echo "beside saturating real-time readers best effort gets $best of $all requests"
[ $((best * 8)) -lt $all ] || fail "best effort is not held back"
go_on 20
stop best
umount /mnt
account vflash0
