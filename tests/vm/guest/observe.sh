# SPDX-License-Identifier: GPL-2.0-only
# Tests that the tracepoints show which bound holds the background, alternating with its release, and what was predicted; and that
# each real-time request is traced at its end, but none while tracing is off.
T=/sys/kernel/tracing
vflash memory_backed=1 read_fixed_ns=$((200000 * SLOW)) write_fixed_ns=$((200000 * SLOW))
MODULE=k2_experiments
attach vflash0 1000
K=/sys/block/vflash0/queue/iosched
real_time() { # FIO_OPTION...
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thread "$@"
}

# --- tracepoints ---

expect "tracepoints" "$(ls $T/events/k2 | tr '\n' ' ')" "enable filter hold predict release rt_complete "
seen() { # PATTERN TIMES
	[ $(grep -c "$1" $T/trace) -ge $2 ]
}
traced() { # PATTERN TIMES: clears the trace, awaits this many matching lines, and checks the trace
	echo 0 > $T/tracing_on # the tracepoints are enabled and disabled one by one
	echo > $T/trace
	echo 1 > $T/events/k2/enable
	echo 1 > $T/tracing_on
	await "no trace of $1" seen "$1" $2
	echo 0 > $T/tracing_on
	echo 0 > $T/events/k2/enable
	grep ' \(hold\|release\|predict\): ' $T/trace > /tmp/trace
	sed -n 's/^.*\] [^ ]* *\([0-9.]*: \)/\1/p' /tmp/trace | head -6
	# hold and release alternate, and a held request does not fit into the bound
	awk '{ for (i = 1; i <= NF; i++) { split($i, part, "="); value[part[1]] = part[2] } }
		function wrong(what) { print what ": " $0; failed = 1 }
		/ hold: / {
			if (last == "hold") wrong("held twice")
			last = "hold"
			if (value["reason"] == "count" && value["inflight"] < value["limit"]) wrong("room for one")
			if (value["reason"] != "count" && value["bytes"] + value["inflight_bytes"] <= value["limit"])
				wrong("room for the bytes")
		}
		/ release: / {
			if (last == "release") wrong("released twice")
			last = "release"
		}
		END { exit failed || NR == 0 }' /tmp/trace || fail "the trace is wrong"
}
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=16k --ioengine=libaio --iodepth=8 --norandommap \
	$FOREVER
go_on 50
echo 3 > $K/inflight_max
traced 'hold: .* reason=count bytes=16384 inflight=[3-8] inflight_bytes=[0-9]* limit=3' 20
grep -q 'release: .* reason=completion' /tmp/trace || fail "no completion has released the background"
echo 1000 > $K/inflight_max
echo 64 > $K/inflight_kib_max
traced 'hold: .* reason=bytes bytes=16384 inflight=4 inflight_bytes=65536 limit=65536' 20
! grep -q predict: /tmp/trace || fail "a prediction without looking ahead"

# with this lead, background requests are held for most of a period of 20 ms (times SLOW)
echo ahead > $K/bound_mode
echo 0 > $K/inflight_kib_max
echo 256 > $K/ahead_fallback_kib
echo 128 > $K/ahead_hi_kib
echo 0 > $K/ahead_lo_kib
echo $((9000 * SLOW)) > $K/ahead_lead_us
real_time --thinktime=$((20 * SLOW))ms $FOREVER
predicted() {
	[ "$(counted vflash0 ahead_predicted)" = 1 ]
}
await "the reader is not predicted" predicted
traced 'hold: .* reason=ahead bytes=16384 inflight=0 ' 5
grep -q 'release: .* reason=completion' /tmp/trace || fail "no completion has released the background"
traced 'predict: .* was_predicted=1' 20
awk -v period=$((20000000 * SLOW)) '/ predict: / { for (i = 1; i <= NF; i++) { split($i, part, "="); value[part[1]] = part[2] } }
	/ predict: / && (value["flow"] || value["level"] != 1 || value["cgroup"] != 1) { print "whose is it? " $0; wrong = 1 }
	/was_predicted=0/ && (value["due_ns"] || value["error_ns"] || value["in_time"]) { print "of nothing: " $0; wrong = 1 }
	/was_predicted=1/ {
		all++
		near += value["error_ns"] > -period / 10 && value["error_ns"] < period / 10
		in_time += value["in_time"]
		if (value["gap_ns"] < period / 2) { print "after such a pause? " $0; wrong = 1 }
	}
	END { print all " predicted, " in_time " in time, " near " within a tenth of the period"
		exit wrong || near * 2 < all || in_time * 2 < all }' /tmp/trace || fail "predictions are wrong"
of_rt 9
end rt 137
echo 1 > $T/tracing_on
echo 1 > $T/events/k2/enable
# the tracepoints are enabled while the scheduler is switched off and on, without real-time requests
for round in 1 2 3; do
	scheduler vflash0 none
	scheduler vflash0 k2
	echo 3 > $K/inflight_max
	go_on 20
done
echo 0 > $T/events/k2/enable
echo > $T/trace
go_on 20
expect "lines while tracing is off" "$(grep -c '^[^#]' $T/trace)" 0
stop reader
account vflash0
await "vflash does not unload" rmmod vflash # killed processes may not have ended yet

# --- real-time requests, one by one ---

vflash read_fixed_ns=5000000
attach vflash0 16
E=$T/events/k2/rt_complete
rows() { # prints the traced requests
	grep ' rt_complete: ' $T/trace | sed 's/.* rt_complete: //'
}
count() {
	rows | wc -l
}
requests() { # FIO_OPTION...: makes real-time requests until fio ends
	real_time "$@"
	end rt
}
wrong_rows() { # WHAT CONDITION: fails if a row meets a condition of awk on its fields, in v
	rows | awk '{ for (i = 1; i <= NF; i++) { split($i, part, "="); v[part[1]] = part[2] } }
		v["total_us"] != v["queue_us"] + v["device_us"] || ('"$2"') { print; wrong = 1 }
		END { exit !wrong }' && fail "$1"
}
echo > $T/trace
echo 1 > $T/tracing_on
requests --number_ios=10
expect "requests traced while tracing is off" "$(count)" 0
echo 1 > $E/enable
requests --number_ios=10
expect "requests of 10" "$(count)" 10
rows | tail -2
# the reader may submit its next request before k2 has seen the end of the last one
wrong_rows "requests are wrong" 'v["level"] != 1 || v["op"] != "read" || v["sectors"] != 8 || v["device_us"] < 4000 ||
	v["met_kib"] > 4 || v["was_predicted"] || v["error_us"] || v["owed_kib"]'
echo 'total_us > 4000 && sectors == 16' > $E/filter
requests --number_ios=10
expect "requests that pass the filter" "$(count)" 10
echo 0 > $E/filter
echo > $T/trace
echo 0 > $E/enable
echo 65536 > $K/inflight_kib_max # k2 counts bytes in the drive only while there is a bound on them
begin background fio $QUIET --filename=/dev/vflash0 --name=b --rw=randread --bs=16k --ioengine=libaio --iodepth=4 \
	--norandommap $FOREVER
go_on 20
echo 1 > $E/enable
requests --number_ios=100 --bs=8k
expect "requests of 100" "$(count)" 100
wrong_rows "requests beside a background are wrong" 'v["sectors"] != 16 || v["met_kib"] > 72' # with 8 KiB of its last request
rows | grep -v -q ' met_kib=0 ' || fail "no request found others in the drive"
echo 0 > $E/enable
requests --number_ios=5
echo > $T/trace
echo 1 > $E/enable
expect "requests traced before tracing was enabled again" "$(count)" 0

# requests of a predicted flow have the error of the prediction
echo ahead > $K/bound_mode
echo 64 > $K/ahead_fallback_kib
real_time --thinktime=20ms $FOREVER
error_known() {
	[ $(rows | grep -c was_predicted=1) -ge 10 ]
}
await "no error of a prediction" error_known
rows | tail -2
of_rt 9
end rt 137

# requests are returned, the depth changes, the scheduler is switched, and tracing is switched
fault requeue_every=5 dontprep=0
real_time --ioengine=libaio --iodepth=4 $FOREVER
traced_again() { # clears the trace, and awaits new rows
	echo > $T/trace
	await "no request is traced" eval '[ $(count) -ge 5 ]'
}
for round in 1 2 3; do
	for tags in 4 1023 64; do
		echo $tags > /sys/block/vflash0/queue/nr_requests
		go_on 10
	done
	scheduler vflash0 none
	expect "statistics after the scheduler was switched off" "$(statistics vflash0)" ""
	scheduler vflash0 k2
	traced_again
	echo 0 > $E/enable
	echo 1 > $E/enable
	traced_again
done
wrong_rows "times are wrong" 'v["total_us"] > 60000000'
stop background rt
no_faults
account vflash0
exec 3< /proc/tailgate-k2
scheduler vflash0 none
echo 1 > $T/events/k2/enable
rmmod $MODULE || fail "k2 does not unload while its statistics are open and it is traced"
exec 3<&-
[ ! -e $T/events/k2 ] || fail "tracepoints of an unloaded module"
