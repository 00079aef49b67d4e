# SPDX-License-Identifier: GPL-2.0-only
# Tests that k2 splits nothing on a path of a multipath NVMe drive. Requests move to another path when one goes away, and pieces would
# still need memory of the old one.
null
nvme loop

attach $NVME_PATH 4
echo 16 > /sys/block/$NVME_PATH/queue/iosched/split_kib
load nvme0n1 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 --number_ios=500
account $NVME_PATH
expect "requests that were split" $(counted $NVME_PATH split_requests) 0
[ $(counted $NVME_PATH dispatched) -ge 500 ] || fail "not all requests came by $NVME_PATH"

begin reads fio $QUIET --filename=/dev/nvme0n1 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 $FOREVER
progress $NVME_PATH
echo 1 > /sys/class/nvme/nvme0/delete_controller
await "fio does not notice that the drive is gone" ended reads
await "$NVME_PATH stays" test ! -e /sys/block/$NVME_PATH
[ -z "$(statistics $NVME_PATH)" ] || fail "statistics of a path that is gone"
