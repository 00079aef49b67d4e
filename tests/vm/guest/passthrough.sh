# SPDX-License-Identifier: GPL-2.0-only
# Measures what passthrough reads (SG_IO) do to a real-time reader on a SCSI disk of four tags, and tests that it goes on when
# they have ended. K2 does not see them: while they wait for tags, the block layer asks no scheduler. Time is virtual.
scsi delay=0 ndelay=1000000 submit_queues=1 max_queue=4
attach $DISK 2
begin rt fio $QUIET --filename=/dev/$DISK --name=rt --rw=randread --bs=4k --ioengine=psync --prioclass=1 --prio=0 \
	--thinktime=2ms --norandommap $FOREVER
progress $DISK
in_a_second() { # WHAT: the real-time reads of a second
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
