# SPDX-License-Identifier: GPL-2.0-only
# Fault injection of the kernel, for parts that must survive failing allocations, submissions and completions. On a kernel without
# fault injection, such as all of Debian's, these functions do nothing.
# Documentation/fault-injection/fault-injection.rst describes the files.

INJECT=/sys/kernel/debug
TIMES=1000000000

injects() {
	[ -d $INJECT/failslab ]
}
needs_injection() {
	injects || skip "a kernel without fault injection"
}
inject() { # KIND PERCENT: begins to inject failures
	echo $TIMES > $INJECT/$1/times
	echo 0 > $INJECT/$1/verbose # it would print a call trace each time
	echo 1 > $INJECT/$1/interval
	echo $2 > $INJECT/$1/probability
}
injected() { # KIND: prints how many failed since inject
	injects || { echo 0; return; }
	echo $((TIMES - $(cat $INJECT/$1/times)))
}
fail_allocations() { # PERCENT SLAB...: fails allocations from these slabs (patterns), also if the caller would wait for memory
	injects || return 0
	percent=$1
	shift
	for slab; do
		for filter in /sys/kernel/slab/$slab/failslab; do
			[ -e $filter ] || fail "no slab is called $slab"
			# until 6.2 only the kernel's command line says which (slub_debug=A)
			{ echo 1 > $filter; } 2> /dev/null || expect "$filter" "$(cat $filter)" 1
		done
	done
	echo Y > $INJECT/failslab/cache-filter
	echo N > $INJECT/failslab/ignore-gfp-wait
	inject failslab $percent
}
fail_submissions() { # DISK PERCENT: submissions end with EIO before a scheduler sees them
	injects || return 0
	echo 1 > /sys/block/$1/make-it-fail
	inject fail_make_request $2
}
fail_completions() { # DISK PERCENT: a driver that supports it loses completions; the requests time out
	injects || return 0
	echo 1 > /sys/block/$1/io-timeout-fail
	inject fail_io_timeout $2
}
fail_no_more() {
	injects || return 0
	for kind in failslab fail_page_alloc fail_make_request fail_io_timeout; do
		echo 0 > $INJECT/$kind/probability
	done
	for switch in /sys/kernel/slab/*/failslab /sys/block/*/make-it-fail /sys/block/*/io-timeout-fail; do
		[ ! -e $switch ] || { echo 0 > $switch; } 2> /dev/null
	done
	echo N > $INJECT/failslab/cache-filter
}
each_allocation() { # CHECK CALL...: runs CALL (failing.c) with its first allocation failing, its second, and so on; after each, CHECK
	check=$1 nth=1 tolerated=0
	shift
	for setting in failslab/ignore-gfp-wait fail_page_alloc/ignore-gfp-wait fail_page_alloc/ignore-gfp-highmem; do
		echo N > $INJECT/$setting
	done
	echo 0 > $INJECT/fail_page_alloc/min-order
	for kind in failslab fail_page_alloc; do
		inject $kind 0
	done
	while RESULT=$(failing $nth "$@"); do
		[ "$RESULT" != ok ] || tolerated=$((tolerated + 1))
		$check
		nth=$((nth + 1))
		[ $nth -lt 5000 ] || fail "$*: more than 5000 allocations"
	done
	[ "$RESULT" = ok ] || fail "$*: $RESULT, and nothing failed"
	$check
	echo "$*: $((nth - 1)) allocations, $tolerated of which may fail"
}
