# SPDX-License-Identifier: GPL-2.0-only
# The guest's job: makes Debian's root ready, then runs the tests listed in /root/tests in it, one line each.
#
# It ends before the next test when one failed or the kernel complained: what such a test leaves behind could
# decide the next verdict. The host boots again and goes on with the rest.
root=/target
scheduler=$(cat /root/scheduler)

modprobe -a virtio_blk virtio_scsi virtio_rng ext4 || fail "no modules for the disks"

# disk NAME: the disk with this serial number
disk() {
	grep -lx "$1" /sys/block/vd*/serial 2> /dev/null | cut -d / -f 4
}
until [ -n "$(disk root)" ] && [ -n "$(disk modules)" ] && [ -n "$(disk work)" ]; do sleep 0.1; done
mkdir $root # of the initramfs
mount -t ext4 "/dev/$(disk root)" $root || fail "no root"
mkdir -p $root/usr/lib/modules $root/work
mount -t ext4 "/dev/$(disk modules)" $root/usr/lib/modules || fail "no modules"
mount -t ext4 "/dev/$(disk work)" $root/work || fail "no disk to work on"
mount -t proc none $root/proc
mount -t sysfs none $root/sys
mount -t devtmpfs none $root/dev
mkdir -p $root/dev/pts $root/dev/shm
ln -s /proc/self/fd $root/dev/fd
mount -t devpts none $root/dev/pts
for folder in dev/shm run tmp; do mount -t tmpfs none $root/$folder; done
mount -t debugfs none $root/sys/kernel/debug
mount -t tracefs none $root/sys/kernel/tracing
mount -t cgroup2 none $root/sys/fs/cgroup
# Modules that the kernel itself asks for come from the same root.
printf '#!/bin/sh\nexec chroot %s /sbin/modprobe "$@"\n' $root > /sbin/modprobe-in-root
chmod 755 /sbin/modprobe-in-root
echo /sbin/modprobe-in-root > /proc/sys/kernel/modprobe
chroot $root /sbin/modprobe -a configfs loop sd_mod sg || fail "no modules in the root"
mount -t configfs none $root/sys/kernel/config
ip link set lo up

# This guest runs by the host's clock, and how busy the host is must not end it: the kernel still says what
# takes long.
echo 120 > /proc/sys/kernel/hung_task_timeout_secs
echo 0 > /proc/sys/kernel/hung_task_panic
echo 0 > /proc/sys/kernel/softlockup_panic
echo 0 > /proc/sys/kernel/panic_on_rcu_stall

# blktests takes `uname -r` for X.Y.Z, which Debian's releases are not: 6.12.95+deb12-amd64 does not end with a
# number, and 6.1.0-56-amd64 is 6.1.192. The version proper stands in `uname -v`; so `uname -r` says that, and
# what blktests looks for under the release is there under that name too.
release=$(uname -r)
version=$(uname -v | sed -n 's/.*Debian \([0-9]*\.[0-9]*\.[0-9]*\).*/\1/p')
mkdir -p $root/boot
if [ -n "$version" ]; then
	printf '#!/bin/sh\ncase "$*" in -r) echo %s ;; *) exec /usr/bin/uname "$@" ;; esac\n' "$version" \
		> $root/usr/local/bin/uname
	chmod 755 $root/usr/local/bin/uname
	ln -s "$release" "$root/usr/lib/modules/$version"
fi
cp /root/config "$root/boot/config-${version:-$release}"

# Tests that need udev out of the way ask systemd to stop it, which is not here.
cat > $root/usr/local/bin/systemctl << 'EOF'
#!/bin/sh
case "$*" in
*is-active*systemd-udevd) exec pgrep -x systemd-udevd > /dev/null ;;
*stop*systemd-udevd) exec udevadm control --exit ;;
*mask*systemd-udevd) ;;
*start*systemd-udevd) exec /usr/lib/systemd/systemd-udevd --daemon > /dev/null 2>&1 ;;
*) exit 1 ;;
esac
EOF
chmod 755 $root/usr/local/bin/systemctl

# A panic ends QEMU; were this device's driver there, it would only stop the machine.
printf 'blacklist %s\n' pvpanic pvpanic-mmio pvpanic-pci > $root/etc/modprobe.d/pvpanic.conf

# The scheduler goes to each disk that appears, before anyone else sees it. Later a test may choose another.
if [ -f "/lib/modules/extra/$scheduler.ko" ]; then
	insmod "/lib/modules/extra/$scheduler.ko" || fail "$scheduler does not load"
else
	chroot $root /sbin/modprobe "$scheduler-iosched" # says nothing of one that is built in
fi
mkdir -p $root/etc/udev/rules.d
cat > $root/etc/udev/rules.d/99-scheduler.rules << EOF
ACTION=="add", SUBSYSTEM=="block", TEST=="queue/scheduler", ATTR{queue/scheduler}="$scheduler"
EOF
export SYSTEMD_IGNORE_CHROOT=1 # or udev does nothing here
chroot $root /usr/lib/systemd/systemd-udevd --daemon 9>&- || fail "udev does not start"
chroot $root udevadm trigger --action=add
chroot $root udevadm settle
grep -q "\[$scheduler\]" "/sys/block/$(disk work)/queue/scheduler" || fail "udev does not set $scheduler"

cp /root/inside.sh $root/work/inside.sh
cp /root/blktests-config $root/work/blktests/config
while read -r test; do
	echo "$test" > /tmp/name
	emit begin /tmp/name
	chroot $root /bin/bash /work/inside.sh "$test" "$(cat /root/limit_s)" < /dev/null 9>&-
	tar -c -C $root/work/out . > /tmp/result.tar
	emit end /tmp/result.tar
	[ -e $root/work/out/clean ] || break
done < /root/tests
exit 0
