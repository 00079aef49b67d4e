# SPDX-License-Identifier: GPL-2.0-only
# Functions that the parts share: disks, schedulers, loads in the background, and the check that every part ends with. A part is a
# file <name>.sh whose first sentence says what it tests. It runs in a shell of its own, and ends with `fail`, with `skip`, or
# at its end. It tests the scheduler SCHEDULER: k2, or the argument of run_part. Parts that can test any of our schedulers use
# attach, set_bound, counted and account, which work for each.
#
# No verdict depends on the host's speed. A part either awaits conditions, for at most PATIENCE_S, and may run by the host's
# clock; or it judges times, rates or values learned from them, and then runs only in virtual time. test_k2.py says which parts
# run in virtual time.

PARTS=/root/k2
PATH=$PARTS:$PATH
EXTRA=/lib/modules/extra
FAULTS=/sys/module/vflash/parameters
CPUS=$(grep -c ^processor /proc/cpuinfo)
PATIENCE_S=${PATIENCE_S:-300} # most seconds to await a condition; far more than a busy host needs
# A kernel with KASAN or KCSAN executes about ten times as many instructions, and in virtual time each instruction takes time. A part
# that needs a drive slower than the CPU multiplies the drive's times by this.
case $(uname -r) in
*-kasan | *-kcsan) SLOW=10 ;;
*) SLOW=1 ;;
esac
. $PARTS/inject.sh
QUIET="--eta=never --output-format=terse --direct=1 --group_reporting=1 --randrepeat=1"
FOREVER="--time_based --runtime=100000" # until `stop`

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
random() { # MAX: sets RANDOM_IS to 0 to MAX - 1
	SEED_NOW=$(((SEED_NOW * 1103515245 + 12345) & 0x7fffffff))
	RANDOM_IS=$(((SEED_NOW >> 8) % $1))
}
one_of() { # WORD...: sets ONE to one of the words
	random $#
	shift $RANDOM_IS
	ONE=$1
}

# --- disks and schedulers ---

vflash() { # PARAMETER=VALUE...: /dev/vflash0, small and fast by default
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
nvme() { # loop|tcp: /dev/nvme0n1, a multipath drive. Its only path, NVME_PATH, leads to /dev/nullb0 by this transport
	modprobe nvme-$1 && { [ $1 = loop ] || modprobe nvmet-$1; } || fail "NVMe over $1 does not load"
	mount -t configfs none /sys/kernel/config 2> /dev/null
	nvmet=/sys/kernel/config/nvmet
	trap no_nvme EXIT
	mkdir $nvmet/subsystems/test $nvmet/ports/1 || fail "no NVMe target"
	echo 1 > $nvmet/subsystems/test/attr_allow_any_host
	mkdir $nvmet/subsystems/test/namespaces/1
	echo /dev/nullb0 > $nvmet/subsystems/test/namespaces/1/device_path
	echo 1 > $nvmet/subsystems/test/namespaces/1/enable || fail "no namespace"
	echo $1 > $nvmet/ports/1/addr_trtype
	address=
	if [ $1 = tcp ]; then
		ip link set lo up
		echo ipv4 > $nvmet/ports/1/addr_adrfam
		echo 127.0.0.1 > $nvmet/ports/1/addr_traddr
		echo 4420 > $nvmet/ports/1/addr_trsvcid
		address=,traddr=127.0.0.1,trsvcid=4420
	fi
	ln -s $nvmet/subsystems/test $nvmet/ports/1/subsystems/test || fail "no port"
	echo transport=$1,nqn=test$address > /dev/nvme-fabrics || fail "no connection"
	await "no NVMe drive" test -b /dev/nvme0n1
	NVME_PATH=$(cd /sys/block && ls -d nvme0c*n1) || fail "no multipath"
	expect "$NVME_PATH is hidden" $(cat /sys/block/$NVME_PATH/hidden) 1
}
no_nvme() {
	for deletes in /sys/class/nvme/nvme*/delete_controller; do [ ! -e $deletes ] || echo 1 > $deletes; done
	rm -f $nvmet/ports/1/subsystems/test
	rmdir $nvmet/ports/1 $nvmet/subsystems/test/namespaces/1 $nvmet/subsystems/test
	modprobe -r nvme-loop nvme-tcp nvmet-tcp 2> /dev/null
}
scheduler() { # DISK NAME
	echo "$2" > /sys/block/$1/queue/scheduler || fail "$1: cannot set $2"
	grep -q "\[$2\]" /sys/block/$1/queue/scheduler || fail "$1 has not taken $2"
}
load_module() { # MODULE: one of this project
	[ -d /sys/module/$1 ] || insmod $EXTRA/$1.ko || fail "$1 does not load"
}
attach() { # DISK [BOUND]: sets SCHEDULER; a part that sets values which k2 chooses automatically sets MODULE=k2_experiments before
	load_module $MODULE
	scheduler $1 $SCHEDULER
	set_bound $1 ${2:-32}
}
bound_knob() { # DISK: the file of its scheduler's bound on requests in the drive
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

# --- statistics ---

statistics() { # DISK: prints its statistics, in lines "key value"
	cat /proc/tailgate-* 2> /dev/null | sed -n "s/^$1 //p"
}
counted() { # DISK FIELD: prints a counter; a field of k2's levels without a level is the sum of all levels
	statistics $1 | awk -v key="$2" '{ sub(/^level[0-8]\.inflight/, ""); plain = $1; sub(/^level[0-8]\./, "", plain) }
		$1 == key || plain == key { sum += $2 } END { print sum + 0 }'
}
counts() { # FIELD VALUE: is the counter of vflash0 at least this value?
	[ "$(counted vflash0 $1)" -ge $2 ]
}
completed() { # DISK: prints the completed reads and writes; one that was issued several times counts once
	awk '{ print $1 + $5 }' /sys/block/$1/stat
}
idle() { # DISK: is no request queued or in flight?
	[ "$(counted $1 inflight)$(counted $1 queued)" = 00 ]
}
account() { # DISK: awaits the end of all requests, and checks that each inserted one left the scheduler once
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
most_in_drive() { # prints the most requests that vflash0 ever had at a time, by its own count
	sed -n 's/slots_used_max //p' $FAULTS/statistics
}
bound() { # DISK BOUND: begins to sample requests in flight; vflash0 also keeps its own highest count, which misses nothing
	begin bound sample /proc/tailgate-$SCHEDULER $1 $2
	BOUND=$2
	MOST_BEFORE=
	[ $1 != vflash0 ] || MOST_BEFORE=$(most_in_drive)
}
bound_kept() { # checks that requests in flight never exceeded the bound
	kill $(pidof sample)
	end bound
	cat /tmp/bound.out
	[ -z "$MOST_BEFORE" ] || [ $(most_in_drive) -le $((MOST_BEFORE > BOUND ? MOST_BEFORE : BOUND)) ] ||
		fail "the drive had $(most_in_drive) requests at a time, and the bound is $BOUND"
}

# --- loads in the background ---

uptime_ms() { # sets NOW to the time since boot in ms
	read -r NOW rest < /proc/uptime
	NOW=${NOW%.*}${NOW#*.}0
}
be_patient() { # sets DEADLINE to PATIENCE_S from now
	uptime_ms
	DEADLINE=$((NOW + PATIENCE_S * 1000))
}
still_patient() { # MESSAGE: fails with it after DEADLINE
	uptime_ms
	[ $NOW -lt $DEADLINE ] || stuck "$1"
}
await() { # MESSAGE COMMAND...: repeats the command until it succeeds; fails with the message after PATIENCE_S
	be_patient
	message=$1 pause_us=10000
	shift
	until "$@"; do
		still_patient "$message"
		usleep $pause_us
		[ $pause_us -ge 100000 ] || pause_us=$((pause_us * 3 / 2)) # checking too often would slow down the load
	done
}
stuck() { # MESSAGE: prints what hangs, and fails; the machine cannot be used any more
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
begin() { # NAME COMMAND...: runs it in the background
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
end() { # NAME [CODE]: awaits its end, and checks its exit status
	await "$1 does not end" ended $1
	read -r code < /tmp/$1.code
	[ $code = ${2:-0} ] || {
		grep -v '^3;' /tmp/$1.out | tail -20
		fail "$1 ended with $code"
	}
}
stop() { # NAME...: kills the loads; a process with I/O in flight ends only after the kernel has completed all of it
	killall -9 fio # not INT: fio may then wait for I/O that it never submitted, with any scheduler
	for name; do
		await "$name does not end" ended $name
	done
	await "a job of fio does not end" no_fio # forked jobs may outlive it
}
no_fio() {
	! pidof fio > /dev/null
}
load() { # DISK FIO_OPTION...: runs fio until it ends
	disk=$1
	shift
	begin fio fio $QUIET --filename=/dev/$disk "$@"
	end fio
}
more_than() { # DISK DISPATCHED
	[ $(counted $1 dispatched) -gt $2 ]
}
progress() { # DISK: awaits a dispatch
	await "$1: no request is dispatched" more_than $1 $(counted $1 dispatched)
}
go_on() { # REQUESTS: awaits this many more background requests on vflash0
	await "the background does not go on" counts level8.dispatched $(($(counted vflash0 level8.dispatched) + $1))
}
of_rt() { # SIGNAL: sends it to the fio with --name=rt
	for pid in $(pidof fio); do ! grep -q name=rt /proc/$pid/cmdline || kill -$1 $pid; done
}
unchanged() { # NAME: checks that this load read the data that it had written
	! grep verify: /tmp/$1.out || fail "data read differ from data written"
}

# --- running parts ---

kernel_log() { # NAME: prints the kernel log since this part began; the host checks it for warnings
	dmesg | sed -n "/tailgate: part $1\$/,\$p"
}
clean_up() { # removes all disks and schedulers, whatever state the part left
	fail_no_more
	for pid in $(pidof fio sample levels order paged pieces polled sg); do
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
		! grep -qsx $module /tmp/loaded_for_ever || continue # the kernel leaked references to it, see nomem.sh
		be_patient # killed processes may not have ended yet
		until [ ! -d /sys/module/$module ] || rmmod $module 2> /dev/null; do
			uptime_ms
			[ $NOW -lt $DEADLINE ] || return 1
			usleep 100000
		done
	done
	[ -e /tmp/loaded_for_ever ] || ! ls /proc/tailgate-* 2> /dev/null
}
run_part() { # [SCHEDULER] NAME [ARGUMENT]: runs a part, and sends its verdict (ok, skip, fail) and output to the host at once
	# After a failure the guest ends, so that the state that the part left cannot make the next part fail.
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
