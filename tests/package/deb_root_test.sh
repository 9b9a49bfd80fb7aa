#!/usr/bin/env bash
# Installs the packages of `./run package` into a fresh Debian 12 and takes them away again: apt install, the README's first fenced table, both
# services on sockets that systemd hands over, systemd-analyze verify, man, completion, apt purge that leaves nothing. As root, with a network;
# minutes.   deb_root_test.sh PACKAGES_DIR [ROOT.tar]
# ROOT.tar: a root made before by mmdebstrap with systemd, man-db, bash-completion; else one is made.
set -euo pipefail
packages=$(realpath -m "$1") tarball=${2:-}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
skip() { echo "skipped: $*" >&2; exit 77; }
[ -n "${TERMGATE_TEST_LONG:-}" ] || skip "minutes of apt: ./test --long runs it"
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
ls "$packages"/termgate_*.deb >/dev/null 2>&1 || skip "there are no packages in $packages: ./run package"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
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
  mmdebstrap --quiet --variant=minbase --include=systemd,man-db,bash-completion bookworm "$tarball"
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
step() { echo "== $*"; }

step "what the packages need, so that only their own files differ afterwards"
inside apt-get -qq update
inside apt-get -qq -y --no-install-recommends install postgresql-15 postgresql-client-15 sqlite3 curl >"$scratch/apt.log" 2>&1 || { tail -20 "$scratch/apt.log" >&2; exit 1; }
# The dependencies first: a trial run names them.
needs=$(inside sh -c "apt-get -s --no-install-recommends install /packages/*.deb" | sed -n 's/^Inst \([^ ]*\) .*/\1/p' | grep -v termgate)
# shellcheck disable=SC2086
inside apt-get -qq -y --no-install-recommends install $needs >>"$scratch/apt.log" 2>&1 || { tail -20 "$scratch/apt.log" >&2; exit 1; }
files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./packages -o -path ./var/lib/dpkg -o -path ./var/lib/apt \
    -o -path ./var/cache -o -path ./var/log \) -prune -o -print | sort)
}
files >"$scratch/before"
users_before=$(cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort)

step "apt install"
inside sh -c 'apt-get -qq -y --no-install-recommends install /packages/*.deb' >"$scratch/install.log" 2>&1 || { tail -20 "$scratch/install.log" >&2; exit 1; }
grep -q '^termgate:' "$root/etc/passwd"
inside termgate --version

step "the README's first fenced table"
python3 - "$source_dir/README.md" "$root/packages" <<'PYTHON'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read().split("## Fence an existing table, from psql", 1)[1]
admin, app = re.findall(r"```sql\n(.*?)```", text, re.S)[:2]
init = re.search(r"^\S*termgate init .*$", text, re.M).group(0)
open(sys.argv[2] + "/admin.sql", "w").write(admin)
open(sys.argv[2] + "/app.sql", "w").write(app)
open(sys.argv[2] + "/init", "w").write(init.split("termgate", 1)[1].replace("@host/", "@127.0.0.1:5432/") + "\n")
PYTHON
cat >"$root/packages/play.sh" <<'PLAY'
set -eu
su postgres -c '/usr/lib/postgresql/15/bin/initdb -A trust -D /tmp/pg >/dev/null'
echo "shared_preload_libraries = 'termgate_guard'" >>/tmp/pg/postgresql.conf
su postgres -c '/usr/lib/postgresql/15/bin/pg_ctl -w -D /tmp/pg -l /tmp/pg.log -o "-c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp" start >/dev/null'
trap 'su postgres -c "/usr/lib/postgresql/15/bin/pg_ctl -w -m immediate -D /tmp/pg stop >/dev/null"' EXIT
sql() { psql -qXAt -v ON_ERROR_STOP=1 -h 127.0.0.1 "$@"; }
sql -U postgres -d postgres -c 'CREATE ROLE app LOGIN' -c 'CREATE DATABASE app'
sql -U postgres -d app -c 'GRANT CREATE ON SCHEMA public TO app' -f /packages/admin.sql
sh -c "termgate $(cat /packages/init)"
sql -U app -d app -c 'CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint); INSERT INTO accounts VALUES (42, 100)'
sql -U app -d app -f /packages/app.sql >/dev/null
test "$(sql -U app -d app -c 'SELECT balance FROM accounts')" = 70
refused() { ! sql -U app -d app -c "$2" 2>/tmp/said && grep -q "$1" /tmp/said || { echo "not refused with $1: $2" >&2; cat /tmp/said >&2; exit 1; }; }
refused TG002 'UPDATE accounts SET balance = 0'
refused TG001 "SET termgate.scope = 'billing'; SET termgate.term = '4'; UPDATE accounts SET balance = 0"
sql -U postgres -d app -c 'CREATE EXTENSION termgate_guard SCHEMA termgate'
echo "   fenced, and refused as promised"

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
unshare --net --pid --mount --fork --kill-child sh -c "ip link set lo up; mount -t proc proc '$root/proc'; exec chroot '$root' /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 sh /packages/play.sh"

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
inside sqlite3 :memory: '.load /usr/lib/'"$(dpkg-architecture -qDEB_HOST_MULTIARCH)"'/termgate/termgate' 'SELECT 1' >/dev/null

step "apt purge"
rm -rf "$root/tmp/pg"
inside apt-get -qq -y purge termgate libtermgate0 libtermgate-dev termgate-sqlite-extension postgresql-15-termgate >"$scratch/purge.log" 2>&1 || { tail -20 "$scratch/purge.log" >&2; exit 1; }
files >"$scratch/after"
diff "$scratch/before" "$scratch/after" || { echo "deb_root_test: apt purge left these files, or took others" >&2; exit 1; }
[ "$users_before" = "$(cut -d: -f1 "$root/etc/passwd" "$root/etc/group" | sort)" ] || { echo "deb_root_test: apt purge left a user or group" >&2; exit 1; }

step "apt purge keeps databases"
inside sh -c 'apt-get -qq -y --no-install-recommends install /packages/termgate_*.deb' >>"$scratch/install.log" 2>&1
mkdir -p "$root/var/lib/termgate"; echo data >"$root/var/lib/termgate/app.db"
inside apt-get -qq -y purge termgate >"$scratch/purge2.log" 2>&1
grep -q '/var/lib/termgate is not empty' "$scratch/purge2.log"
[ "$(cat "$root/var/lib/termgate/app.db")" = data ] && grep -q '^termgate:' "$root/etc/passwd"
echo "deb_root_test: passed"
