# SPDX-License-Identifier: GPL-2.0-only
# Tests that a latency target that cannot be met lowers the bound and then raises the aim, that a loose target raises the
# bound, that an automatic one holds only during real-time activity, that the background goes on when the reader has ended or the scheduler is switched, and that data stay right.
vflash memory_backed=1 read_fixed_ns=$((1000000 * SLOW)) write_fixed_ns=$((1000000 * SLOW))
attach vflash0 1000
K=/sys/block/vflash0/queue/iosched
expect "'soon' to rt_target_us" "$(put $K/rt_target_us soon)" EINVAL
expect "too much" "$(put $K/rt_target_us 10000001)" ERANGE
tried="predicted unpredicted"
state() { # WORD...: is the state of the target one of these?
	now=$(statistics vflash0 | sed -n 's/^rt_target_state //p')
	case " $* " in *" $now "*) return 0 ;; esac
	return 1
}
below() { # KIB: is the bound below this, and does it hold requests?
	[ "$(counted vflash0 rt_target_kib)" -lt $1 ] && [ "$(counted vflash0 bound_held)" -gt $held ]
}
await_below() {
	held=$(counted vflash0 bound_held)
	await "the bound does not come below $1 KiB" below $1
}
real_time() {
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thinktime=1ms $FOREVER --thread
}
state none || fail "a target before one was set: $now"
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=8 --size=32m \
	--loops=1000 $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=16k --ioengine=libaio --iodepth=8 --norandommap \
	$FOREVER
go_on 100
echo 100 > $K/rt_target_us # less than a read of the idle drive takes
state $tried || fail "a new target is not tried: $now"
go_on 50
state $tried || fail "missed without a real-time request: $now"
real_time
await_below 5
await "a target out of reach does not raise the aim" state missed
go_on 200
echo 10000000 > $K/rt_target_us
opened() { # is the bound above what the load uses?
	[ "$(counted vflash0 rt_target_kib)" -gt 100 ]
}
await "a target that is always met does not open the bound" opened
state $tried || fail "state of a target that is met: $now"
echo auto > $K/rt_target_us
expect "an automatic target" "$(cat $K/rt_target_us)" auto
go_on 50
state $tried missed || fail "state of an automatic target: $now"
expect "constrained during real-time activity" "$(counted vflash0 constrains)" 1
of_rt 9
end rt 137
at_rest() {
	[ "$(counted vflash0 constrains)" = 0 ]
}
await "an automatic target holds the background without real-time activity" at_rest
real_time
for round in 1 2 3; do
	scheduler vflash0 none
	scheduler vflash0 k2
	echo 1000 > $K/inflight_max
	echo 300 > $K/rt_target_us
	await_below 9
done
of_rt 9
end rt 137
go_on 200
real_time
go_on 20
echo 0 > $K/rt_target_us
state none || fail "the target stays: $now"
go_on 200
echo "$(counted vflash0 bound_held) times held"
stop writer reader rt
unchanged writer
account vflash0
