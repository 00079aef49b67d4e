# SPDX-License-Identifier: GPL-2.0-only
# Tests, and shows, that real-time readers who saturate the drive starve best effort, that it goes on once they stop, and
# that with a floor it gets that beside them.
vflash slots=16 read_ns=1000000
k2 vflash0 8
level8() {
	counted vflash0 level8.dispatched
}
begin best fio $QUIET --filename=/dev/vflash0 --name=be --rw=randread --bs=4k --ioengine=libaio --iodepth=4 --norandommap \
	--time_based --runtime=100
progress vflash0 30
begin rt fio $QUIET --filename=/dev/vflash0 --name=rt --rw=randread --bs=4k --ioengine=libaio --iodepth=16 --numjobs=3 \
	--norandommap --prioclass=1 --prio=4 --time_based --runtime=8
real_time() {
	[ $(awk '$1 == "level4.inflight" { print $2 }' /proc/tailgate/vflash0) = 8 ]
}
await 30 "real-time requests do not fill the drive" real_time
usleep 500000
all=$(counted vflash0 dispatched) best=$(level8)
usleep 2000000
best=$(($(level8) - best)) all=$(($(counted vflash0 dispatched) - all))
echo 200 > /sys/block/vflash0/queue/iosched/be_floor_iops
usleep 100000
owed=$(level8)
uptime_ms
since=$NOW
usleep 2000000
owed=$(($(level8) - owed))
uptime_ms
since=$((NOW - since))
echo 0 > /sys/block/vflash0/queue/iosched/be_floor_iops
await 5 "real-time requests do not fill the drive any more" real_time
end rt 20
echo "with a floor of 200 a second best effort gets $owed in $since ms"
# what a host that is busy elsewhere holds up is not made good
[ $((owed * 1000)) -ge $((since * 200 / 2)) ] || fail "best effort gets less than its floor"
[ $((owed * 1000)) -le $((since * 200 * 12 / 10)) ] || fail "best effort gets more than its floor"
echo "beside saturating real-time readers best effort gets $best of $all requests"
[ $((best * 8)) -lt $all ] || fail "best effort is not held back"
best=$(level8)
uptime_ms
latest=$((NOW + 5000))
until [ $(level8) -gt $((best + 20)) ]; do
	uptime_ms
	[ $NOW -lt $latest ] || stuck "best effort does not go on"
done
stop best
account vflash0
