# SPDX-License-Identifier: GPL-2.0-only
# Tests that k2 splits nothing on a path of a multipath NVMe drive. Requests move to another path when one goes away, and pieces would
# still need memory of the old one.
modprobe nvme-loop || fail "nvme-loop does not load"
null
mount -t configfs none /sys/kernel/config 2> /dev/null
target=/sys/kernel/config/nvmet
no_target() {
	for deletes in /sys/class/nvme/nvme*/delete_controller; do [ ! -e $deletes ] || echo 1 > $deletes; done
	rm -f $target/ports/1/subsystems/test
	rmdir $target/ports/1 $target/subsystems/test/namespaces/1 $target/subsystems/test
	modprobe -r nvme-loop
}
trap no_target EXIT
mkdir $target/subsystems/test $target/ports/1 || fail "no NVMe target"
echo 1 > $target/subsystems/test/attr_allow_any_host
mkdir $target/subsystems/test/namespaces/1
echo /dev/nullb0 > $target/subsystems/test/namespaces/1/device_path
echo 1 > $target/subsystems/test/namespaces/1/enable || fail "no namespace"
echo loop > $target/ports/1/addr_trtype
ln -s $target/subsystems/test $target/ports/1/subsystems/test || fail "no port"
echo transport=loop,nqn=test > /dev/nvme-fabrics || fail "no connection"
await "no NVMe drive" test -b /dev/nvme0n1
path=$(cd /sys/block && ls -d nvme0c*n1) || fail "no multipath"
expect "$path is hidden" $(cat /sys/block/$path/hidden) 1

attach $path 4
echo 16 > /sys/block/$path/queue/iosched/split_kib
load nvme0n1 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 --number_ios=500
account $path
expect "requests that were split" $(counted $path split_requests) 0
[ $(counted $path dispatched) -ge 500 ] || fail "not all requests came by $path"

begin reads fio $QUIET --filename=/dev/nvme0n1 --name=r --rw=randread --bs=64k --ioengine=libaio --iodepth=16 $FOREVER
progress $path
echo 1 > /sys/class/nvme/nvme0/delete_controller
await "fio does not notice that the drive is gone" ended reads
await "$path stays" test ! -e /sys/block/$path
[ -z "$(statistics $path)" ] || fail "statistics of a path that is gone"
