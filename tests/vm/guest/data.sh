# SPDX-License-Identifier: GPL-2.0-only
# Tests that data stay right while schedulers, bounds, tags and sizes change at random and, on vflash, the driver does all that
# drivers do at once; then all is read again. The argument is the disk.
DISK=$1
case $DISK in
vflash0) vflash memory_backed=1 timeout_ms=100 ;;
nullb0) null memory_backed=1 irqmode=2 completion_nsec=20000 queue_mode=2 blocksize=512 ;;
esac
insmod $EXTRA/k2.ko
Q=/sys/block/$DISK/queue
cat > /tmp/data.fio << JOBS
[global]
filename=/dev/$DISK
direct=1
verify=crc32c
verify_fatal=1
verify_backlog=64
[libaio]
rw=randwrite
bsrange=4k-256k
ioengine=libaio
iodepth=16
size=8m
[io_uring]
rw=randwrite
bsrange=4k-128k
ioengine=io_uring
iodepth=16
iodepth_batch=8
offset=16m
size=7m
[sectors]
rw=randwrite
bsrange=512-8k
blockalign=512
ioengine=libaio
iodepth=8
offset=32m
size=2m
[real_time]
rw=randwrite
bs=4k
ioengine=psync
prioclass=1
prio=2
offset=40m
size=3m
[stream]
rw=write
bs=4k
ioengine=libaio
iodepth=32
offset=48m
size=5m
[buffered]
direct=0
rw=write
bsrange=4k-64k
ioengine=psync
fsync=8
offset=64m
size=5m
JOBS
begin data fio --eta=never /tmp/data.fio
switches=0
be_patient
until ended data; do
	one_of k2 none k2 mq-deadline k2 bfq k2 kyber k2
	scheduler $DISK $ONE
	switches=$((switches + 1))
	for again in 1 2 3 4; do
		one_of 4 8 64 300 1023
		echo $ONE > $Q/nr_requests 2> /dev/null
		[ ! -e $Q/iosched/rt_tags ] || {
			random 64
			echo $((RANDOM_IS + 1)) > $Q/iosched/inflight_max
			one_of 0 25 90
			echo $ONE > $Q/iosched/rt_tags
			one_of 0 4 8 16 64
			echo $ONE > $Q/iosched/split_kib
			one_of always active
			echo $ONE > $Q/iosched/bound_when
			one_of fixed ahead
			echo $ONE > $Q/iosched/bound_mode
			one_of 0 500 20000
			echo $ONE > $Q/iosched/rt_target_us
			one_of 0 64 auto
			echo $ONE > $Q/iosched/write_debt_kib_max
			one_of 0 1 10 1000
			echo $ONE > $Q/iosched/be_floor_iops
			one_of 0 4 100
			echo $ONE > $Q/iosched/inflight_kib_max
		}
		[ $DISK != vflash0 ] || {
			one_of 0 5 11 && fault requeue_every=$ONE
			one_of 0 1 && fault dontprep=$ONE
			one_of 0 7 13 && fault busy_every=$ONE
			one_of 0 6 17 && fault devbusy_every=$ONE
			one_of 0 251 999 && fault lose_every=$ONE timeout_requeue=1
		}
		random 60
		usleep $((RANDOM_IS * 1000))
		! ended data || break
	done
	still_patient "fio does not end"
done
end data
[ $DISK != vflash0 ] || no_faults
echo "$switches switches"
for name in mq-deadline k2; do
	scheduler $DISK $name
	echo 3 > /proc/sys/vm/drop_caches
	fio --eta=never --verify_only /tmp/data.fio > /tmp/again.out 2>&1 || { grep -v '^ ' /tmp/again.out; fail "$name reads other data"; }
done
account $DISK
