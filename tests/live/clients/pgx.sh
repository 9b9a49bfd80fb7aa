#!/bin/sh
# The Go program, built once a run of the tests into $CLIENT_BUILD, from Debian's sources of pgx 4; several may begin at once, so it appears as a whole.
set -e
cd "$(dirname "$0")"
if [ ! -x "$CLIENT_BUILD/pgx" ]; then
  mkdir -p "$CLIENT_BUILD"
  made=$(mktemp "$CLIENT_BUILD/pgx.XXXXXX")
  GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= CGO_ENABLED=0 go build -o "$made" pgx.go
  chmod +x "$made"
  mv "$made" "$CLIENT_BUILD/pgx"
fi
"$CLIENT_BUILD/pgx"
