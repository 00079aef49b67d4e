# SPDX-License-Identifier: GPL-2.0-only
# Tests that tracepoints show which bound holds the background, in turns with its release, and what was predicted; and that
# the log of slow real-time requests has those above the threshold, the latest 64, and none while it is off.
T=/sys/kernel/tracing
SLOW=/proc/tailgate/vflash0.slow
vflash memory_backed=1 read_fixed_ns=200000 write_fixed_ns=200000
k2 vflash0 1000
K=/sys/block/vflash0/queue/iosched
real_time() { # FIO_OPTION...
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thread "$@"
}

# --- tracepoints ---

expect "tracepoints" "$(ls $T/events/k2 | tr '\n' ' ')" "enable filter hold predict release "
seen() { # PATTERN TIMES
	[ $(grep -c "$1" $T/trace) -ge $2 ]
}
traced() { # PATTERN TIMES: begin anew, and look until there are so many
	echo 0 > $T/tracing_on # the tracepoints are enabled, and disabled, one after the other
	echo > $T/trace
	echo 1 > $T/events/k2/enable
	echo 1 > $T/tracing_on
	await 60 "no trace of $1" seen "$1" $2
	echo 0 > $T/tracing_on
	echo 0 > $T/events/k2/enable
	grep ' \(hold\|release\|predict\): ' $T/trace > /tmp/trace
	sed -n 's/^.*\] [^ ]* *\([0-9.]*: \)/\1/p' /tmp/trace | head -6
	# hold and release come in turns, and what is held does not fit
	awk '{ for (i = 1; i <= NF; i++) { split($i, part, "="); value[part[1]] = part[2] } }
		function wrong(what) { print what ": " $0; failed = 1 }
		/ hold: / {
			if (last == "hold") wrong("held twice")
			last = "hold"
			if (value["reason"] == "count" && value["inflight"] < value["limit"]) wrong("room for one")
			if (value["reason"] != "count" && value["bytes"] + value["inflight_bytes"] <= value["limit"])
				wrong("room for the bytes")
			if (value["reason"] == "idle" && value["inflight"]) wrong("not idle")
		}
		/ release: / {
			if (last == "release") wrong("released twice")
			last = "release"
		}
		END { exit failed || NR == 0 }' /tmp/trace || fail "the trace is wrong"
}
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=16k --ioengine=libaio --iodepth=8 --norandommap \
	--time_based --runtime=600
go_on 50
echo 3 > $K/inflight_max
traced 'hold: .* reason=count bytes=0 inflight=[3-8] inflight_bytes=0 limit=3' 20
grep -q 'release: .* reason=completion' /tmp/trace || fail "no completion has released it"
echo 1000 > $K/inflight_max
echo 64 > $K/inflight_kib_max
traced 'hold: .* reason=bytes bytes=16384 inflight=4 inflight_bytes=65536 limit=65536' 20
! grep -q predict: /tmp/trace || fail "a prediction, and nothing looks ahead"

# with this lead the drive is kept free for most of a period of 20 ms
echo ahead > $K/bound_mode
echo 256 > $K/inflight_kib_max
echo 128 > $K/ahead_hi_kib
echo 0 > $K/ahead_lo_kib
echo 9000 > $K/ahead_lead_us
real_time --thinktime=20ms --time_based --runtime=600
predicted() {
	[ "$(counted vflash0 ahead_predicted)" = 1 ]
}
await 60 "it is not predicted" predicted
traced 'hold: .* reason=idle' 5
grep -q 'hold: .* reason=ahead' /tmp/trace || fail "the bound that looks ahead holds nobody"
grep -q 'release: .* reason=timer' /tmp/trace || grep -q 'release: .* reason=completion' /tmp/trace || fail "nobody releases it"
traced 'predict: .* was_predicted=1' 20
awk '/ predict: / { for (i = 1; i <= NF; i++) { split($i, part, "="); value[part[1]] = part[2] } }
	/ predict: / && (value["flow"] || value["level"] != 1 || value["cgroup"] != 1) { print "whose is it? " $0; wrong = 1 }
	/was_predicted=0/ && (value["due_ns"] || value["error_ns"] || value["in_time"]) { print "of nothing: " $0; wrong = 1 }
	/was_predicted=1/ {
		all++
		near += value["error_ns"] > -100000000 && value["error_ns"] < 100000000 # the host is busy elsewhere too
		in_time += value["in_time"]
		if (value["gap_ns"] < 10000000) { print "after a pause of 20 ms? " $0; wrong = 1 }
	}
	END { print all " predicted, " in_time " in time, " near " within 100 ms"
		exit wrong || near * 2 < all || in_time * 2 < all }' /tmp/trace || fail "predictions are wrong"
of_rt 9
end rt 30 137
echo 1 > $T/tracing_on
echo 1 > $T/events/k2/enable
# nobody waits any more, and the tracepoints are enabled while the scheduler goes and comes
for round in 1 2 3; do
	scheduler vflash0 none
	scheduler vflash0 k2
	echo 3 > $K/inflight_max
	go_on 20
done
echo 0 > $T/events/k2/enable
echo > $T/trace
go_on 20
expect "lines while nobody traces" "$(grep -c '^[^#]' $T/trace)" 0
stop reader
account vflash0
await 30 "vflash does not unload" rmmod vflash # who was killed may still be ending

# --- the log of slow requests ---

vflash read_fixed_ns=5000000
k2 vflash0 16
slow() { # the lines of the log
	sed 1,2d $SLOW
}
rows() {
	slow | wc -l
}
requests() { # FIO_OPTION...: real-time requests, until they have ended
	real_time "$@"
	end rt 60
}
expect "version" "$(head -1 $SLOW)" "k2 slow 1"
expect "columns" "$(sed -n 2p $SLOW)" "end_us level op sectors queue_us device_us met_kib error_us owed_kib"
expect "access" "$(stat -c %a $SLOW)" 444
for text in abc -1 '\n' 1.5; do expect "'$text' to slow_log_us" "$(put $K/slow_log_us "$text")" EINVAL; done
expect "too much" "$(put $K/slow_log_us 10000001)" ERANGE
expect "slow_log_us" "$(cat $K/slow_log_us)" 0
requests --number_ios=10
expect "rows while off" "$(rows)" 0
echo 10000000 > $K/slow_log_us
requests --number_ios=10
expect "rows with a threshold of 10 s" "$(rows)" 0
echo 4000 > $K/slow_log_us
requests --number_ios=10
expect "rows of 10" "$(rows)" 10
slow | tail -2
# what woke the reader may not have ended for k2 when the next comes
slow | awk '$2 != 1 || $3 != "READ" || $4 != 8 || $6 < 4000 || $7 > 4 || $8 != "-" || $1 <= last { print; wrong = 1 } { last = $1 }
	END { exit wrong || NF != 9 || $9 }' || fail "the log is wrong"
uptime_ms
last=$(slow | tail -1 | cut -d ' ' -f 1)
[ $((last / 1000)) -le $((NOW + 10)) ] && [ $((last / 1000 + 60000)) -gt $NOW ] || fail "time stamps are none: $last"
begin background fio $QUIET --filename=/dev/vflash0 --name=b --rw=randread --bs=16k --ioengine=libaio --iodepth=4 \
	--norandommap --time_based --runtime=600
go_on 20
expect "rows of 10 and a background" "$(rows)" 10
begin look sh -c "while :; do cat $SLOW > /dev/null; done"
requests --number_ios=100 --bs=8k
for pid in $(pidof sh); do ! grep -q "cat $SLOW" /proc/$pid/cmdline || kill -9 $pid; done
end look 10 137
expect "rows of 100" "$(rows)" 64
slow | awk '$4 != 16 || $7 > 128 || $1 < last { print; wrong = 1 } { last = $1; met += $7 > 0 } END { exit wrong || !met }' ||
	fail "the log beside a background is wrong"
echo 0 > $K/slow_log_us
expect "rows after it was switched off" "$(rows)" 0
requests --number_ios=5
echo 4000 > $K/slow_log_us
expect "rows after it was switched on" "$(rows)" 0

# a flow that is predicted
echo ahead > $K/bound_mode
echo 64 > $K/inflight_kib_max
real_time --thinktime=20ms --time_based --runtime=600
error_known() {
	slow | awk '$8 != "-" { known++ } END { exit known < 10 }'
}
await 60 "no error of a prediction" error_known
slow | tail -2
of_rt 9
end rt 30 137

# while requests come back, the depth changes and the scheduler goes
fault requeue_every=5 dontprep=0
real_time --ioengine=libaio --iodepth=4 --time_based --runtime=600
for round in 1 2 3; do
	for tags in 4 1023 64; do
		echo $tags > /sys/block/vflash0/queue/nr_requests
		go_on 10
	done
	exec 3< $SLOW # held open while the scheduler goes
	head -1 <&3 > /dev/null
	scheduler vflash0 none
	[ ! -e $SLOW ] || fail "the log of a scheduler that is gone"
	scheduler vflash0 k2
	! cat <&3 > /dev/null 2>&1 || fail "what was open reads on"
	exec 3<&-
	expect "rows of another scheduler" "$(rows)" 0
	echo 1 > $K/slow_log_us
	progress vflash0
done
stop background rt
no_faults
account vflash0
exec 3< $SLOW
scheduler vflash0 none
echo 1 > $T/events/k2/enable
rmmod k2 || fail "k2 does not unload while its log is open and somebody traces it"
exec 3<&-
[ ! -e $T/events/k2 ] || fail "tracepoints of a module that is gone"
