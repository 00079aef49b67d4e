# SPDX-License-Identifier: GPL-2.0-only
# Functions that the jobs about the block device vflash0 share.
EXTRA=/lib/modules/extra
PARAMETERS=/sys/module/vflash/parameters
DISK=/dev/vflash0
QUEUE=/sys/block/vflash0/queue
CPUS=$(grep -c ^processor /proc/cpuinfo)
FAST="dies=8 read_ns=40000 read_fixed_ns=10000 write_fixed_ns=10000 program_ns=20000 queues=$CPUS"
FIO="fio --eta=never --output-format=terse --filename=$DISK --direct=1"

PATIENCE_S=300 # far more than a busy host needs

step() {
	echo "step: $*"
	echo "vflash test: $*" > /dev/kmsg
}
uptime_s() { # sets NOW_S to the time since boot in s
	read -r NOW_S rest < /proc/uptime
	NOW_S=${NOW_S%.*}
}
await() { # MESSAGE COMMAND...: repeats the command until it succeeds; fails with the message after PATIENCE_S
	uptime_s
	deadline_s=$((NOW_S + PATIENCE_S)) message=$1
	shift
	until "$@"; do
		uptime_s
		[ $NOW_S -lt $deadline_s ] || fail "$message"
		usleep 20000
	done
}
load() { # PARAMETER=VALUE...
	insmod $EXTRA/vflash.ko $FAST "$@" || fail "vflash does not load with $*"
	await "no $DISK" test -b $DISK
}
gone() {
	rmmod vflash 2> /dev/null
}
unload() { # awaits the end of killed processes, which have the disk open
	await "vflash does not unload" gone
}
fault() { # NAME=VALUE...
	for setting; do
		echo ${setting#*=} > $PARAMETERS/${setting%%=*} || fail "vflash takes no $setting"
	done
}
verified() { # WHAT FAULT=VALUE...: runs /tmp/verify.fio with these and other faults, and reads all data again
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
	said=$(dmesg | grep "\] vflash: " | tail -1) # other parts of the kernel may have their say meanwhile
	case "$said" in *"vflash: $2"*) ;; *) fail "$1: $said, expected $2" ;; esac
}
counted() { # KEY: prints its value in the drive's statistics
	sed -n "s/^$1 //p" $PARAMETERS/statistics
}
more_than() { # COMMANDS
	[ "$(counted commands)" -gt $1 ]
}
under_load() { # COMMANDS: begins a load, and awaits this many commands
	target=$(($(counted commands) + $1))
	$FIO --name=r --rw=randrw --bs=4k --ioengine=libaio --iodepth=64 --numjobs=2 --time_based --runtime=100000 \
		> /dev/null 2>&1 &
	await "fio does not begin" more_than $target
}
no_fio() {
	! pidof fio > /dev/null
}
