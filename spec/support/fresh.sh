#!/usr/bin/env bash
# What a new user tries, in fresh Debian roots (fresh_root.sh); the last line is "N passed, N failed".
# fresh.sh demo: `make demo` in both suites, in one as root, in the other as a user with sudo: for every submission.
# fresh.sh all: `make demo`, `make test`, the tarball, the packages, the rock, in each of SUITES (bookworm trixie), as each of USERS
# (root ada; who isn't root has sudo). fresh.sh test, fresh.sh packages: the one half of that, and the other.
set -u
SUITES=${SUITES:-bookworm trixie} USERS=${USERS:-root ada}
cd "$(dirname "$0")/../.." || exit 1
run=spec/support/fresh_root.sh passed=0 failed=0
shared=$(mktemp -d /var/tmp/ipulua-shared.XXXXXX) || exit 1
trap 'rm -rf "$shared"' EXIT
count_pattern='^[0-9]+ passed, [0-9]+ failed$'

reason=$("$run" --why-not)
if [ -n "$reason" ]; then
  echo "fresh roots are not tried here: $reason"
  echo "0 passed, 0 failed"
  exit
fi

# One line when it went well; otherwise FAIL, each failure that was printed, and the last lines.
try() { # suite, user, what, command, a line that must be in what it prints
  local suite=$1 user=$2 what=$3 command=$4 expected=$5 log=$shared/log start=$SECONDS name line
  name="$what in a fresh root of $suite as $user"
  FRESH_USER=$user FRESH_SHARED=$shared/files "$run" "$suite" "$command" >"$log" 2>&1 </dev/null
  status=$?
  line=$(grep -E "$expected" "$log" | tail -n 1)
  if [ "$status" = 0 ] && [ -n "$line" ]; then
    passed=$((passed + 1))
    echo "$name: $line ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAIL $name: exit status $status"
    { awk '/^[^ ]/ { inside = /^FAIL/ } inside' "$log" | head -n 200
      grep -vE '^make(\[[0-9]+\])?: ' "$log" | tail -n 30; } | sed 's/^/    /'
  fi
}
demo() { try "$1" "$2" "make demo" "make demo" '^test accuracy 9[0-9.]+ %$'; }
counts_nothing_bad='^[1-9][0-9]* passed, 0 failed$'

# README's script, which ends with "true" when the model has learned.
readme='awk "/^\`\`\`lua/ { n++; next } /^\`\`\`/ { if (n) exit } n" README.md > /shared/readme.lua'
rock_of='luarocks --lua-version=5.4 --tree=$HOME/tree'

# What is packed, from a tree that is root's where the user is an ordinary one: into folders of the user's own.
packing() { # user
  local own="BUILD=\$HOME/built DEBS=\$HOME/debs"
  echo "make deps && sudo chown -R root: . && make -s all $own && make dist deb $own && cp \$HOME/debs/*.deb \$HOME/built/*.tar.gz /shared \
    && test -z \"\$(git -c safe.directory=* status --porcelain)\" && $readme"
}

tests() { try "$1" "$2" "make demo and make test" "make demo && make test" "$counts_nothing_bad"; }

packages() { # suite, user
  local suite=$1 user=$2
  rm -rf "$shared/files"
  try "$suite" "$user" "make dist and make deb" "$(packing) && echo packed" '^packed$'
  FRESH_TREE=no try "$suite" "$user" "the tarball without git" "tar -xzf /shared/ipulua-*.tar.gz && cd ipulua-* && ! command -v git && make demo" \
    '^test accuracy 9[0-9.]+ %$'
  FRESH_TREE=no try "$suite" "$user" "the rock" "tar -xzf /shared/ipulua-*.tar.gz && cd ipulua-* && make deps-build && \
    sudo apt-get -q -y install --no-install-recommends luarocks && $rock_of make --deps-mode=none \$(make -s rock) && \$HOME/tree/bin/ipulua \
    /shared/readme.lua && eval \"\$($rock_of path)\" && lua5.4 /shared/readme.lua" '^true$'
  FRESH_TREE=no try "$suite" "$user" "the packages alone" "sudo apt-get -q update && sudo apt-get -q -y install --no-install-recommends \
    \$(ls /shared/*.deb | grep -v dbgsym) && ! command -v gcc && ipulua /shared/readme.lua" '^true$'
}

case ${1:-} in
  demo) demo bookworm root; demo trixie ada ;;
  test | packages | all)
    for suite in $SUITES; do
      for user in $USERS; do
        [ "$1" = packages ] || tests "$suite" "$user"
        [ "$1" = test ] || packages "$suite" "$user"
      done
    done ;;
  *) echo "usage: $0 demo|test|packages|all" >&2; exit 2 ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
