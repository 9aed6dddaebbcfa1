#!/usr/bin/env bash
# Planted mistakes: each patch of spec/mutants is applied in a copy of the tree, built, and the check that its header names has to
# fail. The last line is "N passed, N failed". A patch that no longer applies, one whose copy can't be built, and a check that passes or
# is killed by a signal or the clock are failures. Arguments: names of patches (all by default).
# Environment: BUILD (a folder that is built, from which the copy starts), MAKE, JOBS, CC, MUTANT_TIMEOUT (seconds for one check).
#
# A patch's header:
#   Fails: sizes_check nn.gru          a check program with its arguments, or a spec file and the cases' name
#   What: a sentence on the mistake
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build} MAKE=${MAKE:-make} JOBS=${JOBS:-2} limit=${MUTANT_TIMEOUT:-300}
export IPULUA_BLAS=own # the mistakes are in the project's kernels, whatever CPU this is
passed=0 failed=0
copy=$(mktemp -d) || exit 1
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM HUP

git -c safe.directory="*" ls-files -z | xargs -0 cp -a --parents -t "$copy" && cp -a "$BUILD" "$copy/build" || exit 1
field() { sed -n "s/^$1: *//p" "$2" | head -n 1; }
complain() { failed=$((failed + 1)); echo "FAIL $name: $*"; }
built() { (cd "$copy" && "$MAKE" --no-print-directory -s -j"$JOBS" BUILD=build ${CC:+CC="$CC"} "$@") >"$copy/log" 2>&1; }

# The files that a patch changes, as they were: applied backwards it may find another place like its own.
restore() {
  sed -n 's|^+++ b/||p' "$1" | while read -r file; do
    cp "$file" "$copy/$file" && touch "$copy/$file"
  done
}

# Whether the check of the patch fails, as it should.
try() { # check, its arguments ...
  local status
  case $1 in
    *_check)
      built "build/$1" || { complain "can't be built"; tail -n 5 "$copy/log"; return; }
      (cd "$copy" && IPULUA=build/ipulua timeout "$limit" "build/$1" "${@:2}") >"$copy/log" 2>&1 ;;
    *)
      built all comm-stub || { complain "can't be built"; tail -n 5 "$copy/log"; return; }
      local filter="${*:2}" # a pattern: busted starts Lua by a shell, which would part its words
      (cd "$copy" && IPULUA=build/ipulua timeout "$limit" busted --lua=build/ipulua -o spec/support/output.lua "$1" ${filter:+--filter="${filter// /.}"}) >"$copy/log" 2>&1 ;;
  esac
  status=$?
  case $status in
    0) complain "$* doesn't see it" ;;
    124 | 125 | 126 | 127 | 137 | 143) complain "$* ends with status $status" ;; # out of time, or never begun
    *) passed=$((passed + 1)); echo "found $name" ;;                              # a crash is seen, too
  esac
}

for patch in spec/mutants/*.patch; do
  name=$(basename "$patch" .patch)
  [ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
  if ! (cd "$copy" && patch -s -F0 -p1 --dry-run && true) <"$patch" >"$copy/log" 2>&1; then
    complain "doesn't apply"
    continue
  fi
  (cd "$copy" && patch -s -F0 -p1) <"$patch"
  # shellcheck disable=SC2046 # the words of the check
  try $(field Fails "$patch")
  restore "$patch"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
