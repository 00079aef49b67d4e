# SPDX-License-Identifier: GPL-2.0-only
# Tests that in split_mode auto bounds and pieces are in force while there is real-time activity and not without; that what
# was staged before is split then; that pieces grow; and that data stay right through it.
vflash memory_backed=1 attachment=1 read_fixed_ns=2000000 write_fixed_ns=2000000
k2 vflash0 1
Q=/sys/block/vflash0/queue
K=$Q/iosched
for word in never '\n' 1 2 AUTO; do
	expect "'$word' to split_mode" "$(put $K/split_mode "$word")" EINVAL
	expect "after '$word'" "$(cat $K/split_mode)" always
done
expect "in the statistics" "$(awk '$1 == "split_mode" { print $2 }' /proc/tailgate/vflash0)" always
echo auto > $K/split_mode || fail "auto is refused"
expect "split_mode" "$(cat $K/split_mode)" auto
echo 64 > $Q/nr_requests
echo 16 > $K/split_kib
constrains() { # 0 OR 1
	[ "$(counted vflash0 constrains)" = $1 ]
}
whole() { # nothing more is split
	pieces=$(counted vflash0 split_pieces)
	go_on 20
	[ "$(counted vflash0 split_pieces)" = $pieces ]
}
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=8 --size=32m \
	--loops=1000 --time_based --runtime=600 --verify=crc32c --verify_fatal=1 --verify_backlog=32
begin reader fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=8 --norandommap \
	--time_based --runtime=600
go_on 20
expect "alone it is not constrained" "$(counted vflash0 constrains)" 0
expect "nor split" "$(counted vflash0 split_pieces)" 0
for round in 1 2; do
	begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
		--thinktime=2ms --time_based --runtime=100 --thread
	await 30 "it is not constrained" constrains 1
	pieces=$(counted vflash0 split_pieces)
	go_on 100
	counts split_pieces $((pieces + 32)) || fail "the background is not split"
	# 4 KiB at first, and more as the drive allows: a second, also on a slow host
	[ $round = 1 ] || await 30 "pieces do not grow" counts piece_kib 8
	of_rt 9
	end rt 30 137
	await 30 "it is constrained for ever" constrains 0
	await 30 "it is split for ever" whole # a worker may still be at it
	echo 0 > $K/split_kib
	echo 1000000 > $K/rt_wait_us
done
counts split_staged 1 || fail "nothing that was staged was split"
echo "$(counted vflash0 rt_activations) activations, $(counted vflash0 split_staged) split where they were staged"
stop writer reader
unchanged writer
account vflash0
