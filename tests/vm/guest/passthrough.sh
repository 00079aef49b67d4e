# SPDX-License-Identifier: GPL-2.0-only
# Measures how much passthrough reads (SG_IO) slow down a real-time reader on a SCSI disk with four tags, and tests that the reader goes
# on after they have ended. They bypass K2: the block layer calls no scheduler while they wait for tags. Time is virtual.
scsi delay=0 ndelay=1000000 submit_queues=1 max_queue=4
attach $DISK 2
begin rt fio $QUIET --filename=/dev/$DISK --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=0 \
	--thinktime=2ms --norandommap $FOREVER
progress $DISK
in_a_second() { # WHAT: prints the number of real-time reads in one second
	seen=$(counted $DISK level0.dispatched)
	sleep 1
	echo "real-time reads in 1 s, $1: $(($(counted $DISK level0.dispatched) - seen))"
}
in_a_second alone
for threads in 2 8; do
	begin sg sg /dev/$DISK $threads
	in_a_second "beside $threads passthrough commands at a time"
	kill $(pidof sg)
	end sg
	cat /tmp/sg.out
	progress $DISK
done
stop rt
expect "level 8 has passthrough commands" "$(counted $DISK level8.inserted)" 0
account $DISK
