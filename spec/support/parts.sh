#!/usr/bin/env bash
# What is left when an optional part is not there: each of them alone, and all, hidden from pkg-config and from the compiler. In a copy of
# the build folder, so that only what depends on the part is built anew; then the specs that have to do with it. The last line is
# "N passed, N failed". Environment: BUILD (folder), MAKE, JOBS, CC.
set -u
cd "$(dirname "$0")/../.." || exit 1
from=${BUILD:-build} copy=build-parts MAKE=${MAKE:-make} JOBS=${JOBS:-2}
passed=0 failed=0
output=$(mktemp) || exit 1
trap 'rm -rf "$output" "$copy"' EXIT

build() { "$MAKE" --no-print-directory -s -j"$JOBS" BUILD="$1" ${CC:+CC="$CC"} "${@:2}"; }

# Of each part: pkg-config's name, the headers that are its own.
headers_of() {
  case $1 in
    libedit) echo histedit.h editline/readline.h ;;
    libpng) echo png.h pngconf.h ;;
    libjpeg) echo jpeglib.h jerror.h ;;
    hdf5) echo hdf5.h hdf5_hl.h ;;
    ompi-c | mpich) ;; # both have an mpi.h: the plug-in of one is built where the other is hidden
  esac
}
specs_of() {
  case $1 in
    libedit) echo spec/cli/prompt_spec.lua spec/cli/command_spec.lua ;;
    libpng) echo spec/data/files_spec.lua spec/keras/utils_spec.lua spec/keras/image_spec.lua ;;
    libjpeg) echo spec/data/files_spec.lua ;;
    hdf5) echo spec/keras/h5_spec.lua spec/keras/saving_spec.lua ;;
    ompi-c | mpich) echo spec/processes/mpi_spec.lua ;;
    openblas) echo spec/ops/linalg_spec.lua spec/ops/products_spec.lua spec/ops/goldens_spec.lua ;;
  esac
}
# What is opened at run time is hidden from nobody: the build is told to do without it.
settings_of() { case $1 in openblas) echo WITH_OPENBLAS=no ;; esac; }
checks_of() { case $1 in libpng | libjpeg) echo tensor_check data_check ;; esac; }

# A pkg-config that doesn't know the parts, and headers of theirs that nobody may include: in a folder for each case, since a compiler's
# cache takes a folder of the same name for the same.
hide() {
  local part header
  hidden="$copy/hidden-$*" hidden=${hidden// /-}
  mkdir -p "$hidden/editline"
  { echo '#!/bin/sh'; echo 'case " $* " in'
    for part; do echo "*\" $part \"*) exit 1 ;;"; done
    echo esac; echo 'exec pkg-config "$@"'; } >"$hidden/pkg-config"
  chmod +x "$hidden/pkg-config"
  for part; do
    for header in $(headers_of "$part"); do echo "#error \"$part is not there\"" >"$hidden/$header"; done
  done
}

# Whatever names a header of the parts is compiled anew.
forget_users() {
  local part header source object
  for part; do
    for header in $(headers_of "$part"); do
      grep -rlE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$header[>\"]" src | while read -r source; do
        object=${source#src/}
        rm -f "$copy/${object%.c}".o "$copy/${object%.c}".*.o
      done
    done
  done
}

count() { # name, command: adds the last count of what it prints, which is shown only when something failed
  local name=$1 status counts
  shift
  "$@" >"$output" 2>&1 </dev/null
  status=$?
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)
  if [ -n "$counts" ] && [ "${counts#*, }" = "0 failed" ] && [ "$status" = 0 ]; then
    passed=$((passed + ${counts%% *}))
    return 0
  fi
  grep -v '^make' "$output" | tail -n 40
  echo "FAIL $name"
  counts=${counts:-0 passed, 1 failed}
  passed=$((passed + ${counts%% *})) counts=${counts#*, }
  failed=$((failed + (${counts%% *} > 0 ? ${counts%% *} : 1)))
  return 1
}
counted() { "$@" && echo "1 passed, 0 failed"; }

without() { # parts
  local name="without $*" start=$SECONDS before=$passed parts="$*" targets check
  hide "$@"
  forget_users "$@"
  local checks=() settings=() specs=(spec/packaging/parts_spec.lua)
  for part; do
    read -ra targets <<<"$(settings_of "$part")"; settings+=(${targets[@]+"${targets[@]}"})
    read -ra targets <<<"$(checks_of "$part")"; checks+=(${targets[@]+"${targets[@]}"})
    read -ra targets <<<"$(specs_of "$part")"; specs+=("${targets[@]}")
  done
  mapfile -t checks < <(printf '%s\n' ${checks[@]+"${checks[@]}"} | sort -u | grep .)
  mapfile -t specs < <(printf '%s\n' "${specs[@]}" | sort -u)
  CPATH=$hidden count "building $name" counted build "$copy" PKG_CONFIG="$hidden/pkg-config" ${settings[@]+"${settings[@]}"} all comm-stub \
    ${checks[@]+"${checks[@]/#/$copy/}"} || return
  for check in ${checks[@]+"${checks[@]}"}; do count "$check $name" "$copy/$check"; done
  HIDDEN=$parts IPULUA=$copy/ipulua count "specs $name" busted --lua="$copy/ipulua" -o spec/support/output.lua "${specs[@]}"
  echo "$name: $((passed - before)) passed, $((SECONDS - start)) s"
}

if count "building" counted build "$from" all checks; then
  rm -rf "$copy" && mkdir -p "$copy"
  (cd "$from" && find . -path ./npm -prune -o -path ./deb -prune -o \( -type f -o -type l \) -print | tar -cf - -T -) | tar -xf - -C "$copy"
  for part in libedit libpng libjpeg hdf5 ompi-c mpich openblas; do without "$part"; done
  without libedit libpng libjpeg hdf5 ompi-c mpich openblas
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
