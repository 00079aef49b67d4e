# SPDX-License-Identifier: GPL-2.0-only
# Tests that data stay right while schedulers, bounds, tags and sizes change at random and, on vflash, all faults of drivers are injected
# at once; then all data are read again. The argument is the disk.
DISK=$1
case $DISK in
vflash0) vflash memory_backed=1 timeout_ms=100 ;;
nullb0) null memory_backed=1 irqmode=2 completion_nsec=20000 queue_mode=2 blocksize=512 ;;
esac
load_module $MODULE
Q=/sys/block/$DISK/queue
knob() { # NAME VALUE...: sets it to one of the values
	name=$1
	shift
	one_of "$@"
	echo $ONE > $Q/iosched/$name
}
random_knobs() { # of the disk's present scheduler
	[ -z "$(bound_knob $DISK)" ] || {
		random 64
		set_bound $DISK $((RANDOM_IS + 1))
	}
	[ ! -e $Q/iosched/rt_tags ] || {
		knob rt_tags 0 25 90
		knob split_kib 0 4 8 16 64
		knob bound_when always active
		knob rt_target_us 0 auto 500 20000
		knob rt_target_percentile p99 p99.9
		knob write_debt_kib_max 0 64 auto
		knob be_floor_iops 0 1 10 1000
		knob inflight_kib_max 0 4 100
	}
	[ ! -e $Q/iosched/t_kib ] || {
		knob d auto 1 8 64
		knob t_kib auto 0 1 64 512 65536
		knob write_cost_pct auto 25 100 1000
		knob flow_by cgroup process
	}
}
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
	one_of $SCHEDULER none $SCHEDULER mq-deadline $SCHEDULER bfq $SCHEDULER kyber $SCHEDULER
	scheduler $DISK $ONE
	switches=$((switches + 1))
	for again in 1 2 3 4; do
		one_of 4 8 64 300 1023
		echo $ONE > $Q/nr_requests 2> /dev/null
		random_knobs
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
for name in mq-deadline $SCHEDULER; do
	scheduler $DISK $name
	echo 3 > /proc/sys/vm/drop_caches
	fio --eta=never --verify_only /tmp/data.fio > /tmp/again.out 2>&1 || { grep -v '^ ' /tmp/again.out; fail "wrong data under $name"; }
done
account $DISK
