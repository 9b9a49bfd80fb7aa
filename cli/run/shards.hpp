// `termgate run --shards N`: runs COMMAND once for each of N shards, spread over the hosts that run
// the same command line.
//
// Each shard is a child process with a `termgate run` of its own: a lease, a watchdog and a run in
// the job history. So no guarantee depends on this process, which only decides which shards this
// host takes.
//
//   S/shard/0 … S/shard/N-1            the shards' leases
//   S/shard/runner/0 … runner/N-1      one for each host that takes part. Who holds none waits: there are more hosts than shards
//
// With M hosts, each takes N / M shards, and the first N % M hosts one more. With --keep, a host
// that has too many gives one up.
#pragma once

#include <string>

#include <termgate/scope.hpp>

#include "run/plan.hpp"

namespace termgate::cli::run {

Scope shard_scope(const Scope& scope, int shard);

// How many shards a host takes; `rank` counts the hosts from 0.
constexpr int share_of(int shards, int hosts, int rank) {
  return hosts <= 0 || rank >= hosts ? 0 : shards / hosts + (rank < shards % hosts ? 1 : 0);
}

// Returns when all shards are completed or have failed here; with --keep only a signal ends it.
// Returns 128 + N after signal N, else the status of the first shard that failed here, or 0.
// `arguments` are passed on to the children.
int run_shards(const Arguments& arguments, const Plan& plan);

}  // namespace termgate::cli::run
