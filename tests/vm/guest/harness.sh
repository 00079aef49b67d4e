# SPDX-License-Identifier: GPL-2.0-only
# Not a test of a scheduler: ends as its argument says, for the test that checks what happens to the parts after it.
case $1 in
fail) fail "on purpose" ;;
complain) echo '<4>WARNING: CPU: 0 on purpose' > /dev/kmsg ;;
crash) echo c > /proc/sysrq-trigger ;;
hang) PATIENCE_S=1 && await "a condition that never holds" false ;;
esac
