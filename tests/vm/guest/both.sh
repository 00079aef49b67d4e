# SPDX-License-Identifier: GPL-2.0-only
# Tests that all modules work side by side: disks have different schedulers and exchange them under load, and each module counts only
# its own disks and can be unloaded when it has none.
vflash memory_backed=1
null memory_backed=1 irqmode=2 completion_nsec=20000 queue_mode=2
modules="k2 mqfq fifo"
for module in $modules; do load_module $module; done
[ -e $EXTRA/k2_experiments.ko ] && ! insmod $EXTRA/k2_experiments.ko 2> /dev/null || fail "two modules have a scheduler k2"
for disk in vflash0 nullb0; do
	begin $disk fio $QUIET --filename=/dev/$disk --name=l --rw=randrw --bsrange=4k-64k --ioengine=libaio --iodepth=16 \
		--numjobs=2 --size=16m --offset_increment=16m $FOREVER --verify=crc32c --verify_fatal=1 --verify_backlog=32
done
fault requeue_every=17 busy_every=13
disks_of() { # SCHEDULER
	awk 'NR > 1 && !seen[$1]++ { printf "%s ", $1 }' /proc/tailgate-$1
}
for round in 1 2; do
	for pair in "k2 mqfq" "mqfq k2" "mqfq mqfq" "fifo k2" "mqfq fifo"; do
		scheduler vflash0 ${pair% *}
		scheduler nullb0 ${pair#* }
		set_bound vflash0 $round
		progress vflash0
		progress nullb0
		[ "$(cat $(bound_knob nullb0))" != $round ] || fail "the bound of vflash0 is that of nullb0 too, $pair"
		for module in $modules; do
			expected=
			[ ${pair% *} != $module ] || expected="vflash0 "
			[ ${pair#* } != $module ] || expected="${expected}nullb0 "
			expect "disks of $module, $pair" "$(disks_of $module)" "$expected"
			[ -z "$expected" ] || ! rmmod $module 2> /dev/null || fail "$module unloads while a disk uses it"
		done
	done
done
no_faults
rmmod k2 || fail "k2 does not unload beside mqfq"
progress vflash0
stop vflash0 nullb0
unchanged vflash0
unchanged nullb0
account vflash0
account nullb0
