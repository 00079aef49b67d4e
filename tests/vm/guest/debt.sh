# SPDX-License-Identifier: GPL-2.0-only
# Tests that the bound on the debt of writes learns how fast the drive programs writes, holds writes, and dispatches all of them in the
# end: with the real-time reader and after its end, when the scheduler is switched, and with a bound on bytes that counts the
# debt too; and that data stay right.
vflash memory_backed=1 buffer_kib=1024 program_ns=32000000 erase_ns=0
attach vflash0 32
K=/sys/block/vflash0/queue/iosched
expect "the debt of writes" "$(cat $K/write_debt_kib_max)" 0
for word in AUTO -1 many; do
	expect "'$word' to write_debt_kib_max" "$(put $K/write_debt_kib_max $word)" EINVAL
done
expect "the value reserved for auto" "$(put $K/write_debt_kib_max 4294967295)" ERANGE
held() { # has the timer run the queue more than 30 times since?
	[ "$(counted vflash0 ahead_ticks)" -gt $((ticks + 30)) ]
}
await_holding() {
	await "the rate of the drive is not learned" counts write_drain_kib_s 500
	ticks=$(counted vflash0 ahead_ticks)
	await "writes are never held" held
}
begin writer fio $QUIET --filename=/dev/vflash0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=24 --size=32m \
	--loops=1000 $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=256
begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=1 \
	--thinktime=5ms $FOREVER --thread
for limit in auto 256; do
	echo $limit > $K/write_debt_kib_max || fail "$limit is refused"
	expect "the debt of writes" "$(cat $K/write_debt_kib_max)" $limit
	await_holding
	go_on 100
done
echo 300 > $K/inflight_kib_max
go_on 100
echo 0 > $K/inflight_kib_max
scheduler vflash0 none
scheduler vflash0 k2
echo 32 > $K/inflight_max
echo auto > $K/write_debt_kib_max
await_holding
of_rt 9
end rt 137
go_on 200
echo "$(counted vflash0 ahead_ticks) ticks, $(counted vflash0 write_drain_kib_s) KiB/s," \
	"$(counted vflash0 write_debt_kib_max_now) KiB"
stop writer
unchanged writer
account vflash0
