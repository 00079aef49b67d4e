# SPDX-License-Identifier: GPL-2.0-only
# Tests that with bound_when active, bounds and pieces apply only during real-time activity; that requests staged before are then
# split; and that data stay right.
vflash memory_backed=1 attachment=1 read_fixed_ns=2000000 write_fixed_ns=2000000
attach vflash0 1
Q=/sys/block/vflash0/queue
K=$Q/iosched
for word in never '\n' 1 2 ACTIVE; do
	expect "'$word' to bound_when" "$(put $K/bound_when "$word")" EINVAL
	expect "after '$word'" "$(cat $K/bound_when)" always
done
expect "in the statistics" "$(statistics vflash0 | awk '$1 == "bound_when" { print $2 }')" always
echo active > $K/bound_when || fail "active is refused"
expect "bound_when" "$(cat $K/bound_when)" active
echo 64 > $Q/nr_requests
echo 16 > $K/split_kib
constrains() { # 0 OR 1
	[ "$(counted vflash0 constrains)" = $1 ]
}
whole() { # no further request is split
	pieces=$(counted vflash0 split_pieces)
	go_on 20
	[ "$(counted vflash0 split_pieces)" = $pieces ]
}
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=8 --size=32m \
	--loops=1000 $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=8 --norandommap \
	$FOREVER
go_on 20
expect "constrained without real-time requests" "$(counted vflash0 constrains)" 0
expect "pieces without real-time requests" "$(counted vflash0 split_pieces)" 0
for round in 1 2; do
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thinktime=2ms $FOREVER --thread
	await "the background is not constrained" constrains 1
	pieces=$(counted vflash0 split_pieces)
	go_on 100
	counts split_pieces $((pieces + 32)) || fail "the background is not split"
	of_rt 9
	end rt 137
	await "the background stays constrained" constrains 0
	await "the background is still split" whole # a worker may not have finished
done
counts split_staged 1 || fail "no staged request was split"
echo "$(counted vflash0 rt_activations) activations, $(counted vflash0 split_staged) split where they were staged"
stop writer reader
unchanged writer
account vflash0
