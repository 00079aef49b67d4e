# SPDX-License-Identifier: GPL-2.0-only
# What the jobs about the block device vflash0 share: it is loaded, put under load, and taken away.
EXTRA=/lib/modules/extra
PARAMETERS=/sys/module/vflash/parameters
DISK=/dev/vflash0
QUEUE=/sys/block/vflash0/queue
CPUS=$(grep -c ^processor /proc/cpuinfo)
FAST="dies=8 read_ns=40000 read_fixed_ns=10000 write_fixed_ns=10000 program_ns=20000 queues=$CPUS"
FIO="fio --eta=never --output-format=terse --filename=$DISK --direct=1"

step() {
	echo "step: $*"
	echo "vflash test: $*" > /dev/kmsg
}
load() { # PARAMETER=VALUE...
	insmod $EXTRA/vflash.ko $FAST "$@" || fail "vflash does not load with $*"
	tries=0
	until [ -b $DISK ]; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "no $DISK"
		usleep 20000
	done
}
unload() { # whoever has just died closes the disk in a moment
	tries=0
	until rmmod vflash 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "vflash does not unload"
		usleep 20000
	done
}
fault() { # NAME=VALUE...
	for setting; do
		echo ${setting#*=} > $PARAMETERS/${setting%%=*} || fail "vflash takes no $setting"
	done
}
verified() { # WHAT FAULT=VALUE...: the data of /tmp/verify.fio arrive, whatever a driver does at once, and are read again
	what=$1
	shift
	fault busy_every=13 devbusy_every=7 requeue_every=11 timeout_requeue=1 "$@"
	fio --eta=never /tmp/verify.fio > /tmp/out 2>&1 || { tail -20 /tmp/out; fail "$what"; }
	fault busy_every=0 devbusy_every=0 requeue_every=0 lose_every=0
	echo 3 > /proc/sys/vm/drop_caches
	fio --eta=never --verify_only /tmp/verify.fio > /tmp/out 2>&1 || { tail -20 /tmp/out; fail "$what: read again"; }
}
refused() { # PARAMETER SENTENCE
	insmod $EXTRA/vflash.ko $1 2> /dev/null && fail "$1 was accepted"
	dmesg | tail -1 | grep -qF "vflash: $2" || fail "$1: $(dmesg | tail -1), expected $2"
}
counted() { # KEY: of the drive's statistics
	sed -n "s/^$1 //p" $PARAMETERS/statistics
}
under_load() { # COMMANDS: fio beside us, and so many more requests done
	target=$(($(counted commands) + $1))
	$FIO --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=64 --numjobs=2 --time_based --runtime=60 \
		> /dev/null 2>&1 &
	tries=0
	until [ "$(counted commands)" -gt $target ]; do
		tries=$((tries + 1))
		[ $tries -lt 500 ] || fail "fio does not begin"
		usleep 20000
	done
}
