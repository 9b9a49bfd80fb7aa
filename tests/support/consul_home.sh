#!/usr/bin/env bash
# Prints the path of a real Consul, for tests/sources. Debian 12 has no package of it, Debian 11 has 1.8.7, which needs nothing but libc: it is
# taken from the same mirror as this machine's packages, checked by Debian's own keys, and unpacked into a cache; nothing is installed.
#   consul_home.sh
# A Consul of your own: TERMGATE_CONSUL=/path/to/consul.
set -euo pipefail
if [ -n "${TERMGATE_CONSUL:-}" ]; then echo "$TERMGATE_CONSUL"; exit; fi
if command -v consul >/dev/null; then command -v consul; exit; fi
if [ "$(id -u)" = 0 ]; then default=/var/cache/termgate; else default=$HOME/.cache/termgate; fi
home=${TERMGATE_CACHE:-$default}/consul
if [ ! -x "$home/usr/bin/consul" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Component: main' 2>/dev/null | grep -v security | head -1)
  [ -n "$mirror" ] || { echo "consul_home.sh: apt knows no mirror of Debian" >&2; exit 1; }
  mkdir -p "$home"
  apt=$(mktemp -d "$home/apt.XXXXXX")
  trap 'rm -rf "$apt"' EXIT
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bullseye main" >"$apt/sources.list"
  own=(-o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt"
    -o Dir::State::Status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
  apt-get -qq "${own[@]}" update >&2
  (cd "$apt" && apt-get -qq "${own[@]}" download consul >&2)
  dpkg-deb -x "$apt"/consul_*.deb "$home"
fi
echo "$home/usr/bin/consul"
