# SPDX-License-Identifier: GPL-2.0-only
# Tests that passthrough commands are not counted, and that a SCSI disk is scanned and deleted under load.
scsi delay=0 ndelay=20000 submit_queues=$CPUS max_queue=32
attach $DISK 4
bound $DISK 4
load $DISK --name=r --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --number_ios=1000 --norandommap
bound_kept
account $DISK
before=$(counted $DISK inserted)
for i in 1 2 3; do
	cat /sys/block/$DISK/device/vpd_pg80 > /dev/null
	echo 1 > /sys/block/$DISK/device/rescan
done
account $DISK
expect "inserted by passthrough commands" $(counted $DISK inserted) $before

begin reads fio $QUIET --filename=/dev/$DISK --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 --numjobs=2 \
	$FOREVER
progress $DISK
for i in 1 2 3; do
	echo 1 > /sys/block/$DISK/device/rescan
	progress $DISK
done
echo 1 > /sys/block/$DISK/device/delete
await "fio does not notice that the disk is gone" ended reads
[ -z "$(statistics $DISK)" ] || fail "statistics of a disk that is gone"

[ $SCHEDULER = k2 ] || exit 0
# Requests with protection information are not split.
rmmod scsi_debug || fail "scsi_debug does not unload"
scsi dif=1 dix=1
expect "protection information" "$(cat /sys/block/$DISK/integrity/format)" T10-DIF-TYPE1-CRC
attach $DISK 4
echo 16 > /sys/block/$DISK/queue/iosched/split_kib
load $DISK --name=w --rw=write --bs=64k --number_ios=16 --ioengine=psync --verify=crc32c --do_verify=1
expect "requests with protection information, split" "$(counted $DISK split_requests)" 0
account $DISK
