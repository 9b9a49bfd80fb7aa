#!/bin/sh
# The Go program, built once a run of the tests into $CLIENT_BUILD, from Debian's sources of lib/pq; several may begin at once, so it appears as a whole.
set -e
cd "$(dirname "$0")"
if [ ! -x "$CLIENT_BUILD/lib_pq" ]; then
  mkdir -p "$CLIENT_BUILD"
  made=$(mktemp "$CLIENT_BUILD/lib_pq.XXXXXX")
  GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= CGO_ENABLED=0 go build -o "$made" lib_pq.go
  chmod +x "$made"
  mv "$made" "$CLIENT_BUILD/lib_pq"
fi
"$CLIENT_BUILD/lib_pq"
