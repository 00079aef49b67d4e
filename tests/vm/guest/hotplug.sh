# SPDX-License-Identifier: GPL-2.0-only
# Tests that CPUs may come and go under load: no request stays behind on the hardware queue of one that went.
[ $CPUS -gt 1 ] || skip "needs several CPUs"
vflash slots=4
k2 vflash0 4
bound vflash0 4
begin load fio $QUIET --filename=/dev/vflash0 --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 --numjobs=$CPUS \
	$FOREVER
for round in 1 2 3; do
	for cpu in $(seq 1 $((CPUS - 1))); do
		echo 0 > /sys/devices/system/cpu/cpu$cpu/online || fail "CPU $cpu does not go"
		progress vflash0
	done
	for cpu in $(seq 1 $((CPUS - 1))); do
		echo 1 > /sys/devices/system/cpu/cpu$cpu/online || fail "CPU $cpu does not come"
		progress vflash0
	done
done
stop load
bound_kept
account vflash0
rmmod vflash

# Beside real-time load without end: a CPU goes when nothing is left on its hardware queue, and the floor lets that go.
vflash slots=4 read_ns=20000000
k2 vflash0 4
held() { # background waits beside real-time requests
	[ "$(counted vflash0 level0.queued)" -ge 8 ] && [ "$(counted vflash0 level8.queued)" -ge 4 ]
}
begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --prioclass=1 \
	--cpus_allowed=0 $FOREVER
begin background fio $QUIET --filename=/dev/vflash0 --name=b --rw=randread --bs=4k --ioengine=libaio --iodepth=8 \
	--cpus_allowed=1 $FOREVER
await "no background is held" held
begin offline sh -c "echo 0 > /sys/devices/system/cpu/cpu1/online"
end offline
stop rt background
account vflash0
