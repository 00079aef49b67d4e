# SPDX-License-Identifier: GPL-2.0-only
# What the parts share: disks, the scheduler, loads beside us, and the one check that every part ends with. A part is a
# file <name>.sh that says in a sentence what it tests. It runs in a shell of its own, and ends with `fail`, `skip`, or
# at its end. It is about the scheduler SCHEDULER: k2, or what run_part was told. If any scheduler of ours will do, the part
# says attach, set_bound, counted and account, which work for each.
#
# No verdict depends on the host's speed. A part either awaits conditions, with no limit but PATIENCE_S, and may run by the
# host's clock; or it judges times, rates, or what was learned from them, and then runs in virtual time only. test_k2.py
# says which parts are which.

PARTS=/root/k2
PATH=$PARTS:$PATH
EXTRA=/lib/modules/extra
FAULTS=/sys/module/vflash/parameters
CPUS=$(grep -c ^processor /proc/cpuinfo)
PATIENCE_S=${PATIENCE_S:-300} # after this long a condition that is awaited never comes; far more than a busy host needs
# A kernel that looks for faults executes some ten times as many instructions, and in virtual time each of them takes time. Where
# a part needs a drive that is slower than the CPU, it multiplies the drive's times by this.
case $(uname -r) in
*-kasan | *-kcsan) SLOW=10 ;;
*) SLOW=1 ;;
esac
. $PARTS/inject.sh
QUIET="--eta=never --output-format=terse --direct=1 --group_reporting=1 --randrepeat=1"
FOREVER="--time_based --runtime=100000" # until it is stopped

fail() {
	echo "FAIL: $*"
	exit 1
}
skip() {
	echo "SKIP: $*"
	exit 4
}
expect() { # WHAT GOT WANTED
	[ "$2" = "$3" ] || fail "$1: '$2', expected '$3'"
}

# --- randomness: one seed for all, printed with a failure ---

SEED_NOW=${SEED:-1}
random() { # MAX: RANDOM_IS becomes 0 to MAX - 1
	SEED_NOW=$(((SEED_NOW * 1103515245 + 12345) & 0x7fffffff))
	RANDOM_IS=$(((SEED_NOW >> 8) % $1))
}
one_of() { # WORD...: ONE becomes one of them
	random $#
	shift $RANDOM_IS
	ONE=$1
}

# --- disks and schedulers ---

vflash() { # PARAMETER=VALUE...: /dev/vflash0, small and fast unless said otherwise
	insmod $EXTRA/vflash.ko capacity_mib=256 dies=8 read_ns=50000 read_fixed_ns=10000 program_ns=20000 \
		write_fixed_ns=10000 depth=64 queues=$CPUS "$@" || fail "vflash does not load with $*"
	await "no /dev/vflash0" test -b /dev/vflash0
}
null() { # PARAMETER=VALUE...: /dev/nullb0
	modprobe null_blk nr_devices=1 gb=1 submit_queues=$CPUS "$@" || fail "null_blk does not load with $*"
	await "no /dev/nullb0" test -b /dev/nullb0
}
scsi() { # PARAMETER=VALUE...: a disk of scsi_debug, DISK
	modprobe sd_mod
	modprobe scsi_debug dev_size_mb=32 "$@" || fail "scsi_debug does not load with $*"
	await "no SCSI disk" scsi_disk
}
scsi_disk() {
	DISK=$(cd /sys/block && ls -d sd* 2> /dev/null)
	[ -b /dev/$DISK ]
}
scheduler() { # DISK NAME
	echo "$2" > /sys/block/$1/queue/scheduler || fail "$1: cannot set $2"
	grep -q "\[$2\]" /sys/block/$1/queue/scheduler || fail "$1 has not taken $2"
}
load_module() { # MODULE: of ours
	[ -d /sys/module/$1 ] || insmod $EXTRA/$1.ko || fail "$1 does not load"
}
attach() { # DISK [BOUND]: SCHEDULER; its MODULE is k2_experiments for a part that sets what is chosen automatically
	load_module $MODULE
	scheduler $1 $SCHEDULER
	set_bound $1 ${2:-32}
}
bound_knob() { # DISK: the file of the bound on requests in the drive, whatever scheduler of ours it has
	ls /sys/block/$1/queue/iosched/inflight_max /sys/block/$1/queue/iosched/d 2> /dev/null
}
set_bound() { # DISK BOUND
	echo $2 > $(bound_knob $1) || fail "$1 takes no bound $2"
}
fault() { # NAME=VALUE...
	for setting; do
		echo ${setting#*=} > $FAULTS/${setting%%=*} || fail "vflash takes no $setting"
	done
}
no_faults() {
	fault error_every=0 bad_sectors=0 requeue_every=0 lose_every=0 busy_every=0 devbusy_every=0 dontprep=0 timeout_requeue=0
}

# --- what a scheduler counts ---

statistics() { # DISK: its lines of the statistics, as "key value"
	cat /proc/tailgate-* 2> /dev/null | sed -n "s/^$1 //p"
}
counted() { # DISK FIELD: a counter; of k2 over all levels unless it has one of them
	statistics $1 | awk -v key="$2" '{ sub(/^level[0-8]\.inflight/, ""); plain = $1; sub(/^level[0-8]\./, "", plain) }
		$1 == key || plain == key { sum += $2 } END { print sum + 0 }'
}
counts() { # FIELD VALUE: vflash0 has counted so many, or more
	[ "$(counted vflash0 $1)" -ge $2 ]
}
completed() { # DISK: reads and writes that the block layer has seen the end of, each once however often it was issued
	awk '{ print $1 + $5 }' /sys/block/$1/stat
}
idle() { # DISK
	[ "$(counted $1 inflight)$(counted $1 queued)" = 00 ]
}
account() { # DISK: all requests have ended, and each that was inserted has left once
	await "$1 does not come to rest" idle $1
	statistics $1 | awk '{ level = $1 ~ /^level8\./; name = $1; sub(/^level[0-8]\./, "", name); seen[name] = 1 }
		name == "split_staged" { split_staged = $2 }
		name == "inserted" { inserted = $2 - (level ? split_staged : 0); all_inserted += $2 }
		name == "dispatched" { dispatched = $2; all_dispatched += $2 }
		name == "merged" { all_merged += $2; if (inserted != dispatched + $2) wrong = 1 }
		name == "wait_us" { waits = 0; for (i = 2; i <= NF; i++) waits += $i; if (waits != dispatched) wrong = 1 }
		(name == "inflight" || name == "queued") && $2 { wrong = 1 }
		END { printf "%d inserted, %d dispatched, %d merged\n", all_inserted, all_dispatched, all_merged
			if (seen["inserted"] && !seen["merged"] && all_inserted != all_dispatched) wrong = 1
			exit wrong || !seen["inflight"] || !seen["queued"] }' ||
		{ statistics $1; fail "$1: counters do not balance"; }
}
most_in_drive() { # the most requests that vflash0 ever had at a time, by its own count
	sed -n 's/slots_used_max //p' $FAULTS/statistics
}
bound() { # DISK BOUND: from now on, look at what is in flight; of vflash0 no breach is missed, as it keeps the highest count
	begin bound sample /proc/tailgate-$SCHEDULER $1 $2
	BOUND=$2
	MOST_BEFORE=
	[ $1 != vflash0 ] || MOST_BEFORE=$(most_in_drive)
}
bound_kept() { # it never was above the bound
	kill $(pidof sample)
	end bound
	cat /tmp/bound.out
	[ -z "$MOST_BEFORE" ] || [ $(most_in_drive) -le $((MOST_BEFORE > BOUND ? MOST_BEFORE : BOUND)) ] ||
		fail "in the drive at a time, by its own count: $(most_in_drive), and the bound is $BOUND"
}

# --- loads beside us ---

uptime_ms() { # NOW becomes the time since boot
	read -r NOW rest < /proc/uptime
	NOW=${NOW%.*}${NOW#*.}0
}
be_patient() { # for PATIENCE_S from now on
	uptime_ms
	DEADLINE=$((NOW + PATIENCE_S * 1000))
}
still_patient() { # MESSAGE: if not, that is the end
	uptime_ms
	[ $NOW -lt $DEADLINE ] || stuck "$1"
}
await() { # MESSAGE COMMAND...: until it succeeds
	be_patient
	message=$1 pause_us=10000
	shift
	until "$@"; do
		still_patient "$message"
		usleep $pause_us
		[ $pause_us -ge 100000 ] || pause_us=$((pause_us * 3 / 2)) # a look costs more than what is looked at
	done
}
stuck() { # MESSAGE: show what hangs; after this the machine is of no use
	touch /tmp/stuck
	cat /proc/tailgate-* 2> /dev/null | grep -v 'wait_us\| 0$'
	for pid in $(pidof fio); do
		echo "fio $pid: $(sed -n 's/^State:\t//p' /proc/$pid/status), $(tr '\n' ';' < /proc/$pid/stack)"
	done
	for disk in /sys/kernel/debug/block/*[a-z0]; do
		grep -s . $disk/requeue_list $disk/state $disk/hctx*/state $disk/hctx*/dispatch $disk/hctx*/busy \
			$disk/hctx*/dispatch_busy | grep -v 'loop\|ram' | cut -c 26-
	done
	grep -s . /sys/block/*/inflight $FAULTS/*_every $FAULTS/dontprep
	echo w > /proc/sysrq-trigger
	dmesg | sed -n '/Show Blocked State/,$p' | tail -80
	fail "$1"
}
begin() { # NAME COMMAND...: run it beside us
	rm -f /tmp/$1.code
	(
		name=$1
		shift
		"$@" > /tmp/$name.out 2>&1
		echo $? > /tmp/$name.new
		mv /tmp/$name.new /tmp/$name.code
	) &
}
ended() { # NAME
	[ -e /tmp/$1.code ]
}
end() { # NAME [CODE]: wait until it ends, with this code
	await "$1 does not end" ended $1
	read -r code < /tmp/$1.code
	[ $code = ${2:-0} ] || {
		grep -v '^3;' /tmp/$1.out | tail -20
		fail "$1 ended with $code"
	}
}
stop() { # NAME...: kill the loads; a process with I/O on its way ends only when the kernel has ended all of it
	killall -9 fio # not INT: fio, whatever the scheduler, may then wait for I/O that it never submitted
	for name; do
		await "$name does not end" ended $name
	done
	await "a job of fio does not end" no_fio # those that it forked may outlive it
}
no_fio() {
	! pidof fio > /dev/null
}
load() { # DISK FIO_OPTION...: run fio until it ends
	disk=$1
	shift
	begin fio fio $QUIET --filename=/dev/$disk "$@"
	end fio
}
more_than() { # DISK DISPATCHED
	[ $(counted $1 dispatched) -gt $2 ]
}
progress() { # DISK: something is dispatched
	await "$1: nothing is dispatched" more_than $1 $(counted $1 dispatched)
}
go_on() { # REQUESTS: the background on vflash0 does so many more
	await "the background does not go on" counts level8.dispatched $(($(counted vflash0 level8.dispatched) + $1))
}
of_rt() { # SIGNAL: to the load whose fio has --name=rt
	for pid in $(pidof fio); do ! grep -q name=rt /proc/$pid/cmdline || kill -$1 $pid; done
}
unchanged() { # NAME: what this load read, it had written
	! grep verify: /tmp/$1.out || fail "other data was read than written"
}

# --- from part to part ---

kernel_log() { # NAME: what the kernel said since this part began; the host knows what of it is a complaint
	dmesg | sed -n "/tailgate: part $1\$/,\$p"
}
clean_up() { # take all disks and schedulers away: whatever the part did, this works
	fail_no_more
	for pid in $(pidof fio sample levels order paged pieces sg); do
		kill -9 $pid
	done
	wait
	for cpu in /sys/devices/system/cpu/cpu[1-9]/online; do
		[ ! -e $cpu ] || echo 1 > $cpu
	done
	[ ! -e /sys/block/loop0/loop ] || losetup -d /dev/loop0
	grep -q ' /mnt ' /proc/mounts && umount /mnt
	for disk in /sys/kernel/config/nullb/*/; do
		[ ! -e $disk/power ] || rmdir $disk
	done
	for module in loop vflash null_blk scsi_debug $(cd $EXTRA && ls | sed 's/\.ko$//'); do
		! grep -qsx $module /tmp/loaded_for_ever || continue # the kernel has lost references to it
		be_patient # what was killed may still be ending
		until [ ! -d /sys/module/$module ] || rmmod $module 2> /dev/null; do
			uptime_ms
			[ $NOW -lt $DEADLINE ] || return 1
			usleep 100000
		done
	done
	[ -e /tmp/loaded_for_ever ] || ! ls /proc/tailgate-* 2> /dev/null
}
run_part() { # [SCHEDULER] NAME [ARGUMENT]: its verdict (ok, skip, fail) and what it printed go to the host at once; after a failure
	# the guest ends: what the part has left behind must not fail the next
	echo "tailgate: part $*" > /dev/kmsg
	read -r begin rest < /proc/uptime
	(
		SCHEDULER=k2
		[ ! -e $EXTRA/$1.ko ] || {
			SCHEDULER=$1
			shift
		}
		MODULE=$SCHEDULER
		part=$1
		shift
		. $PARTS/$part.sh
	) > /tmp/part 2>&1
	case $? in 0) verdict=ok ;; 4) verdict=skip ;; *) verdict=fail ;; esac
	if [ ! -e /tmp/stuck ] && ! clean_up >> /tmp/part 2>&1; then
		verdict=fail
		echo "FAIL: the disks or schedulers cannot be unloaded: $(lsmod | tr '\n' ' ')" >> /tmp/part
		touch /tmp/stuck
	fi
	read -r end rest < /proc/uptime
	{
		echo "$verdict $begin $end"
		cat /tmp/part
		echo "--- kernel log"
		kernel_log "$*"
	} > /tmp/report
	emit "part $*" /tmp/report
	[ $verdict != fail ] || exit 3
	rm -rf /tmp/*.out /tmp/*.code
}
