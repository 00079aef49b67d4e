# SPDX-License-Identifier: GPL-2.0-only
# Tests vflash0 as the drivers of USB storage and eMMC present it: how many requests they take, that data stay right with all faults, and
# that no request is stranded, with schedulers that limit requests in flight (K2) and with others. Judges how many requests are taken at a
# time, so time is virtual.
insmod $EXTRA/k2.ko || fail "k2 does not load"
schedulers="none mq-deadline k2"

choose() { # SCHEDULER
	echo $1 > $QUEUE/scheduler || fail "no scheduler $1"
}
usually_inflight() { # prints the median of 41 samples of the requests that the block layer has issued
	looks=0
	while [ $looks -lt 41 ]; do
		read -r reads writes < /sys/block/vflash0/inflight
		echo $((reads + writes))
		looks=$((looks + 1))
		usleep 2000
	done | sort -n | sed -n 21p
}
full() { # SEEN MOST: is SEEN MOST, or at least half of it if MOST is above 2? Some may wait after a refusal
	[ "$1" -le $2 ] && [ "$1" -ge $(($2 > 2 ? $2 / 2 : $2)) ]
}
stop() { # kills fio; after a signal that fio catches, it may wait for I/O that it never submitted
	kill -9 $(pidof fio)
	await "a request is stranded" no_fio
}

cat > /tmp/verify.fio <<- JOBS
	[global]
	filename=$DISK
	direct=1
	verify=crc32c
	verify_fatal=1
	verify_backlog=64
	rw=randwrite
	[large]
	bsrange=4k-512k
	ioengine=libaio
	iodepth=16
	size=2m
	[ring]
	bsrange=4k-64k
	ioengine=io_uring
	iodepth=16
	offset=16m
	size=1m
	[real_time]
	bs=4k
	ioengine=psync
	prioclass=1
	offset=32m
	size=512k
	[sync]
	direct=0
	bsrange=4k-64k
	ioengine=psync
	fsync=8
	offset=48m
	size=1m
JOBS

# name, attachment, tags, nr_requests by default with a scheduler, requests issued under load, most in the drive, dilation for that
while read -r name number tags default issued inside dilation; do
	step "$name: numbers of hardware queues, of tags and of requests taken"
	load attachment=$number slots=256 dilation=$dilation
	[ "$(ls /sys/block/vflash0/mq | wc -l)" = 1 ] || fail "hardware queues: $(ls /sys/block/vflash0/mq)"
	for scheduler in $schedulers; do
		choose $scheduler
		expected=$default
		[ $scheduler != none ] || expected=$tags
		[ "$(cat $QUEUE/nr_requests)" = $expected ] || fail "$scheduler: nr_requests $(cat $QUEUE/nr_requests)"
		[ $scheduler = none ] || echo 256 > $QUEUE/nr_requests || fail "$scheduler takes no 256 requests"
		[ $scheduler != k2 ] || echo 64 > $QUEUE/iosched/inflight_max
		under_load 60
		seen=$(usually_inflight)
		stop
		full "$seen" $issued || fail "$scheduler: $seen issued, expected $issued"
		full "$(counted slots_used_max)" $inside || fail "$scheduler: $(counted slots_used_max) in the drive"
	done
	unload

	step "$name: data stay right with all faults at once"
	load attachment=$number memory_backed=1 capacity_mib=64 timeout_ms=100
	for scheduler in $schedulers; do
		choose $scheduler
		verified $scheduler lose_every=199
	done
	unload

	step "$name: unplugged under load"
	for scheduler in $schedulers; do
		load attachment=$number
		choose $scheduler
		fault requeue_every=5 busy_every=9
		under_load 200
		echo 1 > $PARAMETERS/remove
		[ ! -e /sys/block/vflash0 ] || fail "still there"
		wait
		unload
	done
done <<- ATTACHMENTS
	usb 1 1 2 1 1 100
	mmc 2 64 128 2 1 100
	cqe 3 32 64 32 32 400
ATTACHMENTS

step "fewer tags than the attachment has"
load attachment=3 depth=16
choose none
[ "$(cat $QUEUE/nr_requests)" = 16 ] || fail "nr_requests $(cat $QUEUE/nr_requests)"
unload
rmmod k2 || fail "k2 does not unload"
