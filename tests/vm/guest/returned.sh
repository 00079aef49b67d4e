# SPDX-License-Identifier: GPL-2.0-only
# Tests that a request that the driver returns is inserted again each time, and goes before all others: with one request in flight, at
# most one other request takes the free slot first. It uses tracepoints, which are switched on and off under load, so it needs a
# machine whose CPUs are emulated in one thread.
TRACE=/sys/kernel/tracing
trace() { # 0 OR 1
	[ $1 = 0 ] || echo 0 > $TRACE/trace
	for event in block_rq_requeue block_rq_issue; do
		echo $1 > $TRACE/events/block/$event/enable
	done
}
vflash timeout_ms=100 read_ns=$((500000 * SLOW)) depth=1023
attach vflash0 8
echo 2 > /sys/block/vflash0/queue/nomerges
for faults in "requeue_every=7" "lose_every=97 timeout_requeue=1"; do
	at_first=$(($(counted vflash0 inserted) - $(completed vflash0)))
	trace 1
	fault $faults
	load vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --number_ios=600
	no_faults
	trace 0
	account vflash0
	times=$(grep -c block_rq_requeue: $TRACE/trace)
	[ $times -gt 5 ] || fail "only $times returned ($faults)"
	expect "inserted again ($faults)" $(($(counted vflash0 inserted) - $(completed vflash0) - at_first)) $times
done
expect "most requests in the drive at a time" "$(sed -n 's/slots_used_max //p' $FAULTS/statistics)" 8

set_bound vflash0 1
echo 1023 > /sys/block/vflash0/queue/nr_requests
trace 1
fault requeue_every=5
order vflash0 $SEED $CPUS > /tmp/order.out # its check of the order does not apply
no_faults
trace 0
account vflash0
awk '/block_rq_requeue:/ { sub(/.*block_rq_requeue: /, ""); sub(/ \[.*/, ""); returned[key($0)] = n + 0; times++ }
	/block_rq_issue:/ { sub(/.*block_rq_issue: /, ""); sub(/ \[.*/, ""); k = key($0)
		if (k in returned && n - returned[k] > worst) worst = n - returned[k]
		delete returned[k]; n++ }
	function key(line) { return match(line, /[0-9]+ \+ [0-9]+/) ? substr(line, RSTART, RLENGTH) : line }
	END { printf "%d requests returned, at most %d others before them\n", times, worst; exit worst > 1 || times < 5 }' \
	$TRACE/trace || { grep block_rq $TRACE/trace | head -60; fail "a returned request waited"; }
