#!/usr/bin/env bash
# The specs of several processes under each launcher of MPI that is installed. The last line is "N passed, N failed".
# Environment: BUILD (folder).
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
passed=0 failed=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
export IPULUA=$BUILD/ipulua
for launcher in openmpi mpich; do
  if ! command -v "mpirun.$launcher" >/dev/null || ! [ -e "$BUILD/modules/ipulua/comm_$launcher.so" ]; then
    echo "$launcher is not installed"
    continue
  fi
  for spec in spec/processes/{training,shared,launch,mpi,splits}_spec.lua; do
    LAUNCHER=$launcher busted --lua="$IPULUA" -o spec/support/output.lua "$spec" >"$output" 2>&1 </dev/null
    status=$?
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)
    if [ "$status" != 0 ] || [ -z "$counts" ]; then
      cat "$output"
      echo "FAIL $spec under $launcher"
    fi
    counts=${counts:-0 passed, 1 failed}
    these=${counts#*, }
    passed=$((passed + ${counts%% *})) failed=$((failed + ${these%% *}))
  done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
