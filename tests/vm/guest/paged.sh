# SPDX-License-Identifier: GPL-2.0-only
# Tests that the scheduler may change while somebody reads the statistics into memory that must first be read from that disk.
vflash read_ns=10000000
k2 vflash0
begin reader paged /dev/vflash0 /proc/tailgate-k2
switch() {
	for round in $(seq 10); do
		scheduler vflash0 none
		scheduler vflash0 k2
	done
}
begin switches switch
end switches
progress vflash0
kill $(pidof paged)
end reader 143
account vflash0
