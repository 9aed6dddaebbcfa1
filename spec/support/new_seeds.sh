#!/bin/sh
# new_seeds.sh SEED: what draws its cases, from seeds that no run had before (make nightly). Fails if one of them does.
BUILD=${BUILD:-build}
echo "seed $1"
bad=0
run() { # command …
  "$@" >"$log" 2>&1 && return
  echo "FAIL $*"
  tail -n 40 "$log"
  bad=1
}
folder=$(mktemp -d) || exit 1
log=$folder/log top=$PWD
trap 'rm -rf "$folder"' EXIT
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
run "$BUILD/price_check" "$1"
run "$BUILD/target_check" "$1"
run "$BUILD/graphs_check" 20000 "$1"
for i in 0 1 2 3; do
  cd "$folder" && run env IPULUA_PROGRESS=off "$BUILD/ipulua" --threads 1 "$top/spec/support/fuzz_keras.lua" $(($1 + i)) 5000
done
cd "$top" || exit 1
run "$BUILD/ipulua" spec/support/price_programs.lua "$1" 350
run "$BUILD/ipulua" spec/support/price_programs.lua "$1" 7000 values
run "$BUILD/ipulua" spec/support/example_prices.lua
run env IPULUA="$BUILD/ipulua" "$BUILD/ipulua" spec/support/all_splits.lua "$1" 20
exit $bad
