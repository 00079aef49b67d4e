# SPDX-License-Identifier: GPL-2.0-only
# No part of K2's tests: ends as its argument says, for the test of what becomes of the parts behind it.
case $1 in
fail) fail "on purpose" ;;
complain) echo '<4>WARNING: CPU: 0 on purpose' > /dev/kmsg ;;
crash) echo c > /proc/sysrq-trigger ;;
hang) PATIENCE_S=1 && await "a thing that never comes" false ;;
esac
