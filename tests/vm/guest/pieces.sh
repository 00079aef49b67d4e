# SPDX-License-Identifier: GPL-2.0-only
# Tests for each request that is split that its pieces cover it once and in order, and that it ends once, with an error of its pieces
# or without; for each way to submit it, with bios that are split and with requests that are taken apart, and also while the worker that
# takes them apart gets no bio from the disk's pool.
vflash memory_backed=1 max_kib=2048
attach vflash0
Q=/sys/block/vflash0/queue
# The worker that takes requests apart stays on one CPU, as pieces does.
echo 1 > /sys/devices/virtual/workqueue/cpumask || fail "workers take no CPU"

bios() { # prints the bios in use, including those that each CPU keeps
	awk '/^bio-/ { sum += $2 } END { print sum + 0 }' /proc/slabinfo
}
pieces_of() { # MAX_SECTORS_KB NOMERGES ORIGINALS FAULTS
	echo $1 > $Q/max_sectors_kb
	echo $2 > $Q/nomerges
	before="$(counted vflash0 split_requests) $(counted vflash0 split_pieces)"
	pieces vflash0 $SEED_NOW $3 $1 $4 > /tmp/pieces.out || fail "max_sectors_kb $1, nomerges $2, faults $4: $(cat /tmp/pieces.out)"
	random 1000 # another seed for the next call
	account vflash0
	read -r said originals parts < /tmp/pieces.out
	cat /tmp/pieces.out
	all=$((all + parts))
	set -- $1 $before
	[ $1 -lt 2048 ] || # otherwise the block layer splits requests, too
		expect "requests split, pieces" \
			"$(($(counted vflash0 split_requests) - $2)) $(($(counted vflash0 split_pieces) - $3))" "$originals $parts"
}
all=0
pieces_of 2048 0 30 0 # from now on, each CPU keeps as many bios as it ever will
had=$(bios)
for faults in 0 1; do
	pieces_of 2048 0 50 $faults
	pieces_of 2048 2 30 $faults
	pieces_of 256 0 15 $faults
	for every in 1 3; do # the worker gets no bio; with 3, each third time
		insmod $EXTRA/no_bios.ko every=$every || fail "no_bios does not load"
		pieces_of 2048 2 30 $faults
		refused=$(cat /sys/module/no_bios/parameters/refused)
		rmmod no_bios || fail "no_bios does not unload"
		echo "$refused times no bio"
		[ $refused -gt 0 ] || fail "the worker had its bios"
	done
done
has=$(bios)
echo "$all pieces; bios in use before and after: $had $has"
# KASAN keeps freed objects for a while
injects || [ $((has - had)) -lt $((all / 4)) ] || fail "bios are lost"
