# SPDX-License-Identifier: GPL-2.0-only
# Tests strict order: with one request in flight, levels are served from 0 to 8, FIFO within a level and hardware queue,
# and a request that the driver returned goes before all of them.
vflash read_ns=5000000 max_kib=1024 depth=1023
echo 1024 > /sys/block/vflash0/queue/max_sectors_kb
echo 1023 > /sys/block/vflash0/queue/nr_requests
k2 vflash0 1
for run in 0 1 2; do
	tries=0
	while order vflash0 $((SEED + run)) $CPUS > /tmp/order.out; code=$?; [ $code = 3 ]; do
		tries=$((tries + 1)) # this machine was too slow
		[ $tries -lt 5 ] || fail "$(cat /tmp/order.out)"
	done
	[ $code = 0 ] || fail "seed $((SEED + run)): $(cat /tmp/order.out)"
	account vflash0
done

# With one in flight, between the return of a request and its next issue at most one other has taken the free slot.
TRACE=/sys/kernel/tracing
fault requeue_every=5
echo 0 > $TRACE/trace
for event in block_rq_requeue block_rq_issue; do
	echo 1 > $TRACE/events/block/$event/enable
done
order vflash0 $SEED $CPUS > /tmp/order.out
no_faults
echo 0 > $TRACE/events/block/enable
account vflash0
awk '/block_rq_requeue:/ { sub(/.*block_rq_requeue: /, ""); sub(/ \[.*/, ""); returned[key($0)] = n + 0; times++ }
	/block_rq_issue:/ { sub(/.*block_rq_issue: /, ""); sub(/ \[.*/, ""); k = key($0)
		if (k in returned && n - returned[k] > worst) worst = n - returned[k]
		delete returned[k]; n++ }
	function key(line) { return match(line, /[0-9]+ \+ [0-9]+/) ? substr(line, RSTART, RLENGTH) : line }
	END { printf "%d requests returned, at most %d others before them\n", times, worst; exit worst > 1 || times < 5 }' \
	$TRACE/trace || { grep block_rq $TRACE/trace | head -60; fail "a returned request waited"; }
