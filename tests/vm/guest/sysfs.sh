# SPDX-License-Identifier: GPL-2.0-only
# Tests that the knobs accept valid values, and refuse others with the right error and without any change.
vflash
attach vflash0 8
K=/sys/block/vflash0/queue/iosched
case $SCHEDULER in # numbers: name, least, most; then all names; version of the statistics
k2)
	numbers="inflight_max:1:65535 inflight_kib_max:0:1048576 rt_tags:0:90"
	names="be_floor_iops bound_when discard_kib_max inflight_kib_max inflight_max rt_tags"
	names="$names rt_target_percentile rt_target_us split_kib write_debt_kib_max"
	version=3
	;;
mqfq)
	numbers="d:1:65535 t_kib:0:1048576 write_cost_pct:1:10000"
	names="d flow_by t_kib write_cost_pct"
	version=1
	;;
fifo)
	numbers="inflight_max:1:65535"
	names="inflight_max"
	version=1
	;;
esac
shown() { # prints the values of all knobs
	cat $K/* | tr '\n' ' '
}
but() { # KNOB: prints the values of all other knobs
	grep -H . $K/* | grep -v "/$1:"
}
refused() { # ERROR KNOB TEXT
	before=$(shown)
	expect "'$3' to $2" "$(put $K/$2 "$3")" $1
	expect "after '$3' to $2" "$(shown)" "$before"
}
taken() { # KNOB TEXT VALUE
	length=$(printf "$2" | wc -c)
	others=$(but $1)
	expect "'$2' to $1" "$(put $K/$1 "$2")" $length
	expect "after '$2' to $1" "$(cat $K/$1)" $3
	expect "others after '$2' to $1" "$(but $1)" "$others"
	expect "$1 in the statistics" "$(statistics vflash0 | sed -n "s/^$1 //p")" $3
}
expect "names" "$(ls $K | tr '\n' ' ')" "$names "
name=${numbers%%:*} # one function reads all numbers
for text in abc '\n' 8x '8 9' ' 8' 0x 1.5 - + '8\n\n' -0; do
	refused EINVAL $name "$text"
done
refused 0 $name ''
for number in $numbers; do
	name=${number%%:*} most=${number##*:} least=${number#*:}
	least=${least%:*}
	refused EINVAL $name -1
	for text in $((most + 1)) 4294967297 18446744073709551616; do
		refused ERANGE $name "$text"
	done
	[ $least = 0 ] || refused ERANGE $name $((least - 1))
	taken $name $least $least
	taken $name "$most\n" $most
	taken $name 9 9
	taken $name +08 8
	expect "access to $name" $(stat -c %a $K/$name) 644
done
expect "access to the statistics" $(stat -c %a /proc/tailgate-$SCHEDULER) 444
expect "first line" "$(head -1 /proc/tailgate-$SCHEDULER)" "$SCHEDULER $version"
[ $SCHEDULER != k2 ] || {
	for name in inflight_max rt_target_us write_debt_kib_max; do taken $name auto auto; done
	for text in 99.9 p98 p99.99 0 1; do refused EINVAL rt_target_percentile $text; done
	taken rt_target_percentile p99.9 p99.9
	taken rt_target_percentile 'p99\n' p99
}
[ $SCHEDULER != mqfq ] || {
	refused EINVAL flow_by thread
	taken flow_by process process
	taken flow_by 'cgroup\n' cgroup
	for name in d t_kib write_cost_pct; do taken $name auto auto; done
}
