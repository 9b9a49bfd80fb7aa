#!/usr/bin/env bash
# The tarball for other Linux, and the image that is made of it, made of a command that is linked statically with our libraries: the same bytes twice, from other folders, with another
# umask and at another moment; unpacked anywhere, without an environment, the command takes every library but glibc's from beside it and refuses a stale
# leader; the README names the glibc that the newest symbol needs.   tarball_test.sh TERMGATE
set -euo pipefail
termgate=$(realpath "$1")
packaging=$(cd "$(dirname "$0")/../../packaging" && pwd)
command -v patchelf >/dev/null || { echo "skipped: patchelf is missing (Debian: patchelf)" >&2; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-tarball.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "tarball_test: $*" >&2; exit 1; }
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=1700000000
for turn in first again-in-a-longer-folder; do
  mkdir -p "$scratch/$turn/prefix/usr/bin" "$scratch/$turn/out"
  cp "$termgate" "$scratch/$turn/prefix/usr/bin/termgate"
  # What only a debugger reads is most of a development build.
  strip "$scratch/$turn/prefix/usr/bin/termgate"
done
(cd "$scratch/first" && "$packaging/tarball.py" prefix 0.1.0 "$architecture" out)
(cd / && umask 077 && TZ=Pacific/Kiritimati LC_ALL=C "$packaging/tarball.py" "$scratch/again-in-a-longer-folder/prefix" 0.1.0 "$architecture" "$scratch/again-in-a-longer-folder/out")
name=termgate-0.1.0-linux-$architecture
cmp "$scratch/first/out/$name.tar.gz" "$scratch/again-in-a-longer-folder/out/$name.tar.gz" || fail "not the same bytes twice"
mkdir "$scratch/elsewhere"
tar -xzf "$scratch/first/out/$name.tar.gz" -C "$scratch/elsewhere"
mv "$scratch/elsewhere/$name" "$scratch/elsewhere/renamed"
home=$scratch/elsewhere/renamed
env -i ldd "$home/bin/termgate" >"$scratch/ldd"
! grep 'not found' "$scratch/ldd" || fail "libraries are missing"
while read -r path; do
  case "$(dpkg -S "$path" 2>/dev/null || dpkg -S "/usr$path")" in
    libc6:*) ;;
    *) fail "$path is taken from this system" ;;
  esac
done < <(grep -oE '(=> )?/[^ ]+ \(' "$scratch/ldd" | grep -oE '/[^ ]+' | grep -v "^$home/")
ldconfig -p >"$scratch/cache"
for library in "$home"/lib/*; do
  original=$(awk -v name="$(basename "$library")" '$1 == name { print $NF; exit }' "$scratch/cache")
  cmp -s "$library" "$original" || fail "$library is not Debian's"
done
# The newest symbol of glibc, counted another way.
needs=$(objdump -T "$home/bin/termgate" "$home"/lib/* | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
grep -q "^Needs glibc ${needs#GLIBC_} or newer" "$home/README.txt" || fail "the README does not say ${needs#GLIBC_}"
[ "$(env -i "$home/bin/termgate" --version)" = "$("$termgate" --version)" ] || fail "it does not run"
(cd "$scratch" && env -i PATH=/usr/bin:/bin HOME="$scratch" "$home/bin/termgate" demo) >"$scratch/demo"
grep -q 'TG001 stale term 1' "$scratch/demo" || { cat "$scratch/demo"; fail "no stale leader was refused"; }
# The image: the same bytes twice too; release_test.sh plays one.
for turn in first again-in-a-longer-folder; do
  (cd / && "$packaging/oci.py" "$scratch/$turn/out/$name.tar.gz" "$scratch/$turn/image.tar")
done
cmp "$scratch/first/image.tar" "$scratch/again-in-a-longer-folder/image.tar" || fail "not the same image twice"
# A library that is nowhere is an error and not a tarball.
mkdir -p "$scratch/empty/var/lib/dpkg/info" "$scratch/empty/etc"
cp /etc/os-release "$scratch/empty/etc/"
touch "$scratch/empty/var/lib/dpkg/status"
! "$packaging/tarball.py" "$scratch/first/prefix" 0.1.0 "$architecture" "$scratch" "$scratch/empty" 2>"$scratch/error" || fail "made of a system without libraries"
grep -q 'is nowhere in' "$scratch/error" || { cat "$scratch/error"; fail "the error does not name the library"; }
echo "tarball_test: passed, glibc ${needs#GLIBC_}"
