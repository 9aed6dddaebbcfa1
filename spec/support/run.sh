#!/usr/bin/env bash
# The stages of `make test`, as arguments: build, lint (lint-lua: luacheck alone), checks (the C check programs), specs (busted). Groups of the
# last two run side by side, the longest first; what each must count, and which run alone, is in groups.txt. The last
# line is "N passed, N failed", the exit status 0 if nothing failed.
# Environment: BUILD (folder), MAKE, JOBS, CC, CFLAGS, TIER (check, nightly: only the groups of that tier), SPECS (files, folders,
# check programs; all by default), PENDINGS (none: whatever is left out is a failure), JUNIT (a file to write),
# TEST_TIMEOUT (seconds for one group).
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} MAKE=${MAKE:-make} JOBS=${JOBS:-2} limit=${TEST_TIMEOUT:-1800}
support=spec/support groups=${GROUPS_FILE:-spec/support/groups.txt}
began=$EPOCHREALTIME
scratch=$(mktemp -d) || exit 1
declare -A running=()
# `timeout` leads a process group of its own: a Ctrl-C here has to be passed on.
trap 'rm -rf "$scratch"' EXIT
trap '[ ${#running[@]} = 0 ] || kill "${!running[@]}" 2>/dev/null; wait; exit 130' INT TERM HUP

export IPULUA=$BUILD/ipulua
unset LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_PATH_5_4 LUA_CPATH LUA_CPATH_5_4
# Specs ask for more memory than there is, too.
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export LSAN_OPTIONS=suppressions="$PWD/spec/support/lsan.supp":print_suppressions=0:${LSAN_OPTIONS:-}
export TSAN_OPTIONS=allocator_may_return_null=1:suppressions="$PWD/spec/support/tsan.supp":${TSAN_OPTIONS:-}
# UCX below MPICH hooks madvise. At a thread's end, the thread sanitizer's data are gone by then, and it crashes.
case $BUILD in build-tsan) export UCX_MEM_MMAP_HOOK_MODE=none ;; esac

make_quietly() {
  case " ${MAKEFLAGS:-}" in *j*) jobs= ;; *) jobs=-j$JOBS ;; esac
  "$MAKE" --no-print-directory -s $jobs BUILD="$BUILD" ${CC:+CC="$CC"} ${CFLAGS:+CFLAGS="$CFLAGS"} "$@"
}

since() { # a time: the seconds that have passed, with a decimal
  local now=$EPOCHREALTIME
  printf '%d.%d' $(((${now/[.,]/} - ${1/[.,]/}) / 1000000)) $(((${now/[.,]/} - ${1/[.,]/}) / 100000 % 10))
}

# One thing that passes or fails as a whole; so does the call.
count_whole() { # name, command ...
  local name=$1 start=$EPOCHREALTIME good=true; shift
  "$@" || good=false
  if $good; then echo "1 0" >>"$scratch/counts"; else echo "FAIL $name"; echo "0 1" >>"$scratch/counts"; fi
  printf '%-36s %6s s\n' "$name" "$(since "$start")"
  $good
}

# ---- groups ----

# A row of groups.txt is: name, least count, seconds, tier, and "alone" where nothing may run beside it.
row_of() { awk -v name="$1" '$1 == name' "$groups"; }

# The group of a spec file: itself if groups.txt has a row for it, or else its folder below spec.
group_of() {
  local folder=${1#spec/}
  if [ -n "$(row_of "$1")" ]; then echo "$1"
  elif [ "$folder" = "${folder#*/}" ]; then echo spec/
  else echo "spec/${folder%%/*}/"; fi
}

wanted() { # path or program
  [ -z "${SPECS:-}" ] && return 0
  local each
  for each in $SPECS; do
    each=${each%/}
    case $1 in "$each" | "$each"/*) return 0 ;; esac
  done
  return 1
}

find_checks() {
  local source name
  for source in "$support"/*_check.c; do
    name=$(basename "$source" .c)
    [ -e "$source" ] && wanted "$name" && echo "$name"
  done
}

# $scratch/files/N holds the files of the Nth group of $scratch/names.
find_specs() {
  local file name
  mkdir "$scratch/files"
  find "${SPEC_ROOT:-spec}" -name '*_spec.lua' | LC_ALL=C sort | while read -r file; do
    wanted "$file" || continue
    name=$(group_of "$file")
    printf '%s\n' "$file" >>"$scratch/files/${name//\//:}"
    echo "$name"
  done | LC_ALL=C sort -u
}

in_tier() {
  local tier
  [ -z "${SPECS:-}" ] || return 0
  tier=$(row_of "$1" | awk '{print $4}')
  case ${TIER:-test} in
    test) [ "$tier" != nightly ] ;;
    *) [ "$tier" = "$TIER" ] ;;
  esac
}

# Lines of seconds and name, the longest first.
by_length() {
  local name seconds
  while read -r name; do
    in_tier "$name" || continue
    seconds=$(row_of "$name" | awk '{print $3}')
    echo "${seconds:-60} $name"
  done | LC_ALL=C sort -s -k1,1nr
}

is_alone() { case $(row_of "$1") in *" alone"*) return 0 ;; esac; return 1; }

# Runs one group and leaves its status, its seconds and what it printed.
run_group() { # name
  local name=$1 key=${1//\//:} start=$EPOCHREALTIME files=()
  if [ -e "$scratch/files/$key" ]; then
    mapfile -t files <"$scratch/files/$key"
    set -- busted --lua="$BUILD/ipulua" -o "$support/output.lua" -Xoutput "$scratch/$key.results" "${files[@]}"
  else
    set -- "./$BUILD/$name"
    case $BUILD in /*) set -- "$BUILD/$name" ;; esac
  fi
  timeout -k 10 "$limit" "$@" >"$scratch/$key.printed" 2>&1 </dev/null &
  local child=$!
  trap 'kill "$child" 2>/dev/null; wait "$child"; exit 130' TERM
  wait "$child"
  echo "$? $(since "$start")" >"$scratch/$key.status"
}

judge() { # name
  local key=${1//\//:} whole=true
  [ -z "${SPECS:-}" ] || whole=false
  lua5.4 "$support/judge.lua" "$1" "$scratch/$key" "$scratch/files/$key" "$groups" "$whole" "$limit" "${PENDINGS:-}" "$BUILD" \
    >"$scratch/verdict" || echo "0 1" >>"$scratch/counts"
  cat "$scratch/verdict"
}

await() { # wait for one group, tell how it went
  local pid
  wait -n -p pid "${!running[@]}"
  [ -n "${pid:-}" ] || return
  local name=${running[$pid]}
  unset "running[$pid]"
  judge "$name"
}

run_groups() {
  local slots=$JOBS seconds name alone=()
  while read -r seconds name; do
    if is_alone "$name"; then alone+=("$name"); continue; fi
    while [ ${#running[@]} -ge "$slots" ]; do await; done
    run_group "$name" &
    running[$!]=$name
  done
  while [ ${#running[@]} -gt 0 ]; do await; done
  for name in ${alone[@]+"${alone[@]}"}; do
    run_group "$name" &
    running[$!]=$name
    await
  done
}

groups_of_stages() {
  local stage
  for stage; do
    case $stage in
      checks) find_checks ;;
      specs) find_specs ;;
    esac
  done
}

: >"$scratch/counts"
runs=() built=true
for stage; do
  case $stage in
    build) count_whole build make_quietly all checks || built=false ;; # what an older build says counts for nothing
    lint | lint-lua) count_whole "$stage" make_quietly "$stage" ;;
    checks | specs) runs+=("$stage") ;;
    *) echo "no such stage: $stage"; echo "0 1" >>"$scratch/counts" ;;
  esac
done
if $built && [ ${#runs[@]} -gt 0 ]; then
  if [ -x "$BUILD/ipulua" ]; then
    groups_of_stages "${runs[@]}" | by_length >"$scratch/order"
    [ -s "$scratch/order" ] || { echo "FAIL there is nothing to run"; echo "0 1" >>"$scratch/counts"; }
    run_groups <"$scratch/order"
  else
    echo "FAIL there is no $BUILD/ipulua"
    echo "0 1" >>"$scratch/counts"
  fi
fi
if [ -n "${JUNIT:-}" ]; then
  { echo '<?xml version="1.0" encoding="UTF-8"?>'; echo '<testsuites>'
    cat "$scratch"/*.xml 2>/dev/null; echo '</testsuites>'; } >"$JUNIT"
fi
echo "all in $(since "$began") s"
awk '{passed += $1; failed += $2} END {printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0}' \
  "$scratch/counts"
