# SPDX-License-Identifier: GPL-2.0-only
# Tests mqfq: its bound is kept, nothing is lost while requests come back, the depth changes and the
# scheduler is switched, and k2 works beside it.
insmod $EXTRA/mqfq.ko || fail "mqfq does not load"
vflash memory_backed=1 read_fixed_ns=1000000 write_fixed_ns=1000000
null irqmode=2 completion_nsec=20000 queue_mode=2
k2 nullb0
scheduler vflash0 mqfq
K=/sys/block/vflash0/queue/iosched
of_mqfq() { # KEY
	sed -n "s/^vflash0 $1 //p" /proc/tailgate-mqfq
}
of_drive() { # KEY
	sed -n "s/^$1 //p" /sys/module/vflash/parameters/statistics
}
expect "first line" "$(head -1 /proc/tailgate-mqfq)" "mqfq 1"
expect "knobs" "$(ls $K | tr "\n" " ")$(cat $K/d)" "d flow_by t_kib write_cost_pct 64"
for text in 0 65536; do expect "'$text'" "$(put $K/d $text)" ERANGE; done
expect "'many'" "$(put $K/d many)" EINVAL
echo 3 > $K/d
begin load fio $QUIET --filename=/dev/vflash0 --name=l --rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --numjobs=2 \
	--size=16m --offset_increment=16m $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
begin beside fio $QUIET --filename=/dev/nullb0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=16 \
	--norandommap $FOREVER
goes_on() {
	[ "$(of_mqfq dispatched)" -ge $1 ]
}
await "nothing goes" goes_on 1000
filled() {
	[ "$(of_drive slots_used_max)" -ge 3 ]
}
await "the drive is never as full as it may be" filled
fault requeue_every=7 busy_every=11
await "nothing goes with faults" goes_on $(($(of_mqfq dispatched) + 200))
for tags in 4 1023 64; do
	echo $tags > /sys/block/vflash0/queue/nr_requests
	await "nothing goes with $tags tags" goes_on $(($(of_mqfq dispatched) + 100))
done
no_faults
expect "most in the drive" "$(of_drive slots_used_max)" 3
for round in 1 2 3; do
	scheduler vflash0 none
	expect "without it" "$(cat /proc/tailgate-mqfq)" "mqfq 1"
	scheduler vflash0 mqfq
	await "nothing goes after it is back" goes_on 100
done
stop load beside
unchanged load
at_rest() {
	[ "$(of_mqfq inflight)$(of_mqfq queued)" = 00 ]
}
await "it does not come to rest" at_rest
account nullb0
scheduler vflash0 none
rmmod mqfq || fail "mqfq does not unload"
[ ! -e /proc/tailgate-mqfq ] || fail "the statistics stay"
