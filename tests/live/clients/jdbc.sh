#!/bin/sh
# The JDBC program, compiled once a run of the tests into $CLIENT_BUILD; several may begin at once, so its classes appear all together.
set -e
cd "$(dirname "$0")"
jar=/usr/share/java/postgresql.jar
if [ ! -e "$CLIENT_BUILD/jdbc" ]; then
  mkdir -p "$CLIENT_BUILD"
  made=$(mktemp -d "$CLIENT_BUILD/jdbc.XXXXXX")
  javac -cp "$jar" -d "$made" Jdbc.java
  mv -T "$made" "$CLIENT_BUILD/jdbc" 2>/dev/null || rm -r "$made"
fi
java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jar:$CLIENT_BUILD/jdbc" Jdbc
