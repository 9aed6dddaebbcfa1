#!/bin/sh
# clean_root.sh ROOT DEB…: makes ROOT a system that holds nothing but what the packages depend on, taken from this machine's own installed
# packages, and installs them there by dpkg, which checks the dependencies. Wants root (dpkg and chroot do).
set -eu
root=$1
shift

# The names in a field of dependencies: of alternatives the first that is installed.
names() {
  tr ',' '\n' | while read -r line; do
    for name in $(printf '%s\n' "$line" | sed 's/([^)]*)//g; s/:[a-z0-9]*//g; s/|/ /g'); do
      if dpkg-query -W -f='${Status}\n' "$name" 2>/dev/null | grep -q ' installed'; then
        echo "$name"
        break
      fi
    done
  done
}

# All that is needed, however far away; dash is the shell that dpkg's own scripts run in.
found=" "
wanted="dash $(for deb in "$@"; do dpkg-deb -f "$deb" Depends; done | names)"
while [ -n "$wanted" ]; do
  next=
  for name in $wanted; do
    case $found in *" $name "*) continue ;; esac
    found="$found$name "
    next="$next $(dpkg-query -W -f='${Pre-Depends}, ${Depends}\n' "$name" | names)"
  done
  wanted=$(echo $next)
done

mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp"
for name in bin sbin lib lib64; do ln -s usr/$name "$root/$name"; done
dpkg -L $found | sort -u | while read -r path; do
  { [ -f "$path" ] || [ -h "$path" ]; } && echo "$path"
done | tar -C / --no-recursion -cPf - -T - | tar -C "$root" --keep-directory-symlink --strip-components=0 -xf - 2>/dev/null
ln -sf dash "$root/usr/bin/sh"
dpkg-query -s $found > "$root/var/lib/dpkg/status"
for name in $found; do
  for list in /var/lib/dpkg/info/$name.list /var/lib/dpkg/info/$name:*.list; do
    if [ -f "$list" ]; then cp "$list" "$root/var/lib/dpkg/info/"; fi
  done
done
dpkg --root="$root" --log=/dev/null -i "$@" >&2
echo $found
