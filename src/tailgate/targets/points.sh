# SPDX-License-Identifier: GPL-2.0-only
# Runs in the guest: `point NAME DRIVE_ARGUMENT...` measures one point and sends it out.
# From before: SCHEDULER, MODULE (what loads it, may be empty), READER (the real-time section of the fio job).
Q=/sys/block/vflash0/queue

write() { # FILE VALUE
	echo "$2" 2> /dev/null > "$1" || fail "$1: cannot write $2"
}
expect() { # FILE VALUE
	got=$(cat "$1")
	[ "$got" = "$2" ] || fail "$1: wrote $2, reads $got"
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
	fio --output-format=json+ --output=fio.json "/lab/$name.fio" > fio.log 2>&1 || fail "fio: $(cat fio.log fio.json)"
	emit "$name.settings" settings
	emit "$name.before" "$READER.prerun.txt"
	emit "$name.after" "$READER.postrun.txt"
	emit "$name.fio.json" fio.json
	cd / && rm -r "/tmp/$name"
}

[ -z "$MODULE" ] || $MODULE || fail "$MODULE: the scheduler does not load"
