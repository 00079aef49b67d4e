# SPDX-License-Identifier: GPL-2.0-only
# Tests that CPUs can go offline and online under load: no request is left on the hardware queue of an offline CPU, and data stay right.
[ $CPUS -gt 1 ] || skip "needs several CPUs"
vflash slots=4 memory_backed=1
attach vflash0 4
bound vflash0 4
begin load fio $QUIET --filename=/dev/vflash0 --name=w --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 --numjobs=$CPUS \
	--size=16m --offset_increment=16m $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
for round in 1 2 3; do
	for cpu in $(seq 1 $((CPUS - 1))); do
		echo 0 > /sys/devices/system/cpu/cpu$cpu/online || fail "CPU $cpu does not go offline"
		progress vflash0
	done
	for cpu in $(seq 1 $((CPUS - 1))); do
		echo 1 > /sys/devices/system/cpu/cpu$cpu/online || fail "CPU $cpu does not go online"
		progress vflash0
	done
done
stop load
unchanged load
bound_kept
account vflash0
rmmod vflash

# A CPU goes offline only when no request is left on its hardware queue. So waiting requests there must be dispatched even while other
# queues always have more urgent requests, or requests of a flow that has had less service.
vflash slots=4 read_ns=20000000
attach vflash0 4
K=/sys/block/vflash0/queue/iosched
held() { # some of the eight requests wait, in addition to those of the 32 that go first
	[ "$(counted vflash0 queued)" -ge 34 ]
}
goes() { # WHAT "OPTION..." "OPTION...": fio options of the load that goes first, and of the load that waits
	begin first fio $QUIET --filename=/dev/vflash0 --name=f --rw=randread --bs=4k --ioengine=libaio --iodepth=32 \
		--cpus_allowed=0 $2 $FOREVER
	begin held fio $QUIET --filename=/dev/vflash0 --name=h --ioengine=libaio --iodepth=8 --cpus_allowed=1 $3 $FOREVER
	await "no request waits: $1" held
	begin offline sh -c "echo 0 > /sys/devices/system/cpu/cpu1/online"
	end offline
	stop first held
	account vflash0
	echo 1 > /sys/devices/system/cpu/cpu1/online
	echo $1
}
goes "real-time requests go first" --prioclass=1 "--rw=randread --bs=4k"
goes "class idle waits" "" "--rw=randread --bs=4k --prioclass=3"
[ $SCHEDULER != mqfq ] || {
	echo process > $K/flow_by
	echo 4 > $K/t_kib
	echo 10000 > $K/write_cost_pct
	goes "a flow has had more" "" "--rw=randwrite --bs=256k"
}
