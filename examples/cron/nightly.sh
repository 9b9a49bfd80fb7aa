#!/bin/sh
# The job: writes yesterday's total under the term of its run. `termgate run` has set TERMGATE_SCOPE and TERMGATE_TERM (README.md).
set -eu
day=${1:-$(date +%F)}
# Simulated: a long computation, during which another host could take over.
sleep "${NIGHTLY_TAKES:-0}"
exec termgate exec --scope "$TERMGATE_SCOPE" --term "$TERMGATE_TERM" \
  "INSERT INTO totals (day, total, host) SELECT '$day', COALESCE(SUM(amount), 0), '${NIGHTLY_HOST:-$(hostname)}' FROM sales"
