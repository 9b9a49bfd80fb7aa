#!/bin/sh
# node.sh SCRIPT: runs it with the drivers of NODE_PACKAGES (pg and postgres), which npm fetches once into the tests' cache.
set -e
packages=${NODE_PACKAGES:-pg@8.23.1 postgres@3.4.9}
here=$(cd "$(dirname "$0")" && pwd)
if [ -n "$TERMGATE_CACHE" ]; then cache=$TERMGATE_CACHE; elif [ "$(id -u)" = 0 ]; then cache=/var/cache/termgate; else cache=$HOME/.cache/termgate; fi
home=$cache/node-$(echo "$packages" | tr " @" "--")
mkdir -p "$home"
exec 9>"$home.lock"; flock 9
if [ ! -e "$home/ready" ]; then
  npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$home" $packages >"$home.log" 2>&1 || { cat "$home.log" >&2; exit 1; }
  touch "$home/ready"
fi
flock -u 9
# Modules are looked for above the script's own folder, and the script must not be written beside the modules by two runs at once.
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cp "$here/$1" "$work/"; ln -s "$home/node_modules" "$work/node_modules"
node "$work/$1"
