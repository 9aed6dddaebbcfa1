#!/usr/bin/env bash
# The project on 64-bit ARM: built with Debian's cross compiler, its check programs and specs run by qemu-aarch64 over a folder of arm64
# packages, which are unpacked, not installed. Nothing is registered in the kernel (no binfmt). The last line is "N passed, N failed".
# Wants mmdebstrap, gcc-aarch64-linux-gnu, qemu-user. Environment: MAKE, JOBS, CC (before the compiler's name: ccache), SPECS, CHECKS.
set -u
cd "$(dirname "$0")/../.." || exit 1
MAKE=${MAKE:-make} JOBS=${JOBS:-2} build=build-arm64 suite=bookworm
system=$PWD/build-arm64-system triplet=aarch64-linux-gnu
all_specs="spec/tensor spec/ops spec/engine spec/data spec/conformance"
all_checks="tensor_check kernels_check nn_check ops_check forms_check second_check graphs_check sizes_check data_check data_interrupts_check \
  api_check memory_check misuse_check interrupt_check verify_check"
specs=${SPECS-$all_specs} checks=${CHECKS-$all_checks}
# Folders of specs and check programs that are not among those, and why.
left_out='spec/cli spec/packaging spec/api spec/examples spec/docs: they load the library into programs of this machine, or look for
  it beside the running file, which is the emulator
spec/processes: mpirun of this machine starts them
spec/machine spec/pipeline spec/replicas spec/keras spec/lua price_check target_check: what they try knows nothing of a processor
*_spec.lua: they read the sources
spec/engine/failing_allocations_spec.lua: the emulator would preload its allocator into itself
spec/engine/interrupt_spec.lua, "finishes one that has": the iteration to be finished has 133 GFLOP, minutes of emulation'
passed=0 failed=0
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT

missing=$(for each in mmdebstrap "$triplet-gcc" qemu-aarch64; do command -v "$each" >/dev/null || echo " $each"; done | tr -d '\n')
if [ -n "$missing" ]; then
  echo "arm64 is not tried here: there is no$missing (Debian's mmdebstrap gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)"
  echo "0 passed, 0 failed"
  exit
fi

packages=libc6-dev,libgcc-s1,liblua5.4-dev,zlib1g-dev,libjansson-dev,libzip-dev,libpng-dev,libjpeg62-turbo-dev,libedit-dev
packages=$packages,libopenblas0-pthread # opened when products are large: most of them are OpenBLAS's here
if [ "$(cat "$system/complete" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$system" && mkdir -p "$system"
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 2>/dev/null | sed -n 's/ Debian$//p' | head -n 1)
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$packages,lua-filesystem,lua-term,lua-system,lua-cjson" \
    "$suite" "$system" ${mirror:+"$mirror"} >"$output" 2>&1 || { cat "$output"; echo "0 passed, 1 failed"; exit 1; }
  echo "$packages" >"$system/complete"
fi

places=$system/usr/lib/$triplet/pkgconfig:$system/usr/share/pkgconfig
"$MAKE" --no-print-directory -s -j"$JOBS" BUILD="$build" CC="${CC:-} $triplet-gcc --sysroot=$system" AR="$triplet-ar" WITH_HDF5=no \
  PKG_CONFIG="env PKG_CONFIG_SYSROOT_DIR=$system PKG_CONFIG_LIBDIR=$places pkg-config" all $(printf "$build/%s " $checks) ||
  { echo "0 passed, 1 failed"; exit 1; }

count() { # name, command
  local name=$1 start=$SECONDS status counts these
  shift
  "$@" >"$output" 2>&1 </dev/null
  status=$?
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)
  these=${counts#*, } these=${these%% *}
  if [ "$status" != 0 ] || [ -z "$counts" ] || [ "$these" != 0 ]; then
    tail -n 60 "$output"
    echo "FAIL $name on arm64: exit status $status"
    [ "${these:-0}" != 0 ] || these=1
  fi
  grep '^pending ' "$output"
  counts=${counts:-0 passed}
  passed=$((passed + ${counts%% *}))
  failed=$((failed + these))
  echo "$name on arm64: $counts ($((SECONDS - start)) s)"
}

# Nothing is left out without a word.
named=" $all_specs $all_checks ${left_out//[:,]/ } "
for each in spec/*/ spec/support/*_check.c; do
  each=${each%/} each=${each#spec/support/} each=${each%.c}
  case $each in spec/support | spec/mutants) continue ;; esac
  case ${named//$'\n'/ } in *" $each "*) continue ;; esac
  echo "FAIL $each is neither run nor named as left out"
  failed=$((failed + 1))
done

# Specs find programs beside the command: each with qemu in front of it. What is only unpacked has no link to OpenBLAS yet.
blas=/usr/lib/$triplet/openblas-pthread
mkdir -p "$build/run"
for program in ipulua $checks; do
  printf '#!/bin/sh\nexec qemu-aarch64 -L %s -E LD_LIBRARY_PATH=%s %s/%s "$@"\n' "$system" "$blas" "$PWD/$build" "$program" >"$build/run/$program"
  chmod +x "$build/run/$program"
done
for check in $checks; do count "$check" "$build/run/$check"; done
export IPULUA=$build/run/ipulua
for spec in $specs; do
  count "$spec" busted --lua="$IPULUA" -o spec/support/output.lua --exclude-pattern=failing_allocations \
    --filter-out=finishes.one.that.has "$spec"
done
echo "left out on arm64:"
echo "$left_out"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
