#!/usr/bin/env bash
# The packages of `./run package` by their contents: control data, file lists, lintian, and a program built against libtermgate-dev as pkg-config and
# CMake find it, unpacked beside the system.   deb_library_test.sh PACKAGES_DIR
set -euo pipefail
packages=$(realpath -m "$1")
here=$(cd "$(dirname "$0")" && pwd)
[ -n "${TERMGATE_TEST_LONG:-}" ] || { echo "skipped: building packages takes minutes: ./test --long does it" >&2; exit 77; }
ls "$packages"/termgate_*.deb >/dev/null 2>&1 || "$here/../../run" package
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-debs.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() { echo "deb_library_test: $*" >&2; exit 1; }
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
for name in termgate libtermgate0 libtermgate-dev termgate-sqlite-extension postgresql-15-termgate; do
  package=$(echo "$packages/${name}"_*.deb)
  [ "$(dpkg-deb -f "$package" Package)" = "$name" ] || fail "$package is not $name"
  [[ "$(dpkg-deb -f "$package" Description)" == 'fencing tokens'* ]] || fail "$name: its description has no synopsis of its own"
  dpkg-deb -c "$package" >"$scratch/$name.list"
  ! grep -vE '^[-dl][rwx-]{9} root/root ' "$scratch/$name.list" || fail "$name has files that root does not own"
  grep -q "/usr/share/doc/$name/copyright$" "$scratch/$name.list" || fail "$name has no copyright"
  dpkg-deb -x "$package" "$scratch/root"
done
has() { grep -qE " \./$2( -> .*)?$" "$scratch/$1.list" || fail "$1 has no $2"; }
has termgate usr/bin/termgate
for unit in termgate-proxy termgate-admin; do has termgate "usr/lib/systemd/system/$unit.service"; done
has termgate etc/termgate/proxy.conf
has termgate usr/share/man/man1/termgate-proxy.1.gz
has libtermgate0 "usr/lib/$multiarch/libtermgate.so.0"
has libtermgate0 "usr/lib/$multiarch/libtermgate-postgresql.so.0"
has libtermgate-dev usr/include/termgate/version.hpp
has libtermgate-dev "usr/lib/$multiarch/pkgconfig/termgate.pc"
has termgate-sqlite-extension "usr/lib/$multiarch/termgate/termgate.so"
has postgresql-15-termgate usr/lib/postgresql/15/lib/termgate_guard.so
has postgresql-15-termgate usr/lib/postgresql/15/lib/termgate_shortcuts.so
for needs in libpqxx libodbc2 libsqlite3-0; do [[ "$(dpkg-deb -f "$packages"/libtermgate0_*.deb Depends)" == *"$needs"* ]] || fail "libtermgate0 does not depend on $needs"; done
# What find_package(Termgate) demands is there without Recommends too, as in most CI images.
for needs in libfmt-dev libpq-dev libpqxx-dev unixodbc-dev pkg-config; do
  dpkg-deb -f "$packages"/libtermgate-dev_*.deb Depends | grep -qE "(^|, )$needs(,|$)" || fail "libtermgate-dev does not depend on $needs"
done
dpkg-deb -f "$packages"/postgresql-15-termgate_*.deb Depends | grep -qE '(^|, )postgresql-15' || fail "the guard does not depend on its server"
! dpkg-deb -f "$packages"/termgate-sqlite-extension_*.deb Depends | grep -qE 'odbc|libpq|ldap|gnutls' || fail "the SQLite extension depends on other databases"
(cd "$packages" && sha256sum --quiet -c SHA256SUMS)
python3 - "$packages" <<'PYTHON'
import json, pathlib, sys
[path] = pathlib.Path(sys.argv[1]).glob("*.spdx.json")
document = json.loads(path.read_text())
ids = {one["SPDXID"] for one in document["packages"]} | {"SPDXRef-DOCUMENT"}
assert document["spdxVersion"] == "SPDX-2.3" and len(ids) == len(document["packages"]) + 1, "identifiers are not unique"
for one in document["relationships"]:
    assert one["spdxElementId"] in ids and one["relatedSpdxElement"] in ids, one
names = {one["name"] for one in document["packages"]}
assert {"termgate", "libtermgate0", "libpq5", "libssl3", "libboost1.81-dev", "libsqlite3-0"} <= names, names
PYTHON
if command -v lintian >/dev/null; then
  lintian --fail-on error,warning "$packages"/*.deb || fail "lintian complains"
else
  echo "lintian is not installed: not run"
fi

lib=$scratch/root/usr/lib/$multiarch
export LD_LIBRARY_PATH=$lib
flags=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_PREFIX_PATH="$scratch/root/usr")
cmake -S "$here" -B "$scratch/cmake" -G Ninja "${flags[@]}" >/dev/null
cmake --build "$scratch/cmake" --target billing leader handles follower >/dev/null
# The examples by themselves, as examples/task-queue/Containerfile builds them.
cmake -S "$here/../../examples" -B "$scratch/examples" -G Ninja "${flags[@]}" >/dev/null
cmake --build "$scratch/examples" --target task_queue >/dev/null
"$scratch/examples/task_queue" play "sqlite:$scratch/queue.db" 50 5 5 10 1
export PKG_CONFIG_PATH=$lib/pkgconfig
read -ra compile <<<"$(pkg-config --define-variable=prefix="$scratch/root/usr" --cflags --libs termgate)"
g++ "$here/billing.cpp" -o "$scratch/billing" "${compile[@]}"
for program in "$scratch/billing" "$scratch/cmake/billing"; do
  ldd "$program" >"$scratch/ldd"
  grep -q 'libtermgate.so.0' "$scratch/ldd" || fail "$program does not use the shared library"
  ! grep -E 'odbc|ldap|gnutls|libpq|not found' "$scratch/ldd" || fail "the SQLite program links these"
done
ldd "$lib/termgate/termgate.so" >"$scratch/ldd"
! grep -E 'odbc|ldap|gnutls|libpq|not found' "$scratch/ldd" || fail "the SQLite extension links these"

command=$scratch/root/usr/bin/termgate
play() {
  export TERMGATE_DB=$1
  "$command" init
  "$command" exec --scope billing --term 1 'CREATE TABLE accounts (id integer PRIMARY KEY, balance bigint NOT NULL)' 'INSERT INTO accounts VALUES (42, 100)'
  "$scratch/billing"
  "$command" lease force-release --scope billing --actor deb_library_test --reason "its leader has gone"
  "$scratch/cmake/handles"
  "$scratch/cmake/leader"
  "$scratch/cmake/follower"
  "$command" verify
}
(cd "$scratch" && play "sqlite:$scratch/billing.db")
if [ -n "${TERMGATE_TEST_POSTGRESQL:-}" ]; then
  name=debs_$$
  psql -qX "$TERMGATE_TEST_POSTGRESQL" -c "CREATE DATABASE $name"
  play "$(printf '%s' "$TERMGATE_TEST_POSTGRESQL" | sed -E "s#/[^/?]*(\\?|\$)#/$name\\1#")"
  psql -qX "$TERMGATE_TEST_POSTGRESQL" -c "DROP DATABASE $name WITH (FORCE)"
fi
# A driver that is missing is named, and what to do.
mkdir "$scratch/alone"
cp -a "$lib"/libtermgate.so.0* "$scratch/alone/"
if TERMGATE_DB=postgresql://nobody@127.0.0.1:1/x LD_LIBRARY_PATH=$scratch/alone "$scratch/billing" >"$scratch/said" 2>&1; then fail "it ran without a driver"; fi
grep -q 'libtermgate-postgresql.so.0 cannot be loaded' "$scratch/said" || { cat "$scratch/said" >&2; fail "the missing driver is not named"; }
echo "deb_library_test: passed"
