# SPDX-License-Identifier: GPL-2.0-only
# Tests that the scheduler can be switched while a process reads the statistics into memory that must first be read from that disk.
vflash read_ns=10000000
attach vflash0
begin reader paged /dev/vflash0 /proc/tailgate-$SCHEDULER
switch() {
	for round in $(seq 10); do
		scheduler vflash0 none
		scheduler vflash0 $SCHEDULER
	done
}
begin switches switch
end switches
progress vflash0
kill $(pidof paged)
end reader 143
account vflash0
