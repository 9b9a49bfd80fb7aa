#!/usr/bin/env bash
# packaging/version.sh in a repository of its own: without a tag, at one, after one, after an older one, at a wrong one, without git.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/termgate-version.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/packaging" "$scratch/fencing/include/termgate"
cp "$source_dir/packaging/version.sh" "$scratch/packaging/"
cd "$scratch"
fail() { echo "version_test: $*" >&2; exit 1; }
header() { printf '#define TERMGATE_VERSION_MAJOR %s\n#define TERMGATE_VERSION_MINOR %s\n#define TERMGATE_VERSION_PATCH %s\n' "$@" >fencing/include/termgate/version.hpp; }
expect() { local printed; printed=$(packaging/version.sh); [[ "$printed" =~ ^$1$ ]] || fail "$printed, and not $1"; }
commit() { git add -A; git -c user.name=test -c user.email=test@termgate.example commit -q --allow-empty -m "$1"; }
header 0 1 0
expect '0\.1\.0'
git init -q
commit first
commit second
expect '0\.1\.0~2\.g[0-9a-f]{8}'
way=$(packaging/version.sh)
git tag v0.1.0
expect '0\.1\.0'
commit third
expect '0\.1\.0\+1\.g[0-9a-f]{8}'
after=$(packaging/version.sh)
header 0 2 0
commit fourth
expect '0\.2\.0~2\.g[0-9a-f]{8}'
git tag v0.3.0
! packaging/version.sh 2>/dev/null || fail "a tag of another version is taken"
dpkg --compare-versions "$way" lt 0.1.0 || fail "$way is not older than 0.1.0"
dpkg --compare-versions "$after" gt 0.1.0 || fail "$after is not newer than 0.1.0"
dpkg --compare-versions "$after" lt 0.2.0~2 || fail "$after is not older than 0.2.0~2"
echo "version_test: passed"
