#!/bin/sh
# The Go program, built once a run of the tests into $CLIENT_BUILD, from Debian's sources of lib/pq.
set -e
cd "$(dirname "$0")"
if [ ! -x "$CLIENT_BUILD/lib_pq" ]; then
  GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= CGO_ENABLED=0 go build -o "$CLIENT_BUILD/lib_pq" lib_pq.go
fi
"$CLIENT_BUILD/lib_pq"
