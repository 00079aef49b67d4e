# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: `point NAME DRIVE_ARGUMENT...` measures one point and sends it out.
# From before: SCHEDULER, MODULE (what loads it, may be empty), READER (the real-time section of the fio job),
# TIMED (the I/O priority of the requests whose time in the scheduler is taken, may be empty). Where the load's files are on
# a file system: FILE_SYSTEM and FILE_SYSTEM_MIB.
Q=/sys/block/vflash0/queue
T=/sys/kernel/tracing
STATE=/sys/kernel/debug/block/vflash0/sched

write() { # FILE VALUE
	echo "$2" 2> /dev/null > "$1" || fail "$1: cannot write $2"
}
expect() { # FILE VALUE
	got=$(cat "$1")
	[ "$got" = "$2" ] || fail "$1: wrote $2, reads $got"
}

# The kernel itself counts how long requests take from insertion to issue (Documentation/trace/histogram.rst). Those of
# other priorities cost a comparison.
INSERT="hist:keys=sector:began=common_timestamp:size=65536 if ioprio == $TIMED"
ISSUE="hist:keys=sector:ns=common_timestamp-\$began:size=65536:onmatch(block.block_rq_insert).trace(scheduler_delay,\$ns) if ioprio == $TIMED"
COUNT="hist:keys=ns:size=65536"

trigger() { # EVENT TRIGGER; with ! before it, it is taken away
	echo "$2" 2> /dev/null >> "$T/events/$1/trigger" || fail "$1: no trigger $2: $(cat $T/error_log)"
}

# How long tasks are blocked: from being switched out in state D (2; idle kernel threads have another one) to being woken.
# The kernel keeps the longest time of each task, and its name. The first begins to count when both are there, with the next
# program that is started: a beginning whose end nobody sees would be taken for that of a later sleep.
ASLEEP="hist:keys=prev_pid:since=common_timestamp:size=4096:pause if prev_state == 2"
WOKEN="hist:keys=pid:ns=common_timestamp-\$since:size=4096:onmax(\$ns).save(comm)"
BEGIN=enable_hist:sched:sched_switch:1

make_cgroup() { # PATH
	parent=/cg
	left=$1/
	while [ -n "$left" ]; do
		echo +io > "$parent/cgroup.subtree_control" || fail "$parent: no controller io for cgroups"
		parent=$parent/${left%%/*}
		left=${left#*/}
		mkdir -p "$parent"
	done
}
# /lab/cgroups has lines of cgroup, file, value; KEY=VALUE are the drive's, whose number is new with each point. A cgroup that is
# told nothing has no file there.
tell_cgroups() {
	drive=$(cat /sys/block/vflash0/dev)
	while read -r group file value; do
		make_cgroup "$group"
		case $value in
		"") ;;
		*=*)
			write "/cg/$group/$file" "$drive $value"
			told=" $(grep "^$drive " "/cg/$group/$file") "
			for word in $value; do
				[ "$told" != "${told#* "$word" }" ] || fail "/cg/$group/$file: wrote $word, reads$told"
			done
			;;
		*)
			write "/cg/$group/$file" "$value"
			told=$(cat "/cg/$group/$file")
			[ "${told#default }" = "$value" ] || fail "/cg/$group/$file: wrote $value, reads $told"
			;;
		esac
	done < /lab/cgroups
}

make_file_system() { # it ends before the drive does, at FILE_SYSTEM_MIB
	modprobe "$FILE_SYSTEM" || fail "$FILE_SYSTEM does not load"
	case $FILE_SYSTEM in
	ext4) /bin/mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/vflash0 "${FILE_SYSTEM_MIB}m" ;;
	xfs) /bin/mkfs.xfs -q -K -d size="${FILE_SYSTEM_MIB}m" /dev/vflash0 ;;
	f2fs) /bin/mkfs.f2fs -q -t 0 /dev/vflash0 $((FILE_SYSTEM_MIB * 2048)) ;;
	esac > mkfs.log 2>&1 || fail "no $FILE_SYSTEM is made: $(cat mkfs.log)"
	mkdir -p /mnt && mount -t "$FILE_SYSTEM" /dev/vflash0 /mnt || fail "$FILE_SYSTEM is not mounted"
}
check_file_system() {
	umount /mnt || fail "$FILE_SYSTEM is not unmounted"
	case $FILE_SYSTEM in
	ext4) /bin/e2fsck -fn /dev/vflash0 ;;
	xfs) /bin/xfs_repair -n /dev/vflash0 ;;
	f2fs) /bin/fsck.f2fs --dry-run /dev/vflash0 > out && ! grep '\[Fail\]' out ;;
	esac > fsck.log 2>&1 || fail "$FILE_SYSTEM is not consistent any more: $(tail -n 20 fsck.log)"
}
none_blocked() {
	! grep -q '^State:.D' /proc/[0-9]*/status 2> /dev/null
}

point() {
	name=$1
	shift
	[ ! -e /sys/module/vflash ] || rmmod vflash || fail "vflash does not unload"
	insmod /lib/modules/extra/vflash.ko "$@" || fail "vflash does not load with $*"
	tries=0
	while [ ! -b /dev/vflash0 ]; do
		[ $tries -lt 100 ] || fail "no /dev/vflash0"
		sleep 0.01
		tries=$((tries + 1))
	done

	echo "$SCHEDULER" 2> /dev/null > $Q/scheduler
	grep -qF "[$SCHEDULER]" $Q/scheduler || fail "no scheduler $SCHEDULER, only $(cat $Q/scheduler)"
	# Without a scheduler the requests are the driver's, which has no more than it has.
	requests=$(cat $Q/nr_requests)
	while read -r file value; do
		[ "$SCHEDULER $file" != "none nr_requests" ] || [ "$value" -le "$requests" ] || continue
		echo "$file" "$value"
	done < /lab/settings > /tmp/settings
	while read -r file value; do write "$Q/$file" "$value"; done < /tmp/settings
	# After all of them: some kernels reset one setting when another is written.
	while read -r file value; do expect "$Q/$file" "$value"; done < /tmp/settings

	mkdir "/tmp/$name" && cd "/tmp/$name" || fail "no /tmp/$name"
	[ ! -d /lab/traces ] || cp /lab/traces/* .
	grep -s . $Q/* $Q/iosched/* | sed "s,^$Q/,," > settings
	[ ! -e /lab/cgroups ] || tell_cgroups
	[ -z "$FILE_SYSTEM" ] || make_file_system
	mark "$name"
	if [ -n "$FILE_SYSTEM" ]; then
		trigger sched/sched_switch "$ASLEEP"
		trigger sched/sched_waking "$WOKEN"
		trigger sched/sched_process_exec "$BEGIN"
	fi
	if [ -n "$TIMED" ]; then
		trigger block/block_rq_insert "$INSERT"
		trigger synthetic/scheduler_delay "$COUNT"
		trigger block/block_rq_issue "$ISSUE"
	fi
	fio --output-format=json+ --output=fio.json "/lab/$name.fio" > fio.log 2>&1 || fail "fio: $(cat fio.log fio.json)"
	# What kyber ended with: the tokens of each kind (debugfs; struct sbitmap_queue).
	for kind in read write; do
		[ ! -e "$STATE/${kind}_tokens" ] || sed -n "s/^depth=/scheduler.${kind}_tokens:/p" "$STATE/${kind}_tokens" >> settings
	done
	if [ -n "$FILE_SYSTEM" ]; then
		until none_blocked; do sleep 0.01; done # what is blocked still is counted when it ends
		cat $T/events/sched/sched_waking/hist > blocked
		emit "$name.blocked" blocked
		trigger sched/sched_process_exec "!$BEGIN"
		trigger sched/sched_waking "!$WOKEN"
		trigger sched/sched_switch "!$ASLEEP"
		check_file_system
	fi
	[ ! -e /lab/cgroups ] || grep -s . /cg/io.cost.* /cg/*/io.* /cg/*/*/io.* >> settings
	emit "$name.settings" settings
	emit "$name.before" "$READER.prerun.txt"
	emit "$name.after" "$READER.postrun.txt"
	if [ -n "$TIMED" ]; then
		cat $T/events/synthetic/scheduler_delay/hist > delays
		emit "$name.delays" delays
		trigger block/block_rq_issue "!$ISSUE"
		trigger block/block_rq_insert "!$INSERT"
		trigger synthetic/scheduler_delay "!$COUNT"
	fi
	emit "$name.fio.json" fio.json
	cd / && rm -r "/tmp/$name"
}

# Not every kernel tells the priority where it is needed.
grep -q ioprio $T/events/block/block_rq_issue/format || TIMED=
[ -z "$TIMED" ] || echo 'scheduler_delay u64 ns' > $T/synthetic_events || fail "no synthetic events: $(cat $T/error_log)"
[ -z "$MODULE" ] || $MODULE || fail "$MODULE: the scheduler does not load"
