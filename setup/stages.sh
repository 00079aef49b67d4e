#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs the stages of a make target, and says before each how long all took so far and what is left.
#
#   setup/stages.sh TARGET "SECONDS|NAME|COMMAND"...
#
# SECONDS is a guess for 2 cores and a fair network; after the first run what a stage took last time counts.
# The first stage that fails ends it with its status.
set -eu
unset MAKEFLAGS MFLAGS MAKELEVEL # an outer make's job server is not ours

target=$1
shift
times=${TAILGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tailgate}/stages
mkdir -p "$times"

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# took STAGE: the expected seconds of a stage
took() {
	name=${1#*|}
	name=${name%%|*}
	cat "$times/$target.$name" 2>/dev/null || echo "${1%%|*}"
}

begin=$(date +%s)
total=$#
number=0
while [ $# -gt 0 ]; do
	left=0
	for stage in "$@"; do
		left=$((left + $(took "$stage")))
	done
	number=$((number + 1))
	name=${1#*|}
	command=${name#*|}
	name=${name%%|*}
	now=$(date +%s)
	echo "[$target $number/$total] $name ($(clock $((now - begin))) so far, about $(clock $left) left)" >&2
	status=0
	sh -c "$command" || status=$?
	if [ $status -ne 0 ]; then
		echo "[$target $number/$total] $name failed after $(clock $(($(date +%s) - begin)))" >&2
		exit $status
	fi
	echo $(($(date +%s) - now)) >"$times/$target.$name"
	shift
done
echo "[$target] done in $(clock $(($(date +%s) - begin)))" >&2
