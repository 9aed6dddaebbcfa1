#!/usr/bin/env bash
# The stages of `make test`, as arguments: build, lint, checks (the C check programs), specs (busted). Every stage
# adds to one count; the last line is "N passed, N failed", the exit status 0 if nothing failed.
# Environment: BUILD (folder), MAKE, JOBS, CC, CFLAGS, SPECS (files or folders; all by default), TEST_TIMEOUT
# (seconds for one program).
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} MAKE=${MAKE:-make} JOBS=${JOBS:-2} limit=${TEST_TIMEOUT:-1800}
passed=0 failed=0
scratch=$(mktemp -d) || exit 1
output=$scratch/output running=
mkfifo "$scratch/pipe" || exit 1
# `timeout` leads a process group of its own: a Ctrl-C here has to be passed on.
trap 'rm -rf "$scratch"' EXIT
trap '[ -n "$running" ] && kill "$running"; exit 130' INT TERM HUP

export IPULUA=$BUILD/ipulua
unset LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_PATH_5_4 LUA_CPATH LUA_CPATH_5_4
# Specs ask for more memory than there is, too.
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export LSAN_OPTIONS=suppressions=$PWD/spec/support/lsan.supp:print_suppressions=0:${LSAN_OPTIONS:-}
export TSAN_OPTIONS=allocator_may_return_null=1:suppressions=$PWD/spec/support/tsan.supp:${TSAN_OPTIONS:-}

make_quietly() {
  case " ${MAKEFLAGS:-}" in *j*) jobs= ;; *) jobs=-j$JOBS ;; esac
  "$MAKE" --no-print-directory -s $jobs BUILD="$BUILD" ${CC:+CC="$CC"} ${CFLAGS:+CFLAGS="$CFLAGS"} "$@"
}

# One thing that passes or fails as a whole.
count_whole() { # name, command ...
  local name=$1; shift
  if "$@"; then passed=$((passed + 1)); else echo "FAIL $name"; failed=$((failed + 1)); fi
}

count_pattern='^[0-9]+ passed, [0-9]+ failed$'

# A program whose last line of the form "N passed, N failed" is its count. One that dies counts as a failure. Its
# output is shown as it comes, or (whole false) only the end of it and only if something failed.
count_lines() { # name, whole, command ...
  local name=$1 whole=$2 before=$failed status counts; shift 2
  tee "$output" <"$scratch/pipe" | { $whole && grep -vE "$count_pattern" || cat >/dev/null; } &
  local reader=$!
  timeout -k 10 "$limit" "$@" >"$scratch/pipe" 2>&1 </dev/null &
  running=$!
  wait "$running"
  status=$? running=
  wait "$reader"
  counts=$(grep -E "$count_pattern" "$output" | tail -n 1)
  local shown=${counts:-no count}
  if [ -n "$counts" ]; then
    passed=$((passed + ${counts%% *}))
    counts=${counts#*, }
    failed=$((failed + ${counts%% *}))
  fi
  if [ -z "$counts" ] || { [ "$status" != 0 ] && [ "${counts%% *}" = 0 ]; }; then
    echo "FAIL $name: exit status $status$([ "$status" = 124 ] && echo ", stopped after $limit seconds")"
    failed=$((failed + 1))
  fi
  $whole || [ "$failed" = "$before" ] || grep -vE "$count_pattern" "$output" | tail -n 60
  echo "$name: $shown"
}

for stage; do
  case $stage in
    build) count_whole build make_quietly all checks ;;
    lint) count_whole lint make_quietly lint ;;
    checks)
      for source in spec/support/*_check.c; do
        program=$BUILD/$(basename "$source" .c)
        [ -e "$source" ] && count_lines "$(basename "$program")" false "./$program"
      done ;;
    specs)
      if [ -x "$BUILD/ipulua" ]; then
        # A process for each folder: what the thread sanitizer notes of all that was ever allocated would fill the memory.
        for part in ${SPECS:-$(ls -d spec/*/ | grep -v '^spec/support/')}; do
          count_lines "$part" true busted --lua="$BUILD/ipulua" -o spec/support/output.lua "$part"
        done
      else
        echo "FAIL specs: there is no $BUILD/ipulua"
        failed=$((failed + 1))
      fi ;;
  esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
