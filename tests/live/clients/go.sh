#!/bin/sh
# go.sh NAME: the Go program NAME.go, built once a run of the tests into $CLIENT_BUILD from Debian's sources of its driver. Several may begin at once, so it appears as a whole.
set -e
cd "$(dirname "$0")"
if [ ! -x "$CLIENT_BUILD/$1" ]; then
  mkdir -p "$CLIENT_BUILD"
  made=$(mktemp "$CLIENT_BUILD/$1.XXXXXX")
  GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS= CGO_ENABLED=0 go build -o "$made" "$1.go"
  chmod +x "$made"
  mv "$made" "$CLIENT_BUILD/$1"
fi
"$CLIENT_BUILD/$1"
