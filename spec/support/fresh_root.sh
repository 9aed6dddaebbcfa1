#!/usr/bin/env bash
# fresh_root.sh SUITE COMMAND: runs a shell command in a new Debian root of that suite, which holds nothing but apt, make and sudo, in a
# clone of the last commit. Wants root. What it mounts is mounted in a namespace of its own; the root is removed at the end.
# fresh_root.sh --why-not: says why this machine can't, or nothing.
# Environment: FRESH_USER (a user with sudo and without a password, instead of root), FRESH_SHARED (a folder, there as /shared),
# FRESH_TREE=no (without the clone). Bootstrapped systems and downloaded packages are kept below FRESH_CACHE.
set -u
user=${FRESH_USER:-root} shared=${FRESH_SHARED:-} tree=${FRESH_TREE:-yes}
cache=${FRESH_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ipulua/fresh}
most_days=7 # a bootstrapped system is made anew when it is older

why_not() {
  [ "$(id -u)" = 0 ] || { echo "only root may make one"; return; }
  command -v apt-get >/dev/null || { echo "there is no apt-get"; return; }
  unshare --mount --propagation private true 2>/dev/null || { echo "no mount namespace may be made"; return; }
  command -v mmdebstrap >/dev/null || apt-get install -y -q --no-install-recommends mmdebstrap >/dev/null 2>&1 ||
    { echo "there is no mmdebstrap, and none could be installed"; return; }
}

reason=$(why_not)
if [ "${1:-}" = --why-not ]; then echo "$reason"; exit; fi
[ $# = 2 ] || { echo "usage: $0 SUITE COMMAND" >&2; exit 2; }
[ -z "$reason" ] || { echo "a fresh root: $reason" >&2; exit 2; }
[ -n "${FRESH_NAMESPACE:-}" ] || FRESH_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
suite=$1 command=$2

fail() { echo "a fresh root of $suite: $1" >&2; exit 3; }
root=$(mktemp -d "${TMPDIR:-/var/tmp}/ipulua-$suite.XXXXXX") || exit 3
# Downloaded packages are there and back again as links, so that several roots at once don't wait for each other.
link() { cp -ln "$@" 2>/dev/null || cp -n "$@" 2>/dev/null; }
keep_packages() { find "$root/var/cache/apt/archives" -maxdepth 1 -name '*.deb' 2>/dev/null | while read -r deb; do link "$deb" "$cache/$suite/"; done; }
# Removed only once nothing is mounted below it: folders of this machine are.
remove() {
  keep_packages
  umount -R "$root" 2>/dev/null || umount -R -l "$root"
  grep -qF " $root" /proc/self/mountinfo && { echo "still mounted: $root" >&2; return; }
  rm -rf --one-file-system "$root"
}
mount --bind "$root" "$root" || exit 3
trap remove EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$root" && mkdir -p "$cache/$suite" || exit 3

# This machine's apt knows the mirror and the way to it.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(LABEL)' 2>/dev/null | sed -n 's/ Debian$//p' | head -n 1)
apt-config dump Acquire > "$root/acquire"

bootstrapped=$cache/$suite.tar
if [ -z "$(find "$bootstrapped" -maxdepth 0 -type f -mtime "-$most_days" -size +0 2>/dev/null)" ]; then
  rm -rf "$bootstrapped"
  mmdebstrap --quiet --format=tar --variant=apt --include=make,ca-certificates,sudo --aptopt="$root/acquire" "$suite" "$bootstrapped.$$" \
    ${mirror:+"$mirror"} >"$root/log" 2>&1 || { cat "$root/log" >&2; fail "mmdebstrap failed"; }
  mv "$bootstrapped.$$" "$bootstrapped"
fi
tar -xf "$bootstrapped" -C "$root" || fail "$bootstrapped can't be unpacked"
mv "$root/acquire" "$root/etc/apt/apt.conf.d/99acquire"
# What is lost when the power fails needs no care here; and what was downloaded once is kept.
echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/fresh"
echo 'APT::Keep-Downloaded-Packages "true";' > "$root/etc/apt/apt.conf.d/99keep"
cp /etc/resolv.conf "$root/etc/" 2>/dev/null
echo "127.0.0.1 localhost $(uname -n)" > "$root/etc/hosts"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --bind -o ro /sys "$root/sys" || fail "mounting failed"
link "$cache/$suite"/*.deb "$root/var/cache/apt/archives/"
if [ -n "$shared" ]; then
  mkdir -p "$shared" "$root/shared" && chmod 777 "$shared" && mount --bind "$shared" "$root/shared" || fail "mounting failed"
fi

home=/root
if [ "$user" != root ]; then
  home=/home/$user
  echo "$user:x:1000:1000::$home:/bin/sh" >> "$root/etc/passwd"
  echo "$user:x:1000:" >> "$root/etc/group"
  echo "$user:*:20000:0:99999:7:::" >> "$root/etc/shadow"
  mkdir -p "$root$home"
  echo "$user ALL=(ALL) NOPASSWD:ALL" > "$root/etc/sudoers.d/$user"
fi
work=$home
if [ "$tree" = yes ]; then
  work=$home/ipulua
  git clone -q . "$root$work" || fail "this is no clone"
fi
chroot "$root" chown -R "$user" "$home" || exit 3
# No exec: what was made is removed when it ends.
chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
  sudo -E -H -u "$user" sh -c "cd $work && $command"
