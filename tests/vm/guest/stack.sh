# SPDX-License-Identifier: GPL-2.0-only
# Tests that k2 on a loop device on a disk with k2 does not deadlock when both split at insertion and have few scheduler tags: the
# upper disk's worker waits for I/O that the lower disk's worker has to split.
modprobe loop max_loop=1 || fail "loop does not load"
vflash memory_backed=1
losetup /dev/loop0 /dev/vflash0 || fail "no loop device"
dio /dev/loop0 || fail "loop uses the page cache"
piece=8
for disk in loop0 vflash0; do
	attach $disk 2
	for setting in nr_requests=4 nomerges=2 iosched/split_kib=$piece; do
		echo ${setting#*=} > /sys/block/$disk/queue/${setting%%=*} || fail "$disk takes no $setting"
	done
	piece=4
done
load loop0 --name=w --rw=randwrite --bs=64k --ioengine=libaio --iodepth=16 --numjobs=2 --size=8m --offset_increment=16m \
	--verify=crc32c --verify_fatal=1 --do_verify=1
for disk in loop0 vflash0; do
	echo "$disk: $(counted $disk split_requests) split in $(counted $disk split_pieces)"
	[ "$(counted $disk split_requests)" -ge 500 ] || fail "$disk: too few are split"
done
account loop0
losetup -d /dev/loop0
account vflash0
