// [F1] [F2] [F6] [F7] Deterministic simulation: clients of several terms behind several proxies
// before one server, on virtual time and a network that delivers byte by byte, late, or not before
// a raise. Everything but the sockets is the proxy's own code; the server is the model of
// tests/support/postgres_model.hpp. A seed is a history, the same on every machine.
//
//   sim_sessions [--seeds N] [--from SEED]     N histories (default 1000) from SEED (default 1);
//                                              ends the program at the first breach, whose seed is
//                                              printed with it
//   sim_sessions --seed SEED                   one; TERMGATE_FUZZ_TELL=1 prints what goes where
//
// What a client says, and which bytes travel, comes from session_game.hpp, which also judges what
// the client sees. Here stand who takes part, the clock, raises from outside, and what the proxies
// hear of them: at once, late, or never.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/session_game.hpp"

using namespace termgate::test;
using game::Game;
using game::Input;
using game::Neighbours;

namespace {

std::uint64_t playing = 0;

// Where a breach ends the program.
void told_seed(int) {
  char text[80];
  const int size = std::snprintf(text, sizeof text, "seed %llu: sim_sessions --seed %llu\n",
                                 static_cast<unsigned long long>(playing),
                                 static_cast<unsigned long long>(playing));
  (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(size));
}

struct Totals {
  std::size_t clients = 0, commits = 0, seated = 0, raises = 0, evicted = 0, ended = 0;
};

// What one client does: moves of session_game.hpp (its move()), with the statements that matter
// more often than the others, and time for answers.
std::vector<std::uint8_t> script(std::mt19937_64& random, std::size_t moves) {
  std::vector<std::uint8_t> input;
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint8_t>(random() % n); };
  const auto text = [&](std::string_view sql) {
    for (std::uint8_t i = 0; i < PostgresModel::vocabulary_client; ++i) {
      if (PostgresModel::vocabulary[i].sql == sql) return i;
    }
    broken("no such statement", sql);
  };
  static constexpr std::string_view often[] = {"INSERT INTO t VALUES (1)",
                                               "INSERT INTO t VALUES (1)",
                                               "SELECT a FROM t",
                                               "SELECT a FROM writing_view",
                                               "BEGIN",
                                               "COMMIT",
                                               "COMMIT",
                                               "SAVEPOINT s",
                                               "ROLLBACK TO s",
                                               "CALL p()",
                                               "VACUUM t",
                                               "COPY t FROM STDIN"};
  const auto some_text = [&] {
    return below(4) == 0 ? below(PostgresModel::vocabulary_client)
                         : text(often[below(std::size(often))]);
  };
  for (std::size_t i = 0; i < moves; ++i) {
    switch (below(12)) {
      case 0:
      case 1:
      case 2:
      case 3: input.insert(input.end(), {0, some_text()}); break;
      case 4: input.insert(input.end(), {1, some_text(), some_text()}); break;
      case 5:
      case 6:
      case 7: input.insert(input.end(), {8, 0, some_text(), below(2), 1}); break;
      case 8: input.insert(input.end(), {8, below(3), some_text(), below(2), below(8)}); break;
      case 9: input.insert(input.end(), {10, below(3)}); break;
      case 10: input.insert(input.end(), {6}); break;
      case 11: input.push_back(static_cast<std::uint8_t>(random())); break;
    }
    // The network: all of it, or a piece of one direction.
    if (below(3) != 0) input.push_back(16);
    else
      input.insert(input.end(),
                   {static_cast<std::uint8_t>(13 + below(3)), static_cast<std::uint8_t>(random())});
  }
  return input;
}

void play(std::uint64_t seed, Totals& totals) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  PostgresWorld world;
  std::vector<Neighbours> proxies(1 + below(3));
  struct Client {
    std::size_t proxy;
    std::vector<std::uint8_t> input;
    std::unique_ptr<Game> game;
  };
  std::vector<Client> clients;
  game::pg_session::Instant now{};
  const auto come = [&] {
    Client client;
    client.proxy = below(proxies.size());
    client.input = script(random, 20 + below(100));
    // Mostly declared ones that are fenced: bit 1 undeclared, 2 and 3 the policy, 4 an old server,
    // 5 seats.
    auto rules = static_cast<std::uint8_t>(below(64));
    if (below(3) != 0) rules &= static_cast<std::uint8_t>(~0b1110);
    // Mostly the leader's, some of the one before, some of the next.
    const auto term =
        static_cast<std::int64_t>(world.fence + static_cast<std::int64_t>(below(8) == 0 ? 1 : 0) -
                                  static_cast<std::int64_t>(below(4) == 0 ? 1 : 0));
    if (proxies[client.proxy].offer.secret.empty())
      proxies[client.proxy].offer = game::offer(rules);
    client.game =
        std::make_unique<Game>(rules, Input{client.input.data(), client.input.size()},
                               proxies[client.proxy], world, std::max<std::int64_t>(1, term), now);
    clients.push_back(std::move(client));
    ++totals.clients;
  };
  for (std::uint64_t wanted = 2 + below(5); wanted > 0; --wanted) come();

  const std::size_t steps = 200 + below(600);
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t which = below(clients.size());
    Client& one = clients[which];
    game::told_of = "client " + std::to_string(which) + ": ";
    switch (below(80)) {
      case 0: {  // another leader, who is none of ours
        if (below(2) == 0) break;
        if (std::getenv("TERMGATE_FUZZ_TELL") != nullptr)
          std::fprintf(stderr, "another leader raises\n");
        // Those that hear of it in time give their seats back; the others are evicted.
        for (Client& each : clients) {
          if (below(2) == 0) each.game->want_gate();
        }
        world.raise(world.fence + 1);
        ++totals.raises;
        break;
      }
      case 1: {  // a proxy hears how the fences stand
        proxies[one.proxy].fence = std::max(proxies[one.proxy].fence, world.fence);
        for (Client& each : clients) {
          if (each.proxy == one.proxy) each.game->hear(world.fence);
        }
        break;
      }
      case 2: {
        now += std::chrono::milliseconds(below(3) == 0 ? below(25'000) : below(500));
        for (Client& each : clients) each.game->time_passes(now);
        break;
      }
      case 3:
        if (clients.size() < 8) come();
        break;
      case 4:
        if (below(10) == 0) one.game->drain();
        break;
      default:
        if (!one.game->spent()) one.game->move();
    }
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    game::told_of = "client " + std::to_string(i) + ": ";
    clients[i].game->finish();
  }
  for (const Client& each : clients) totals.ended += each.game->over() ? 1 : 0;
  totals.commits += world.commits;
  totals.seated += world.seated;
  totals.evicted += world.evicted;
}

}  // namespace

int main(int count, char** words) {
  std::uint64_t seeds = 1000, from = 1;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view word = words[i];
    const auto value = std::strtoull(words[i + 1], nullptr, 10);
    if (word == "--seeds") seeds = value;
    else if (word == "--from") from = value;
    else if (word == "--seed") from = value, seeds = 1;
    else return 2;
  }
  if (const char* long_run = std::getenv("TERMGATE_TEST_LONG"); long_run != nullptr && count == 1)
    seeds = 100'000;
  std::signal(SIGABRT, told_seed);
  Totals totals;
  for (std::uint64_t seed = from; seed < from + seeds; ++seed) {
    playing = seed;
    play(seed, totals);
  }
  std::printf(
      "%llu histories: %zu clients, %zu fenced commits, %zu of them under a seat, %zu raises from "
      "outside, %zu sessions evicted, "
      "%zu ended; no breach\n",
      static_cast<unsigned long long>(seeds), totals.clients, totals.commits, totals.seated,
      totals.raises, totals.evicted, totals.ended);
  // A simulation in which nothing happens proves nothing.
  return totals.commits > seeds && totals.seated > seeds / 4 && totals.evicted > 0 ? 0 : 1;
}
