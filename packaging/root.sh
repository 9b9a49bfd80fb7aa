# Sourced by other_release.sh and arm64.sh: a Debian root of mmdebstrap, with this tree in /src. As root, with a network.
#
#   need_tools                       or ends
#   make_root FOLDER SUITE ARCHITECTURES PACKAGE…   unless it is there already
#   enter FOLDER                     mounts what programs need, and unmounts it when the script ends
#   copy_tree FOLDER                 what git knows, as it is in this folder now, into FOLDER/src
#   inside FOLDER COMMAND…           runs it there, with an environment of its own
#   build_packages FOLDER COMMAND…   the same, with the date and the version that packages of this commit have there
need_tools() {
  [ "$(id -u)" = 0 ] || { echo "$0: a chroot needs root" >&2; exit 1; }
  command -v mmdebstrap >/dev/null || { echo "$0: mmdebstrap is not installed: apt-get install mmdebstrap" >&2; exit 1; }
}

make_root() {
  local root=$1 suite=$2 architectures=$3
  shift 3
  [ ! -e "$root/etc/debian_version" ] || return 0
  echo "Making a root of $suite ($architectures) in $root: some minutes"
  mkdir -p "$root"
  mmdebstrap --quiet --variant=minbase --architectures="$architectures" --include="$(IFS=,; echo "$*")" "$suite" - |
    tar -x -C "$root" --exclude=./dev --exclude=./proc --exclude=./sys || { rm -rf --one-file-system "$root"; return 1; }
}

enter() {
  entered=$1
  trap 'for mounted in proc dev/pts dev/null dev/zero dev/full dev/urandom; do umount "$entered/$mounted" 2>/dev/null || true; done' EXIT
  cp /etc/resolv.conf "$entered/etc/resolv.conf"
  mkdir -p "$entered/proc" "$entered/sys" "$entered/dev/shm" "$entered/src"
  mountpoint -q "$entered/proc" || mount -t proc proc "$entered/proc"
  chmod 1777 "$entered/dev/shm"
  local device
  for device in null zero full urandom; do
    touch "$entered/dev/$device"
    mountpoint -q "$entered/dev/$device" || mount --bind "/dev/$device" "$entered/dev/$device"
  done
  ln -sfn /proc/self/fd "$entered/dev/fd"
  mkdir -p "$entered/dev/pts"
  mountpoint -q "$entered/dev/pts" || mount -t devpts -o newinstance,ptmxmode=0666 devpts "$entered/dev/pts"
  ln -sfn pts/ptmx "$entered/dev/ptmx"
}

# A file that has not changed keeps its time, so that a second run builds only what is new. Files that git does not know are deleted, except
# in build/.
copy_tree() {
  local file
  (cd "$1/src" && find . -path ./build -prune -o -type f -printf '%P\n') | sort | comm -23 - <(git ls-files -co --exclude-standard | sort) |
    (cd "$1/src" && xargs -r -d '\n' rm -f)
  git ls-files -co --exclude-standard | while read -r file; do
    cmp -s "$file" "$1/src/$file" && continue
    mkdir -p "$1/src/$(dirname "$file")"
    cp -p "$file" "$1/src/$file"
  done
}

inside() {
  local root=$1
  shift
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TZ=UTC HOME=/root DEBIAN_FRONTEND=noninteractive \
    CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/root/ccache "$@"
}

build_packages() {
  local root=$1 version debian
  shift
  version=$(packaging/version.sh)
  debian=$(sed -n 's/^VERSION_ID="\{0,1\}\([0-9]*\).*/\1/p' "$root/etc/os-release")
  # A higher version than the package for Debian 12, so that an upgrade of Debian upgrades Termgate too.
  [ "$debian" = 12 ] || version+=+deb$debian
  inside "$root" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" TERMGATE_PACKAGE_VERSION="$version" "$@"
}
