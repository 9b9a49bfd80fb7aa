// A session between a client and a server, both driven by the input. The first byte chooses the
// rules it was let in by, and one of two games:
//   noise   bytes of the input go to the session as the client's and as the server's. It must not crash, hold more than was given to it, or
//   say
//           anything but goodbye to the server once a peer has broken the protocol.
//   model   the input says what a client says next, how far what was said travels, and when a new leader takes over; the server is a model
//   of
//           PostgreSQL (tests/support/postgres_model.hpp) that ends the program at a write without a check before it in its transaction
//           (F1, F6). Besides, every ReadyForQuery that the client sees is one it earned, none is missing in the end, its state is the
//           server's, and nothing of ours is shown (F7).
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/pgwire/startup.hpp>
#include <termgate/pg_session/session.hpp>

#include "support/session_game.hpp"

using namespace termgate::test::game;
using termgate::test::broken;

namespace {

constexpr pg_session::Instant now{};

void noise(std::uint8_t rules, Input input) {
  Neighbours neighbours;
  pg_session::Session one(
      options(), {.local = true, .encrypted_already = false, .cancel_key = std::string(32, 'k')},
      neighbours, now);
  if ((rules & 32) != 0)
    log_in(one, rules, 5, now, [](std::string_view question) {
      namespace wire = termgate::test::wire;
      const bool put_back =
          question.find("SET default_transaction_read_only TO on") != std::string_view::npos;
      return put_back ? wire::who_serves_done() : wire::who_answered();
    });
  const std::size_t given = input.size;
  std::string goodbye;
  pgwire::append_bare(goodbye, pgwire::frontend::terminate);
  while (!input.empty()) {
    const std::uint8_t what = input.byte();
    const bool over = neighbours.malformed || one.phase() == pg_session::Session::Phase::closing;
    const std::string piece(input.bytes(what & 0x3f));
    if (what & 0x80) {
      if (one.wants_server()) one.resume(pg_session::ServerBytes{piece}, now);
    } else if (one.wants_client()) {
      one.resume(pg_session::ClientBytes{piece}, now);
    }
    for (const pg_session::Action& action : one.take_actions()) {
      using Kind = pg_session::Action::Kind;
      if (action.kind == Kind::admit) one.resume(pg_session::Admitted{admission(rules)}, now);
      if (action.kind == Kind::connect_server) one.resume(pg_session::ServerConnected{}, now);
      if (action.kind == Kind::start_client_tls) one.resume(pg_session::ClientTls{}, now);
    }
    if (over && !one.to_server().empty())
      broken("a word to the server behind the end", one.to_server());
    if (neighbours.malformed && one.phase() != pg_session::Session::Phase::closing)
      broken("malformed, and it goes on");
    // Everything of one event that ends the session, less what was said before it: a goodbye stands
    // last.
    if (neighbours.malformed && !one.to_server().empty() && !one.to_server().ends_with(goodbye))
      broken("no goodbye at the end", one.to_server());
    one.sent_to_client(one.to_client().size());
    one.sent_to_server(one.to_server().size());
    if (one.memory_bytes() > (64u << 10) + 4 * given)
      broken("memory", std::to_string(one.memory_bytes()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return 0;
  const std::uint8_t rules = data[0];
  if ((rules & 128) != 0) {
    noise(rules, {data + 1, size - 1});
  } else {
    Neighbours neighbours;
    if ((rules & 64) != 0) neighbours.fence = 5;
    neighbours.offer = termgate::test::game::offer(rules);
    termgate::test::PostgresWorld world;
    Game(rules, {data + 1, size - 1}, neighbours, world).play();
  }
  return 0;
}
