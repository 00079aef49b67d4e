# SPDX-License-Identifier: GPL-2.0-only
# Tests strict order: with one request in flight, levels are served from 0 to 8, FIFO within a level and hardware queue.
vflash read_ns=1000000 depth=1023
echo 1023 > /sys/block/vflash0/queue/nr_requests
attach vflash0 1
[ $SCHEDULER != k2 ] || echo 0 > /sys/block/vflash0/queue/iosched/be_floor_iops # strict priority
for run in 0 1 2; do
	order vflash0 $((SEED + run)) $CPUS > /tmp/order.out || fail "seed $((SEED + run)): $(cat /tmp/order.out)"
	account vflash0
done
