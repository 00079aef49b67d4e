# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: `point NAME DRIVE_ARGUMENT...` measures one point and sends it out.
# From before: SCHEDULER, MODULE (what loads it, may be empty), READER (the real-time section of the fio job),
# TIMED (the I/O priority of the requests whose time in the scheduler is taken, may be empty).
Q=/sys/block/vflash0/queue
T=/sys/kernel/tracing

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
	while read -r file value; do write "$Q/$file" "$value"; done < /lab/settings
	# After all of them: some kernels reset one setting when another is written.
	while read -r file value; do expect "$Q/$file" "$value"; done < /lab/settings

	mkdir "/tmp/$name" && cd "/tmp/$name" || fail "no /tmp/$name"
	[ ! -d /lab/traces ] || cp /lab/traces/* .
	grep -s . $Q/* $Q/iosched/* | sed "s,^$Q/,," > settings
	mark "$name"
	if [ -n "$TIMED" ]; then
		trigger block/block_rq_insert "$INSERT"
		trigger synthetic/scheduler_delay "$COUNT"
		trigger block/block_rq_issue "$ISSUE"
	fi
	fio --output-format=json+ --output=fio.json "/lab/$name.fio" > fio.log 2>&1 || fail "fio: $(cat fio.log fio.json)"
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
