# SPDX-License-Identifier: GPL-2.0-only
# inside.sh TEST LIMIT_S: run one test of blktests; all that is known about it is then below /work/out:
# results/ as blktests writes it, output, dmesg, code, seconds; and `clean` if the guest is fit for another test.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LC_ALL=C
export SYSTEMD_IGNORE_CHROOT=1
test=$1
limit_s=$2
out=/work/out

rm -rf $out
mkdir -p $out
cd /work/blktests || exit 1
dmesg --clear
begin=$SECONDS
GROUP=${test%%/*} timeout --kill-after=10 "$limit_s" ./check -o $out/results "$test" > $out/output 2>&1
code=$?
if [ $code = 124 ] || [ $code = 137 ]; then
	code=timeout
	echo w > /proc/sysrq-trigger # the kernel says where blocked tasks wait
fi
echo $code > $out/code
echo $((SECONDS - begin)) > $out/seconds
udevadm settle --timeout=30
dmesg > $out/dmesg
rm -rf $out/results/tmpdir.*
find $out -type f -size +1024k ! -name dmesg -delete
if [ "$code" = 0 ] && ! grep -Eq 'WARNING:|BUG|Oops|Call Trace|INFO: task' $out/dmesg; then
	touch $out/clean
fi
