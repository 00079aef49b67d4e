# SPDX-License-Identifier: GPL-2.0-only
# Tests that requests of a drive with inline encryption give back the slot of their key, whether they are split, merged or neither. The
# drive has one slot, and each of two files has a key of its own: if one request kept the slot, the other file's would wait for ever.
# Needs a kernel with inline encryption.
vflash memory_backed=1 keyslots=1
[ -e $FAULTS/keyslots ] || skip "this kernel has no inline encryption"
attach vflash0 8
Q=/sys/block/vflash0/queue
/bin/mke2fs -q -t ext4 -b 4096 -O encrypt -E nodiscard,lazy_itable_init=1 /dev/vflash0 128m || fail "mke2fs"
modprobe ext4
mkdir -p /mnt
mount -t ext4 -o inlinecrypt /dev/vflash0 /mnt || fail "ext4 does not mount with inlinecrypt"
mkdir /mnt/secret
encrypt /mnt /mnt/secret || fail "no encryption"
keys() { # how often the drive was given a key
	sed -n 's/^keys //p' $FAULTS/statistics
}
for piece in 0 16; do
	[ ! -e $Q/iosched/split_kib ] || echo $piece > $Q/iosched/split_kib
	for nomerges in 0 2; do
		echo $nomerges > $Q/nomerges
		before=$(keys)
		begin files fio $QUIET --directory=/mnt/secret --size=4m --ioengine=libaio --iodepth=8 --iodepth_batch=8 \
			--verify=crc32c --verify_fatal=1 --do_verify=1 --name=large --rw=randwrite --bs=128k \
			--name=small --rw=write --bs=4k
		end files
		[ $(keys) -gt $((before + 1)) ] || fail "the drive was given $(($(keys) - before)) keys"
		echo "split_kib $piece, nomerges $nomerges: $(($(keys) - before)) times a key"
		rm /mnt/secret/*
	done
done
umount /mnt
account vflash0
[ $SCHEDULER != k2 ] || [ $(counted vflash0 split_requests) -gt 0 ] || fail "nothing was split"
