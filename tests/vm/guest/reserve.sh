# SPDX-License-Identifier: GPL-2.0-only
# Tests that best effort never holds more scheduler tags than rt_tags leaves to it, nor many fewer, and that a real-time request gets a
# tag at once. Time is virtual.
vflash queues=1 depth=1023 read_ns=5000000
attach vflash0 1
Q=/sys/block/vflash0/queue
held() { # prints the tags that best effort holds
	statistics vflash0 | awk '$1 == "level8.queued" || $1 == "level8.inflight" { held += $2 } END { print held }'
}
enough() { # LEAST
	[ $(held) -ge $1 ]
}
# The load always asks for more tags than there are, so if the scheduler gives too many, each sample shows it. One correct sample may be
# too high, as requests are inserted and dispatched while the counters are read.
in_limit() { # MOST
	got=$(held)
	[ $got -le $1 ]
}
for tags in 8 64 1023; do
	echo $tags > $Q/nr_requests
	for share in 25 0 90; do
		echo $share > $Q/iosched/rt_tags
		begin load fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=400 \
			--numjobs=3 --norandommap $FOREVER
		limit=$((tags - (tags * share + 99) / 100))
		[ $limit -gt 0 ] || limit=1
		await "best effort does not get its $limit of $tags tags" enough $((limit * 9 / 10))
		usleep 200000
		await "best effort holds more than its $limit of $tags tags" in_limit $limit
		echo "nr_requests $tags, rt_tags $share: best effort holds $got, may hold $limit"
		[ $share = 0 ] || {
			uptime_ms
			since=$NOW
			ionice -c 1 -n 0 dd if=/dev/vflash0 of=/dev/null bs=4k count=1 iflag=direct 2> /dev/null
			uptime_ms
			echo "a real-time read takes $((NOW - since)) ms"
			[ $((NOW - since)) -lt 100 ] || fail "a real-time read took $((NOW - since)) ms"
		}
		echo 1000 > $Q/iosched/inflight_max # lets the queue empty quickly
		stop load
		echo 1 > $Q/iosched/inflight_max
		account vflash0
	done
done
