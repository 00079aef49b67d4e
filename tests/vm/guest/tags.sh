# SPDX-License-Identifier: GPL-2.0-only
# Tests that real-time requests do not wait longer with few scheduler tags: measures the latency of a real-time reader beside 96
# outstanding background reads, by nr_requests. The drive has 8 dies; time is virtual.
vflash capacity_mib=4096 dies=8 read_ns=56000 read_fixed_ns=20000 depth=1023 queues=1 dilation=$SLOW
attach vflash0 8
echo 0 > /sys/block/vflash0/queue/wbt_lat_usec 2> /dev/null
for tags in 1023 64 8; do
	echo $tags > /sys/block/vflash0/queue/nr_requests || fail "nr_requests $tags"
	expect nr_requests "$(cat /sys/block/vflash0/queue/nr_requests)" $tags
	fio --output=/tmp/tags.json --output-format=json --filename=/dev/vflash0 --direct=1 --norandommap --randrepeat=1 \
		--rw=randread --bs=64k --time_based --runtime=$((30 * SLOW)) \
		--name=background --ioengine=libaio --iodepth=32 --numjobs=3 \
		--name=rt --startdelay=$((50 * SLOW))ms --ioengine=psync --prioclass=1 --prio=0 --thinktime=$((2 * SLOW))ms --time_based=0 \
		--number_ios=400 --exitall=1 > /tmp/tags.err 2>&1 || fail "$(cat /tmp/tags.err)"
	p99=$(sed -n '/"jobname" : "rt"/,$p' /tmp/tags.json | awk -F '[:,]' '/"99.000000"/ { print int($2 / 1000); exit }')
	p99=$((p99 / SLOW))
	[ $tags != 1023 ] || many=$p99
	echo "nr_requests $tags: real-time p99 $p99 us"
	[ $((p99 * 5)) -lt $((many * 6)) ] || fail "with $tags tags p99 is more than a fifth above that with 1023"
	account vflash0
done
echo 2 > /sys/block/vflash0/queue/nr_requests # the kernel may enforce a higher minimum
echo "nr_requests 2 becomes $(cat /sys/block/vflash0/queue/nr_requests)"
