#!/usr/bin/env bash
# Prints the version of this commit, in an order that Debian's tools know. V is that of fencing/include/termgate/version.hpp, N a number of commits:
#   V               at the tag vV, and where there is no git (the tree of a release)
#   V+N.gCOMMIT     N commits after the tag vV
#   V~N.gCOMMIT     on the way to V: N commits after an older tag or, without a tag, after nothing
# Fails where HEAD has a tag of another version than the header.
set -euo pipefail
cd "$(dirname "$0")/.."
number() { sed -n "s/^#define TERMGATE_VERSION_$1 //p" fencing/include/termgate/version.hpp; }
version=$(number MAJOR).$(number MINOR).$(number PATCH)
# A folder inside somebody else's repository has no version of that repository.
[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] || { echo "$version"; exit; }
commit=$(git rev-parse HEAD)
tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || tag=
count=$(git rev-list --count "${tag:+$tag..}HEAD")
if [ "$tag" != "v$version" ]; then
  [ -z "$tag" ] || [ "$count" != 0 ] || { echo "version.sh: the tag is $tag, and version.hpp has $version" >&2; exit 1; }
  version="$version~$count.g${commit:0:8}"
elif [ "$count" != 0 ]; then
  version="$version+$count.g${commit:0:8}"
fi
echo "$version"
