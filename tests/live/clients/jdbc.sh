#!/bin/sh
# The JDBC program, compiled once a run of the tests into $CLIENT_BUILD.
set -e
cd "$(dirname "$0")"
jar=/usr/share/java/postgresql.jar
[ -e "$CLIENT_BUILD/Jdbc.class" ] || javac -cp "$jar" -d "$CLIENT_BUILD" Jdbc.java
java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$jar:$CLIENT_BUILD" Jdbc
