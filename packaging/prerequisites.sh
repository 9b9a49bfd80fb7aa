# Sourced by ./run, ./test and .ci/run: installs the Debian packages that are missing, and says so before it does.
#
# install_missing build    what the command needs to be built
# install_missing package  that, and what Debian packages are built with
# install_missing test     what the command needs, and the tests
# install_missing clang    that, and what the fuzz targets and the linter need
# install_missing checks   what reads the tree and builds nothing
# install_missing root     what makes a root of another release

build_packages=(g++ cmake ninja-build pkg-config libpqxx-dev libsqlite3-dev unixodbc-dev libfmt-dev
  libboost1.81-dev libboost-program-options1.81-dev libboost-json1.81-dev libpg-query-dev libssl-dev libhiredis-dev libzookeeper-mt-dev)
package_packages=(git make postgresql-15 postgresql-server-dev-15 python3 dpkg-dev file patchelf ca-certificates)
test_packages=(git make curl catch2 sqlite3 postgresql-15 postgresql-client-15 postgresql-server-dev-15 python3 python3-psycopg2 npm util-linux procps openssl
  python3-psycopg python3-django python3-sqlalchemy pgbouncer libpostgresql-jdbc-java openjdk-17-jdk-headless odbc-postgresql libsqliteodbc tdsodbc freetds-bin libjtds-java python3-pymssql python3-pyodbc golang-go golang-github-lib-pq-dev golang-github-jackc-pgx-v4-dev spin
  python3-pytest python3-pytest-subtests python3-yaml junit5 libfaketime clang-format black
  lintian mmdebstrap zsh fish libhibernate3-java libjavassist-java mono-mcs mono-runtime libmono-system-data4.0-cil
  redis-server redis-tools etcd-server etcd-client zookeeper patroni
  chromium prometheus ruby ruby-sqlite3 php-cli php-sqlite3 mkdocs mkdocs-material patchelf)
clang_packages=(clang clang-tidy libclang-rt-dev)
checks_packages=(git python3 python3-yaml clang-format black mkdocs mkdocs-material)
root_packages=(git mmdebstrap util-linux)

install_missing() {
  local wanted=() missing=() package root=()
  case "$1" in
    build) wanted=("${build_packages[@]}") ;;
    package) wanted=("${build_packages[@]}" "${package_packages[@]}") ;;
    test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
    clang) wanted=("${build_packages[@]}" "${test_packages[@]}" "${clang_packages[@]}") ;;
    checks) wanted=("${checks_packages[@]}") ;;
    root) wanted=("${root_packages[@]}") ;;
    *) echo "prerequisites.sh: there is no set \"$1\"" >&2; return 2 ;;
  esac
  for package in "${wanted[@]}"; do
    # npm may have come with a Node.js that is no Debian package.
    if [ "$package" = npm ] && command -v npm >/dev/null 2>&1; then continue; fi
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ "${#missing[@]}" -eq 0 ] && return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
      echo "These Debian packages are missing, and neither root nor sudo is at hand: ${missing[*]}" >&2
      echo "As root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    root=(sudo)
  fi
  echo "Installing Debian packages, 1 to 4 minutes: ${missing[*]}"
  "${root[@]}" apt-get update -qq
  # Installing postgresql-15 would otherwise start a server of its own on port 5432.
  if printf '%s\n' "${missing[@]}" | grep -q '^postgresql-15$' && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    "${root[@]}" mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | "${root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  # Neither may installing pgbouncer, redis-server, etcd-server, patroni or prometheus start one on its usual port: Debian asks this program whether services
  # may start.
  local no_services=/usr/sbin/policy-rc.d
  if printf '%s\n' "${missing[@]}" | grep -qE '^(pgbouncer|redis-server|etcd-server|patroni|prometheus)$' && [ ! -e "$no_services" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$no_services" >/dev/null
    "${root[@]}" chmod 755 "$no_services"
  else
    no_services=
  fi
  local status=0
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || status=$?
  [ -z "$no_services" ] || "${root[@]}" rm -f "$no_services"
  return "$status"
}
