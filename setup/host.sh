#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Debian packages that Tailgate needs on the host, installed by apt as root or with sudo.
#
#   setup/host.sh demo|check|check-debug|blktests
#                                       install what is missing; silent and quick when nothing is
#   setup/host.sh clean                 undo what was written below /etc/apt; name what was installed
#   setup/host.sh print-list ETC SUITE  the list file that would be written, from the sources below ETC
#   setup/host.sh print-mirrors ETC SUITE  where the sources below ETC have this release and its updates
#
# The guests need a recent QEMU (7.2 hangs in virtual time with more than one CPU), and the lab's newer
# kernel comes from backports. So where the machine does not have the backports of its release yet, it gets
# a list file for them with the machine's own mirror and key, and a pin by which apt takes nothing from there
# unasked except QEMU, and that only where the release itself has an older one.
set -eu

list=/etc/apt/sources.list.d/tailgate-backports.sources
pin=/etc/apt/preferences.d/tailgate-backports
cache=${TAILGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tailgate}
installed=$cache/host/installed
qemu_major=10

# a|b: whichever of the two this release knows.
demo='busybox-static fio gcc kmod libc6-dev libelf1|libelf1t64 make python3 python3-venv xz-utils zstd'
check='chromium chromium-driver clang-format f2fs-tools fio-examples g++ python3-dev sparse spin xfsprogs'
blktests='e2fsprogs g++ genext2fs liburing-dev mmdebstrap uidmap'
# for kernels built from source: dwarves has pahole, for the type information
check_debug='bc bison dwarves flex libelf-dev'

say() { echo "host: $*" >&2; }
die() { echo "tailgate: $*" >&2; exit 1; }

# need_root: before as_root, whose output may go elsewhere.
need_root() {
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "neither root nor sudo: run \`setup/host.sh $mode\` as root first, then this again"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
	else
		sudo env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
	fi
}

# --- apt's sources ---------------------------------------------------------------------------------------

# sources ETC: one line for each URI and suite of main that holds binary packages,
# "SUITE<tab>URI<tab>KEY", from both of apt's formats; KEY is Signed-By, with \n for its line ends.
sources() {
	for f in "$1"/sources.list "$1"/sources.list.d/*.list; do
		[ -f "$f" ] || continue
		awk '$1 == "deb" {
			sub(/^[ \t]*deb[ \t]+/, ""); key = ""; options = ""
			if (match($0, /\[[^]]*\]/)) {
				options = substr($0, RSTART + 1, RLENGTH - 2)
				$0 = substr($0, RSTART + RLENGTH)
			}
			n = split(options, o, " ")
			for (i = 1; i <= n; i++)
				if (sub(/^signed-by=/, "", o[i]))
					key = o[i]
			sub(/#.*/, "")
			for (i = 3; i <= NF; i++)
				if ($i == "main")
					print $2 "\t" $1 "\t" key
		}' "$f"
	done
	for f in "$1"/sources.list.d/*.sources; do
		if [ ! -f "$f" ] || [ "$f" = "$list" ]; then continue; fi
		awk '
		function flush(    i, j, n, m, u, s) {
			if (" " v["types"] " " ~ / deb / && " " v["components"] " " ~ / main / && v["enabled"] != "no") {
				n = split(v["uris"], u, " ")
				m = split(v["suites"], s, " ")
				for (i = 1; i <= m; i++)
					for (j = 1; j <= n; j++)
						print s[i] "\t" u[j] "\t" v["signed-by"]
			}
			split("", v); field = ""
		}
		/^#/ { next }
		/^[ \t]*$/ { flush(); next }
		/^[ \t]/ { v[field] = v[field] (field == "signed-by" ? "\\n" : "") $0; next }
		{
			field = tolower(substr($0, 1, index($0, ":") - 1))
			value = substr($0, index($0, ":") + 1)
			gsub(/^[ \t]+|[ \t]+$/, "", value)
			v[field] = value
		}
		END { flush() }' "$f"
	done
}

# list_text ETC SUITE: the list file for the backports of a release, with its own mirror and key.
list_text() {
	line=$(sources "$1" | awk -F '\t' -v suite="$2" '$1 == suite || $1 == "stable"' | head -n 1)
	[ -n "$line" ] || return 1
	echo "# Written by Tailgate's setup/host.sh for a recent QEMU and kernel; \`make clean-host\` removes it."
	echo "Types: deb"
	echo "URIs: $(printf '%s' "$line" | cut -f 2)"
	echo "Suites: $2-backports"
	echo "Components: main"
	key=$(printf '%s' "$line" | cut -f 3)
	if [ -n "$key" ]; then printf 'Signed-By: %b\n' "$key"; fi
}

# mirrors_text ETC SUITE: the same for a release, its updates and its security updates.
mirrors_text() {
	sources "$1" | awk -F '\t' -v suite="$2" '
		$1 ~ ("^(" suite "|stable)(-updates|-security)?$") {
			found = 1
			print "Types: deb\nURIs: " $2 "\nSuites: " $1 "\nComponents: main"
			if ($3 != "") { gsub(/\\n/, "\n", $3); print "Signed-By: " $3 }
			print ""
		}
		END { exit !found }' ||
		die "apt's sources have no mirror of $2 with main: add one to /etc/apt/sources.list.d"
}

pin_text() { # QEMU-TOO?
	echo "# Written by Tailgate's setup/host.sh; \`make clean-host\` removes it."
	if [ "$ours" = yes ]; then
		echo "Package: *"
		echo "Pin: release n=$codename-backports"
		echo "Pin-Priority: 100"
		echo
	fi
	if [ "$1" = yes ]; then
		echo "Package: src:qemu src:seabios"
		echo "Pin: release n=$codename-backports"
		echo "Pin-Priority: 990"
	fi
}

# put TEXT FILE: write a file of root's, if it is not so already.
put() {
	[ "$(cat "$2" 2>/dev/null)" != "$1" ] || return 0
	need_root
	say "writing $2"
	printf '%s\n' "$1" | as_root tee "$2" >/dev/null
}

# --- what is there ---------------------------------------------------------------------------------------

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

qemu_is_recent() {
	version=$(qemu-system-x86_64 --version 2>/dev/null | sed -n '1s/.*version \([0-9]*\).*/\1/p')
	[ "${version:-0}" -ge $qemu_major ]
}

offered() { LC_ALL=C apt-cache policy "$1" | sed -n 's/^ *Candidate: \([^(].*\)/\1/p'; }

# missing_of LIST: those that are not installed; of alternatives the first that apt knows, else the first.
missing_of() {
	for choice in $1; do
		chosen=
		for name in $(echo "$choice" | tr '|' ' '); do
			if is_installed "$name"; then continue 2; fi
			if [ -z "$chosen" ] && [ -n "$(offered "$name")" ]; then chosen=$name; fi
		done
		echo "${chosen:-${choice%%|*}}"
	done
}

lists_are_recent() {
	[ -n "$(find /var/lib/apt/lists /var/lib/apt/lists/partial -maxdepth 0 -mtime -1 2>/dev/null)" ] &&
		[ -n "$(offered linux-image-amd64)" ]
}

update_lists() {
	need_root
	say "apt-get update: $1"
	out=$(as_root apt-get update -q -o Acquire::Retries=3 2>&1) || die \
		"apt-get update failed ($(echo "$out" | grep '^E:' | head -n 1)): check the network and apt's sources"
}

# --- installing ------------------------------------------------------------------------------------------

# install PACKAGE...: say what will happen, do it with progress, note what is new.
install() {
	need_root
	for name in "$@"; do
		[ -n "$(offered "$name")" ] || die "apt offers no package $name: check the network and apt's sources"
	done
	plan=$(LC_ALL=C apt-get install -s -q --no-install-recommends "$@" 2>&1) || die \
		"apt cannot install $*: $(echo "$plan" | grep -A 1 -E 'unmet|^E:' | tail -n 1)"
	new=$(echo "$plan" | sed -n 's/^Inst \([^ ]*\) (.*/\1/p')
	changed=$(echo "$plan" | sed -n 's/^Inst \([^ ]*\) \[.*/\1/p' | xargs)
	gone=$(echo "$plan" | sed -n 's/^Remv \([^ ]*\) .*/\1/p' | xargs)
	[ -z "$gone" ] || die "installing $* would remove $gone: install them yourself, then try again"
	sizes=$(LC_ALL=C apt-get install --print-uris -qq --no-install-recommends "$@" 2>/dev/null |
		awk '/^\047/ { n += $3 } END { printf "%.0f", n / 1e6 }')
	say "installing $(echo "$new" | wc -w) packages ($sizes MB to download) for: $*"
	[ -z "$changed" ] || say "which need newer versions of: $changed"
	mkdir -p "$cache/host"
	touch "$installed"
	log=$cache/host/apt.log
	begin=$(date +%s) shown=$begin
	: >"$log"
	# apt reports on a descriptor of its own, which it makes non-blocking: dpkg's scripts must not inherit that.
	# sudo closes all but the first three, so the descriptor is made on its other side.
	# shellcheck disable=SC2016 # expanded by the inner shell
	as_root sh -c 'log=$1; shift; exec 3>&1 </dev/null >>"$log" 2>&1; "$@" || echo "E: apt-get failed"' sh "$log" \
		apt-get install -y -q --no-install-recommends -o Acquire::Retries=3 -o APT::Status-Fd=3 \
		-o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Options::=--force-confold "$@" |
		while IFS=: read -r stage _ percent _; do
			case $stage in dlstatus) stage=downloading ;; *) stage=unpacking ;; esac
			now=$(date +%s)
			case $percent in '' | 0* | *[!0-9.]*) continue ;; esac
			[ $((now - shown)) -ge 5 ] || continue
			shown=$now
			say "$stage, ${percent%%.*} % after $((now - begin)) s"
		done
	# shellcheck disable=SC2086 # a list of names
	dpkg-query -W -f '${db:Status-Status} ${Package}\n' $new 2>/dev/null |
		sed -n 's/^installed //p' | sort -u - "$installed" >"$installed.new"
	mv "$installed.new" "$installed"
	if grep -q '^E: ' "$log"; then
		die "$(grep -m 1 '^E: ' "$log" | cut -c 4-) (apt's whole output: $log)"
	fi
	say "installed in $(($(date +%s) - begin)) s"
}

# cached LABEL: is this guest kernel in the cache?
cached() { grep -qs "^  \"$1\": {" "$cache/kernels/kernels.json"; }

set_up() {
	command -v apt-get >/dev/null || die "this machine has no apt, and Tailgate's set-up knows Debian only"
	codename=$(sed -n 's/^VERSION_CODENAME="\{0,1\}\([a-z]*\).*/\1/p' /etc/os-release)
	if ! grep -Eq '^ID="?debian' /etc/os-release || [ -z "$codename" ]; then
		die "this is no Debian release, and guest kernels come from Debian's archive: use Debian 12 or later"
	fi
	[ "$(dpkg --print-architecture)" = amd64 ] || die "only amd64 is supported: use an amd64 machine"

	wanted=$demo
	labels=backports
	case $mode in
	check)
		wanted="$demo $check"
		labels="stable backports stable-rt backports-rt"
		;;
	check-debug)
		wanted="$demo $check $check_debug"
		labels="stable backports"
		;;
	blktests)
		wanted="$demo $blktests"
		labels="stable backports"
		;;
	esac
	missing=$(missing_of "$wanted" | xargs)
	qemu_is_recent || missing="${missing:+$missing }qemu-system-x86"
	fetch=
	for label in $labels; do
		cached "$label" || fetch="$fetch $label"
	done
	if [ -z "$missing" ] && [ -z "$fetch" ]; then
		return 0
	fi
	[ -z "$missing" ] || say "missing Debian packages: $missing"
	[ -z "$fetch" ] || say "guest kernels still to fetch:$fetch"

	if sources /etc/apt | cut -f 1 | grep -qx "$codename-backports"; then
		ours=no
	else
		ours=yes
		text=$(list_text /etc/apt "$codename") ||
			die "apt's sources have no mirror of $codename with main: add one to /etc/apt/sources.list.d"
		before=$(cat "$list" 2>/dev/null || true)
		put "$text" "$list"
		[ -e "$pin" ] || put "$(pin_text no)" "$pin"
		[ "$before" = "$text" ] || update_lists "a new list file"
	fi
	lists_are_recent || update_lists "its lists are missing or older than a day"
	if ! apt-cache madison linux-image-amd64 | grep -q " $codename-backports/main "; then
		update_lists "it does not know $codename-backports"
		apt-cache madison linux-image-amd64 | grep -q " $codename-backports/main " ||
			die "apt finds no $codename-backports: check the network and apt's sources"
	fi

	missing=$(missing_of "$wanted" | xargs)
	if ! qemu_is_recent; then
		if ! dpkg --compare-versions "$(offered qemu-system-x86)" ge "1:$qemu_major"; then
			put "$(pin_text yes)" "$pin"
			dpkg --compare-versions "$(offered qemu-system-x86)" ge "1:$qemu_major" ||
				die "no QEMU $qemu_major in $codename or its backports: install a newer one yourself"
		fi
		missing="${missing:+$missing }qemu-system-x86"
	fi
	# shellcheck disable=SC2086 # a list of names
	[ -z "$missing" ] || install $missing
	qemu_is_recent || die "qemu-system-x86_64 on PATH is older than $qemu_major: remove $(command -v qemu-system-x86_64)"
}

clean() {
	for file in "$list" "$pin"; do
		[ -e "$file" ] || continue
		need_root
		say "removing $file"
		as_root rm "$file"
	done
	if [ -s "$installed" ]; then
		say "left in place, since others may use them by now; Tailgate installed, and this would remove:"
		echo "  apt-get remove $(tr '\n' ' ' <"$installed")"
	else
		say "no Debian package was installed by Tailgate"
	fi
}

mode=${1-}
case $mode in
demo | check | check-debug | blktests) set_up ;;
clean) clean ;;
print-list) list_text "$2" "$3" ;;
print-mirrors) mirrors_text "$2" "$3" ;;
*) die "usage: setup/host.sh demo|check|check-debug|blktests|clean" ;;
esac
