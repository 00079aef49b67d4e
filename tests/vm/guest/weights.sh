# SPDX-License-Identifier: GPL-2.0-only
# Tests that cgroups share a drive by io.mqfq.weight, also in a hierarchy, and while weights change and cgroups are created and removed;
# and that io.mqfq.stat shows the service of each.
[ -e /cg/cgroup.controllers ] && grep -qw io /cg/cgroup.controllers || skip "no cgroup v2 with the controller io"
load_module $MODULE
echo +io > /cg/cgroup.subtree_control || fail "the controller io cannot be enabled"
vflash read_ns=$((1000000 * SLOW))
attach vflash0 8
echo 16 > /sys/block/vflash0/queue/iosched/t_kib
mkdir -p /cg/a /cg/b /cg/p
echo +io > /cg/p/cgroup.subtree_control
mkdir -p /cg/p/c /cg/p/d
expect "default" "$(cat /cg/a/io.mqfq.weight)" 100
for text in 0 10001; do expect "'$text'" "$(put /cg/a/io.mqfq.weight $text)" ERANGE; done
for text in heavy "1 2" "default"; do expect "'$text'" "$(put /cg/a/io.mqfq.weight "$text")" EINVAL; done
echo default 10000 > /cg/a/io.mqfq.weight
expect "after bad values" "$(cat /cg/a/io.mqfq.weight)" 10000
weigh() { # CGROUP WEIGHT
	echo $2 > /cg/$1/io.mqfq.weight || fail "$1 cannot weigh $2"
}
in_cgroup() ( # NAME COMMAND...
	echo 0 > /cg/$1/cgroup.procs || exit 1
	shift
	exec "$@"
)
told() { # CGROUP KEY: prints the value for vflash0 in io.mqfq.stat
	sed -n "s/^$(cat /sys/block/vflash0/dev) \(.* \)*$2=\([-0-9]*\).*/\2/p" /cg/$1/io.mqfq.stat
}
of_flow() { # CGROUP KEY: prints the value in the module's statistics
	flow=$(statistics vflash0 | sed -n "s/^flow\([0-9]*\)\.cgroup $(stat -c %i /cg/$1)$/\1/p")
	statistics vflash0 | sed -n "s/^flow$flow\.$2 //p"
}
some() { # CGROUP KIB SIZE_KIB: reads SIZE_KIB in blocks of KIB
	begin some-$1 in_cgroup $1 fio $QUIET --filename=/dev/vflash0 --name=s --rw=randread --bs=${2}k --ioengine=libaio \
		--iodepth=16 --norandommap --io_size=${3}k --size=100%
}
reader() { # CGROUP KIB
	begin load-${1#p/} in_cgroup $1 fio $QUIET --filename=/dev/vflash0 --name=r --rw=randread --bs=${2}k --ioengine=libaio \
		--iodepth=32 --norandommap $FOREVER
}
read_kib() { # CGROUP
	sed -n 's/.*rbytes=\([0-9]*\).*/\1/p' /cg/$1/io.stat | awk '{ sum += $1 } END { print int(sum / 1024) }'
}
# A kernel that looks for faults is so slow that a reader may submit nothing for longer than it counts as competing.
OFF=$([ $SLOW -gt 1 ] && echo 0.2 || echo 0.05)
shares() { # WHAT CGROUP=SHARE...: checks that each gets its share, but for OFF of it, for long enough that the bound is less than that
	what=$1
	shift
	usleep 500000 # new weights and siblings need some time to take effect
	for part; do echo "$part $(read_kib ${part%=*})"; done > /tmp/before
	sleep $SLOW
	for part; do echo "$part $(read_kib ${part%=*})"; done > /tmp/after
	echo "$what:"
	paste /tmp/before /tmp/after | awk -v most=$OFF '{ split($1, part, "="); name[NR] = part[1]; shares += want[NR] = part[2]; all += got[NR] = $4 - $2 }
		END { for (i = 1; i <= NR; i++) { off = got[i] / all / (want[i] / shares)
				printf "%s %d KiB, %.3f of its share\n", name[i], got[i], off
				if (off < 1 - most || off > 1 + most) wrong = 1 }
			exit wrong }' || fail "$what: not by weight"
}
expect "before any request" "$(cat /cg/a/io.mqfq.stat)" ""
weigh a 100
some a 4 3000
some b 16 32000
end some-a
end some-b
for group in a b; do
	[ $group = a ] && size=3000 kib=4 || size=32000 kib=16
	expect "bytes of $group" "$(told $group bytes)" $((size * 1024))
	expect "requests of $group" "$(told $group requests)" $((size / kib))
	for key in bytes requests throttled_us idle_slots unfairness_kib bound_kib; do
		expect "$key of $group in two files" "$(of_flow $group $key)" "$(told $group $key)"
	done
	expect "lag of $group, which waits for nothing" "$(told $group lag_kib)" 0
done
[ -e /cg/io.mqfq.stat ] || fail "the root has no io.mqfq.stat"
reader a 4
reader b 16
shares "sizes" a=1 b=1
weigh b 300
shares "weights" a=1 b=3
cat /cg/a/io.mqfq.stat /cg/b/io.mqfq.stat
for group in a b; do # both always have requests that wait, for virtual time or for a token
	# with one CPU there is one queue, whose order alone shares the drive
	[ $CPUS = 1 ] || [ $(told $group throttled_us) -gt 0 ] || fail "$group was never throttled"
	[ $(told $group unfairness_kib) -gt 0 ] || fail "$group was never compared"
	[ $(told $group unfairness_kib) -le $(told $group bound_kib) ] || fail "$group was treated unfairly"
done
weigh b 100
reader p/c 4
reader p/d 4
shares "hierarchy" a=2 b=2 p/c=1 p/d=1
weigh p/d 300
weigh p 200
shares "weights in a hierarchy" a=2 b=2 p/c=1 p/d=3
echo "$(stat -c %i /cg/p) 400" > /sys/module/mqfq/parameters/weights || fail "the parameter takes no weight"
expect "the parameter" "$(cat /sys/module/mqfq/parameters/weights)" "$(stat -c %i /cg/p) 400"
shares "by the parameter" a=1 b=1 p/c=1 p/d=3
for line in "x 100" "1" "1 2 3" "0 100"; do
	expect "'$line'" "$(put /sys/module/mqfq/parameters/weights "$line")" EINVAL
done
expect "'1 0'" "$(put /sys/module/mqfq/parameters/weights "1 0")" ERANGE
# cgroups are created and removed, and weights change, under load
for round in $(seq 30); do
	mkdir /cg/short /cg/p/short
	random 10000
	weigh short $((RANDOM_IS + 1))
	weigh a $((RANDOM_IS + 1))
	for group in short p/short; do
		in_cgroup $group dd if=/dev/vflash0 of=/dev/null bs=4k count=1 skip=$((round * 256)) 2> /dev/null || fail "no read from $group"
		await "$group cannot be removed" rmdir /cg/$group 2> /dev/null
	done
done
weigh a 100
paid() { # has virtual time caught up with a, which was charged more at a low weight?
	lag=$(sed -n 's/.*lag_kib=-*\([0-9]*\).*/\1/p' /cg/a/io.mqfq.stat)
	[ "$lag" -le 64 ]
}
await "virtual time does not catch up with a" paid
shares "after that" a=1 b=1 p/c=1 p/d=3
stop load-a load-b load-c load-d
scheduler vflash0 none
rmmod $MODULE || fail "$MODULE does not unload"
ls /cg/a/io.mqfq.* /cg/io.mqfq.* 2> /dev/null && fail "files exist after unloading"
rmdir /cg/a /cg/b /cg/p/c /cg/p/d /cg/p
