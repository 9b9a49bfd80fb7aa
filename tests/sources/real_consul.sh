#!/usr/bin/env bash
# The suite against a real Consul (tests/support/consul_home.sh), whose sessions last ten seconds at least: minutes.   real_consul.sh SUITE [ARGUMENT…]
set -euo pipefail
[ -n "${TERMGATE_TEST_LONG:-}" ] || { echo "skipped: minutes; ./test --long runs it" >&2; exit 77; }
TERMGATE_CONSUL=$("$(dirname "$0")/../support/consul_home.sh") || { echo "skipped: there is no Consul here" >&2; exit 77; }
export TERMGATE_CONSUL TERMGATE_SOURCE=consul
exec "$@"
