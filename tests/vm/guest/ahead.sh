# SPDX-License-Identifier: GPL-2.0-only
# Tests that with bound_mode ahead the background goes on after the real-time reader was killed, stopped, or slowed down tenfold; that
# the scheduler can be switched, the clock set and CPUs taken offline while the background is held; and that data stay right.
vflash memory_backed=1 read_fixed_ns=200000 write_fixed_ns=200000
MODULE=k2_experiments
attach vflash0 1000
K=/sys/block/vflash0/queue/iosched
for word in never '\n' 2 AHEAD; do
	expect "'$word' to bound_mode" "$(put $K/bound_mode "$word")" EINVAL
done
for knob in ahead_lo_kib ahead_hi_kib ahead_lead_us ahead_ramp_pct ahead_fallback_kib; do
	expect "$knob" "$(cat $K/$knob)" auto
	expect "auto in upper case to $knob" "$(put $K/$knob AUTO)" EINVAL
	expect "the value reserved for auto to $knob" "$(put $K/$knob 4294967295)" ERANGE
	echo 100 > $K/$knob || fail "$knob takes no number"
	expect "$knob" "$(cat $K/$knob)" 100
	echo auto > $K/$knob || fail "$knob cannot be set to auto again"
	expect "$knob" "$(cat $K/$knob)" auto
done
expect "auto to rt_tags" "$(put $K/rt_tags auto)" EINVAL
echo placebo > $K/bound_mode || fail "the placebo is refused"
expect "bound_mode" "$(cat $K/bound_mode)" placebo
# With this lead, background requests are held for most of a period of 20 ms.
look_ahead() {
	echo ahead > $K/bound_mode || fail "ahead is refused"
	echo 256 > $K/ahead_fallback_kib
	echo 256 > $K/ahead_hi_kib
	echo 0 > $K/ahead_lo_kib
	echo 9000 > $K/ahead_lead_us
}
look_ahead
holds() { # k2 predicts the reader, knows the drive's rate, and has held background requests
	[ "$(counted vflash0 ahead_predicted)" = 1 ] && [ "$(counted vflash0 ahead_rate_kib_s)" -gt 0 ] &&
		[ "$(counted vflash0 ahead_ticks)" -gt $ticks ]
}
await_holding() {
	ticks=$(counted vflash0 ahead_ticks)
	await "background requests are never held" holds
}
real_time() { # THINKTIME
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thinktime=$1 $FOREVER --thread
}
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=8 --size=32m \
	--loops=1000 $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=16k --ioengine=libaio --iodepth=8 --norandommap \
	$FOREVER
go_on 200
real_time 20ms
await_holding
go_on 50
of_rt STOP
go_on 200
of_rt CONT
await_holding
for round in 1 2; do
	scheduler vflash0 none
	scheduler vflash0 k2
	echo 1000 > $K/inflight_max
	look_ahead
	await_holding
	go_on 20
done
today=$(date +%s)
for seconds in 100000 -100000; do # k2 uses the monotonic clock
	date -s @$(($(date +%s) + seconds)) > /dev/null || fail "the clock cannot be set"
	go_on 50
done
[ $(($(date +%s) - today)) -lt 1000 ] || fail "the clock was not set back"
for state in 0 1; do
	for cpu in $(seq 1 $((CPUS - 1))); do
		echo $state > /sys/devices/system/cpu/cpu$cpu/online || fail "CPU $cpu does not become $state"
		go_on 50
	done
done
of_rt 9
end rt 137
go_on 200
real_time 200ms
go_on 200
of_rt 9
end rt 137
go_on 200
echo "$(counted vflash0 ahead_ticks) ticks, $(counted vflash0 ahead_rate_kib_s) KiB/s"
stop writer reader
unchanged writer
account vflash0
