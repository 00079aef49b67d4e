# SPDX-License-Identifier: GPL-2.0-only
# Tests that with bound_mode ahead the background returns to its rate under the fixed bound within ten periods after the real-time
# reader was killed, stopped, or slowed down tenfold; that it keeps its rate when the clock is set, the scheduler switched, or a
# CPU taken offline; and that blk-mq seldom has to retry after 3 ms. Time is virtual; the drive has 8 dies and is dilated 16 times.
PERIOD_MS=32
T=/sys/kernel/tracing
K=/sys/block/vflash0/queue/iosched
grep -q tracefs /proc/mounts || mount -t tracefs none $T
echo 'p:again blk_mq_delay_run_hw_queues ms=%si:u64' > $T/kprobe_events || fail "no probe of blk_mq_delay_run_hw_queues()"
echo 'ms == 3' > $T/events/kprobes/again/filter
echo 1 > $T/events/kprobes/again/enable
vflash capacity_mib=4096 dies=8 read_ns=54367 read_fixed_ns=23039 dilation=16 depth=256
look_ahead() { # holds background requests for half of each period
	echo 1024 > $K/inflight_max
	echo 0 > $K/inflight_kib_max
	echo 64 > $K/ahead_fallback_kib
	echo $((PERIOD_MS * 500)) > $K/ahead_lead_us
	echo ahead > $K/bound_mode
}
real_time() { # THINKTIME
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=0 \
		--norandommap --thinktime=$1 $FOREVER --thread
}
predicted() {
	[ "$(counted vflash0 ahead_predicted)" = 1 ]
}
await_predicted() {
	await "the reader is not predicted" predicted
}
rate() { # sets RATE to the requests a second over thirty periods
	uptime_ms
	began=$NOW
	read -r reads rest < /sys/block/vflash0/stat
	first=$reads
	usleep $((PERIOD_MS * 30000))
	read -r reads rest < /sys/block/vflash0/stat
	uptime_ms
	RATE=$(((reads - first) * 1000 / (NOW - began)))
}
back() { # WHAT RATE [PERCENT]: checks that ten periods later the rate is at least PERCENT (90) of RATE
	usleep $((PERIOD_MS * 10000))
	rate
	echo "$1: $RATE a second of $2"
	[ $((RATE * 100)) -ge $(($2 * ${3:-90})) ] || fail "$1: the background is not back"
}
MODULE=k2_experiments
attach vflash0 1024
echo 64 > $K/inflight_kib_max
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --norandommap \
	$FOREVER
go_on 200
rate
fixed=$RATE
real_time ${PERIOD_MS}ms
back "real-time requests, and the fixed bound" $fixed
look_ahead
await_predicted
rate
ahead=$RATE # varies by a tenth, as K2 makes no prediction for two periods after a wrong one
echo "fixed bound: $fixed a second; looking ahead: $ahead"
[ $((ahead * 10)) -lt $((fixed * 7)) ] || fail "the bound holds too little for this test to notice its end"
of_rt STOP
back stopped $fixed
of_rt CONT
await_predicted
for seconds in 100000 -100000; do # k2 uses the monotonic clock
	date -s @$(($(date +%s) + seconds)) > /dev/null || fail "the clock cannot be set"
	back "clock set by $seconds s" $ahead 70
done
[ $CPUS = 1 ] || for state in 0 1; do
	echo $state > /sys/devices/system/cpu/cpu1/online || fail "CPU 1 does not become $state"
	back "CPU 1 $state" $ahead 70
done
scheduler vflash0 none
scheduler vflash0 k2
look_ahead
back switched $ahead 70
await_predicted
of_rt 9
back killed $fixed
end rt 137
real_time ${PERIOD_MS}ms
await_predicted
of_rt 9
end rt 137
real_time $((PERIOD_MS * 10))ms
back "ten times slower" $fixed
stop rt reader
account vflash0
again=$(grep -c again: $T/trace)
echo "retries after 3 ms: $again"
# after a completion unblocks the background, the bound may have fallen and refuse it again
[ $again -le $(($(counted vflash0 dispatched) / 5)) ] || fail "too often"
echo 0 > $T/events/kprobes/again/enable
echo > $T/kprobe_events
