#!/usr/bin/env bash
# A fresh Debian 12, or 13 for packages that end in +deb13, from the README to a refused stale write: with the SQL file alone, after apt install, and
# from the OCI image if it is beside the packages. Then both services on sockets that systemd hands over, systemd-analyze verify, man, completion, and
# apt purge that leaves nothing. As root, with a network; minutes. Packages of another architecture are played by emulation: that takes arch-test,
# qemu-user-static and binfmt_misc, and longer.
#   TERMGATE_TEST_LONG=1 tests/package/deb_root_test.sh PACKAGES_DIR [ROOT.tar]
# PACKAGES_DIR: build/packages or what packaging/release.sh made. ROOT.tar: a root made before by mmdebstrap with systemd, man-db, bash-completion.
set -euo pipefail
packages=$(realpath -m "$1") tarball=${2:-}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "skipped: $*" >&2; exit 77; }
[ -n "${TERMGATE_TEST_LONG:-}" ] || skip "minutes of apt: ./test --long runs it"
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
ls "$packages"/termgate_*.deb >/dev/null 2>&1 || skip "there are no packages in $packages: ./run package"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
case "$(dpkg-deb -f "$packages"/termgate_*.deb Version)" in *+deb13) suite=trixie ;; *) suite=bookworm ;; esac
guard=$(dpkg-deb -f "$packages"/postgresql-*-termgate_*.deb Package)
major=${guard//[^0-9]/}
architecture=$(dpkg-deb -f "$packages"/termgate_*.deb Architecture)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-root.XXXXXX")
root=$scratch/root
cleanup() {
  for mounted in "$root/dev/null" "$root/dev/urandom" "$root/proc"; do umount "$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
mkdir "$root"
if [ -z "$tarball" ]; then
  tarball=$scratch/root.tar
  mmdebstrap --quiet --variant=minbase --architectures="$architecture" --include=systemd,man-db,bash-completion "$suite" "$tarball"
fi
tar -xf "$tarball" -C "$root" --exclude=./dev --exclude=./proc --exclude=./sys
mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/packages"
mount -t proc proc "$root/proc"
for device in null urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mkdir -p "$root/dev/shm" && chmod 1777 "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$packages"/*.deb "$root/packages/"
# minbase leaves out man pages in some images; here they are wanted.
rm -f "$root/etc/dpkg/dpkg.cfg.d/"*doc* "$root/etc/dpkg/dpkg.cfg.d/excludes"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"; chmod 755 "$root/usr/sbin/policy-rc.d"
mkdir -p "$root/etc/postgresql-common"; echo 'create_main_cluster = false' >"$root/etc/postgresql-common/createcluster.conf"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
step() { echo "== ${SECONDS}s: $*"; }

step "what the packages need, so that only their own files differ afterwards"
inside apt-get -qq update
inside apt-get -qq -y --no-install-recommends install "postgresql-$major" sqlite3 curl >"$scratch/apt.log" 2>&1 || { tail -20 "$scratch/apt.log" >&2; exit 1; }
# The dependencies first: a trial run names them.
needs=$(inside sh -c "apt-get -s --no-install-recommends install /packages/*.deb" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v termgate)
# shellcheck disable=SC2086
inside apt-get -qq -y --no-install-recommends install $needs >>"$scratch/apt.log" 2>&1 || { tail -20 "$scratch/apt.log" >&2; exit 1; }
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./packages -o -path ./image -o -path ./var/lib/dpkg -o -path ./var/lib/apt \
    -o -path ./var/cache -o -path ./var/log \) -prune -o -print | sort)
}
play() {
  unshare --net --pid --mount --fork --kill-child sh -c "ip link set lo up; mount -t proc proc '$root/proc'
    exec chroot '$root' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh /packages/play.sh $1"
}
python3 - "$source_dir/README.md" "$root/packages" <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
section = text.split("## See a stale write refused", 1)[1]
admin, six = re.findall(r"```sql\n(.*?)```", section, re.S)[:2]
trial = re.search(r"`(CREATE ROLE app LOGIN; [^`]*)`", section).group(1)
parts = {
    "trial.sql": trial.replace("; ", ";\n"),
    "admin.sql": admin,
    "install.sh": re.search(r"```sh\n(.*?)```", section, re.S).group(1),
    "init.sh": re.search(r"`(termgate init [^`]*)`", section.split("The installed command")[1]).group(1).replace("@host/", "@127.0.0.1/"),
    "app.sql": six,
    "said": re.search(r"```text\n(ERROR:.*)\n", section).group(1) + "\n",
}
for name, part in parts.items():
    open(f"{sys.argv[2]}/{name}", "w").write(part)
PYTHON
cat >"$root/packages/play.sh" <<'PLAY'
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
rm -rf /tmp/pg
su postgres -c "$bin/initdb -A trust -D /tmp/pg >/dev/null"
[ "$1" != package ] || echo "shared_preload_libraries = 'termgate_guard'" >>/tmp/pg/postgresql.conf
su postgres -c "$bin/pg_ctl -w -D /tmp/pg -l /tmp/pg.log -o '-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp' start >/dev/null"
trap 'su postgres -c "$bin/pg_ctl -w -m immediate -D /tmp/pg stop >/dev/null"' EXIT
export PGHOST=127.0.0.1
sql() { psql -qXAt -v ON_ERROR_STOP=1 "$@"; }
sql -U postgres -d postgres -f /packages/trial.sql
sql -U postgres -d app -f /packages/admin.sql
cd /packages
case "$1" in
  script) PGUSER=postgres sh -eu install.sh ;;
  package) sh -eu init.sh ;;
  # The image has no shell.
  image) chroot --userspec=999:999 /image /usr/bin/$(cat init.sh) ;;
esac
! sql -U app -d app -f app.sql >/dev/null 2>/tmp/said || { echo "the stale write was accepted" >&2; exit 1; }
sed 's/^psql:[^ ]* //' /tmp/said | head -1 | diff said - || { cat /tmp/said >&2; exit 1; }
test "$(sql -U app -d app -c 'SELECT balance FROM accounts')" = 70
! sql -U app -d app -c 'UPDATE accounts SET balance = 0' 2>/tmp/said && grep -q TG002 /tmp/said || { cat /tmp/said >&2; exit 1; }
echo "   fenced, and refused as promised"
[ "$1" = package ] || exit 0

sql -U postgres -d app -c 'CREATE EXTENSION termgate_guard SCHEMA termgate'
echo "== both services on sockets of systemd"
install -o termgate -g termgate -m 600 /dev/null /etc/termgate/backend
echo 'postgresql://termgate_owner@127.0.0.1:5432/app' >/etc/termgate/backend
cp /etc/termgate/backend /etc/termgate/admin-db; chown termgate /etc/termgate/admin-db
token=0123456789012345678901234567890
echo "ann read $token" >/etc/termgate/tokens; chown termgate /etc/termgate/tokens; chmod 600 /etc/termgate/tokens /etc/termgate/admin-db
line() { sed -n "s/^ExecStart=//p" "/lib/systemd/system/termgate-$1.service" | sed 's/\$TERMGATE_ADMIN_OPTIONS//'; }
for service in proxy admin; do
  port=$(sed -n 's/^ListenStream=//p' "/lib/systemd/system/termgate-$service.socket")
  su termgate -s /bin/sh -c "exec systemd-socket-activate -l $port $(line $service)" >"/tmp/$service.log" 2>&1 &
done
n=0; until curl -fs -H "Authorization: Bearer $token" http://127.0.0.1:9091/api/v1/fences >/tmp/scopes 2>/dev/null; do n=$((n + 1)); [ $n -lt 100 ] || { cat /tmp/admin.log >&2; exit 1; }; sleep 0.2; done
grep -q billing /tmp/scopes
n=0; until [ "$(sql -p 6432 -U app -d app -c 'SELECT balance FROM accounts' 2>/dev/null)" = 70 ]; do n=$((n + 1)); [ $n -lt 100 ] || { cat /tmp/proxy.log >&2; exit 1; }; sleep 0.2; done
echo "   admin and proxy answer"
PLAY
step "the SQL file alone, as the README has it"
for package in "$packages"/termgate_*.deb; do dpkg-deb -x "$package" "$root/packages/unpacked"; done
inside /packages/unpacked/usr/bin/termgate init --print >"$root/packages/termgate-postgresql.sql"
if [ -e "$packages/termgate-postgresql.sql" ]; then cmp "$packages/termgate-postgresql.sql" "$root/packages/termgate-postgresql.sql"; fi
rm -rf "$root/packages/unpacked"
play script
rm -rf "$root/tmp/pg" # belongs to a user of the root

files >"$scratch/before"
users_before=$(cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort)

step "apt install"
inside sh -c 'apt-get -qq -y --no-install-recommends install /packages/*.deb' >"$scratch/install.log" 2>&1 || { tail -20 "$scratch/install.log" >&2; exit 1; }
grep -q '^termgate:' "$root/etc/passwd"
inside termgate --version

step "after apt install, as the README has it"
play package

step "systemd-analyze verify"
inside systemd-analyze verify /lib/systemd/system/termgate-proxy.service /lib/systemd/system/termgate-admin.service /lib/systemd/system/termgate-proxy.socket \
  /lib/systemd/system/termgate-admin.socket >"$scratch/verify" 2>&1 || { cat "$scratch/verify" >&2; exit 1; }
! grep -i termgate "$scratch/verify"
for unit in proxy admin; do inside systemd-analyze security --offline=true "/lib/systemd/system/termgate-$unit.service" | tail -1; done

step "man and completion"
inside man -w termgate-proxy
inside man -w termgate-lease-acquire
inside bash -c 'source /usr/share/bash-completion/bash_completion; _completion_loader termgate; complete -p termgate; COMP_WORDS=(termgate lease acq); COMP_CWORD=2; _termgate; [ "${COMPREPLY[*]}" = acquire ]'

step "the SQLite extension"
inside sqlite3 :memory: '.load /usr/lib/'"$(dpkg-architecture -a"$architecture" -qDEB_HOST_MULTIARCH)"'/termgate/termgate' 'SELECT 1' >/dev/null

step "apt purge"
rm -rf "$root/tmp/pg"
inside apt-get -qq -y purge termgate libtermgate0 libtermgate-dev termgate-sqlite-extension "$guard" >"$scratch/purge.log" 2>&1 || { tail -20 "$scratch/purge.log" >&2; exit 1; }
files >"$scratch/after"
diff "$scratch/before" "$scratch/after" || { echo "deb_root_test: apt purge left these files, or took others" >&2; exit 1; }
[ "$users_before" = "$(cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort)" ] || { echo "deb_root_test: apt purge left a user or group" >&2; exit 1; }

image=$(ls "$packages"/termgate_*.oci.tar 2>/dev/null || true)
if [ -n "$image" ]; then
  step "from the OCI image, as the README has it"
  "$source_dir/tests/package/image_test.sh" "$image" "$root/image"
  play image
fi

step "apt purge keeps databases"
inside sh -c 'apt-get -qq -y --no-install-recommends install /packages/termgate_*.deb' >>"$scratch/install.log" 2>&1
mkdir -p "$root/var/lib/termgate"; echo data >"$root/var/lib/termgate/app.db"
inside apt-get -qq -y purge termgate >"$scratch/purge2.log" 2>&1
grep -q '/var/lib/termgate is not empty' "$scratch/purge2.log"
[ "$(cat "$root/var/lib/termgate/app.db")" = data ] && grep -q '^termgate:' "$root/etc/passwd"
echo "deb_root_test: passed"
