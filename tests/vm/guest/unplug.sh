# SPDX-License-Identifier: GPL-2.0-only
# Tests that the scheduler is switched off and freed when its drive is unplugged under load.
for bound in 2 32; do
	vflash slots=4
	attach vflash0 $bound
	begin load fio $QUIET --filename=/dev/vflash0 --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=32 --numjobs=3 \
		$FOREVER
	progress vflash0
	usleep 300000
	begin remove sh -c "echo 1 > $FAULTS/remove"
	end remove
	await "fio does not notice that the disk is gone" ended load
	[ -z "$(statistics vflash0)" ] || fail "statistics of a disk that is gone"
	[ ! -e /sys/block/vflash0 ] || fail "the disk is still there"
	rmmod vflash || fail "vflash does not unload"
	rmmod $MODULE || fail "$MODULE does not unload"
done
