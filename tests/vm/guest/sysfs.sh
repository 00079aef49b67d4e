# SPDX-License-Identifier: GPL-2.0-only
# Tests that the knobs take what they should, refuse all else with the right error, and change nothing then.
vflash
k2 vflash0 8
KNOBS=/sys/block/vflash0/queue/iosched
shown() { # what the knobs are
	cat $KNOBS/inflight_max $KNOBS/inflight_kib_max $KNOBS/rt_tags | tr '\n' ' '
}
refused() { # ERROR KNOB TEXT
	before=$(shown)
	expect "'$3' to $2" "$(put $KNOBS/$2 "$3")" $1
	expect "after '$3' to $2" "$(shown)" "$before"
}
taken() { # KNOB TEXT ALL_AFTERWARDS
	length=$(printf "$2" | wc -c)
	expect "'$2' to $1" "$(put $KNOBS/$1 "$2")" $length
	expect "after '$2' to $1" "$(shown)" "$3 "
}
rmmod_refused() {
	rmmod k2 2> /dev/null && fail "k2 unloads while in use"
}
expect "at first" "$(shown)" "8 0 25 "
for knob in inflight_max inflight_kib_max rt_tags; do
	for text in abc -1 '\n' 8x '8 9' ' 8' '' 0x 1.5 - + '8\n\n' -0; do
		case $text in '') refused 0 $knob '' ;; *) refused EINVAL $knob "$text" ;; esac
	done
	for text in 1048577 99999999999 18446744073709551615 18446744073709551616 4294967297; do
		refused ERANGE $knob "$text"
	done
done
refused ERANGE inflight_max 0
refused ERANGE inflight_max 65536
taken inflight_max 1 "1 0 25"
taken inflight_max '65535\n' "65535 0 25"
taken inflight_max 9 "9 0 25"
taken inflight_max +08 "8 0 25"
for gone in max_inflight slow_log_us flush_gate_us split_mode rt_wait_us rt_quantile discard_floor_iops ahead_lo_kib; do
	[ ! -e $KNOBS/$gone ] || fail "there is a knob $gone"
done
expect "a control for experiments" "$(put $KNOBS/bound_mode placebo)" EINVAL
refused ERANGE rt_tags 91
taken inflight_kib_max 1048576 "8 1048576 25"
taken inflight_kib_max '64\n' "8 64 25"
taken rt_tags 0 "8 64 0"
taken rt_tags '90\n' "8 64 90"
expect "shown in the statistics" "$(statistics vflash0 | sed -n 's/^inflight_max //p; s/^inflight_kib_max //p; s/^rt_tags //p' | tr '\n' ' ')" "8 64 90 "
expect "access" "$(stat -c %a $KNOBS/inflight_max $KNOBS/inflight_kib_max $KNOBS/rt_tags /proc/tailgate-k2 | tr '\n' ' ')" \
	"644 644 644 444 "
expect "version" "$(head -1 /proc/tailgate-k2)" "k2 2"
expect "names" "$(ls $KNOBS | tr '\n' ' ')" "be_floor_iops bound_mode bound_when discard_kib_max inflight_kib_max inflight_max rt_tags rt_target_us split_kib write_debt_kib_max "
