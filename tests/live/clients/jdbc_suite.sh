#!/bin/bash
# pgjdbc's own tests against a server on loopback: a line for each class with its counts, then their sums. A class that takes longer than
# 60 seconds ends with 124: it hangs.
#
#   jdbc_suite.sh PORT FOLDER OUT [CLASS …]     FOLDER: a checkout of pgjdbc, at the tag of Debian's libpostgresql-jdbc-java
#                                               OUT: a new folder, for the classes and what each prints
#
# Needs default-jdk-headless, junit5 and libpostgresql-jdbc-java. The user and the database are "test"; on PostgreSQL the user is a
# superuser. Left out are the suites that only list other classes, and what needs libraries that Debian does not have.
set -eu
port=$1 folder=$(realpath "$2") out=$3
shift 3
mkdir "$out"
out=$(realpath "$out")
jars=/usr/share/java
libraries=
for jar in postgresql junit4 hamcrest junit-jupiter-{api,params,engine} junit-vintage-engine \
  junit-platform-{commons,engine,launcher,reporting,console} opentest4j opentest4j-reporting-{events,schema} apiguardian-api picocli; do
  libraries+=:$jars/$jar.jar
done

cp -r "$folder/pgjdbc/src/test/java" "$out/java"
cp "$folder/build.properties" "$out"
cd "$out"
grep -rlE "webcompere|jiderhamn|org\.osgi" java --include='*.java' | xargs -r rm
find java -name '*TestSuite.java' -delete
# Annotations of a checker of source texts, which do nothing here.
for name in $(grep -rhoE "org\.checkerframework[a-zA-Z.]+" java --include='*.java' | sort -u); do
  package=${name%.*}
  mkdir -p "java/${package//.//}"
  printf 'package %s;\nimport java.lang.annotation.*;\n@Target({ElementType.TYPE_USE}) public @interface %s {}\n' \
    "$package" "${name##*.}" >"java/${package//.//}/${name##*.}.java"
done
mkdir classes logs
find java -name '*.java' -print0 | xargs -0 javac -nowarn -d classes -cp "$libraries" 2>compiler.log

if [ $# -eq 0 ]; then
  # shellcheck disable=SC2046
  set -- $(grep -rlE "@Test|@ParameterizedTest" java --include='*.java' | sed 's|^java/||; s|\.java$||; s|/|.|g' | sort)
fi
for class; do
  code=0
  timeout 60 java -Xmx512m -Dserver=127.0.0.1 -Dport="$port" -Ddatabase=test -Dusername=test -Dpassword=test -DprivilegedUser=test \
    -DprivilegedPassword=test -cp "classes:$folder/pgjdbc/src/test/resources$libraries" \
    org.junit.platform.console.ConsoleLauncher --disable-banner --disable-ansi-colors -c "$class" >"logs/$class" 2>&1 || code=$?
  echo "$class $code $(grep -oE '[0-9]+ tests (found|successful|failed|skipped|aborted)' "logs/$class" | tr '\n' ' ')" | tee -a summary
done
awk '{ for (i = 1; i <= NF; i++) if ($i == "tests") sums[$(i + 1)] += $(i - 1); hung += $2 == 124 }
  END { for (what in sums) print what, sums[what]; print "hung", hung + 0 }' summary
