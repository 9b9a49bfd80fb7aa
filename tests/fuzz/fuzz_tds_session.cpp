// A client, the proxy's session for TDS and a model of SQL Server with layer 1: the input chooses
// what the client sends, in which pieces, when the server answers, when time passes and when
// another leader raises the fence. The program ends at a write outside the gate, at a server that
// meets what it cannot read, and at a session that holds more memory than it may.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "support/tds_game.hpp"

using namespace termgate;
using namespace termgate::test;
using namespace std::string_literals;

namespace {

constexpr const char* texts[] = {"write",
                                 "begin write",
                                 "write commit",
                                 "begin quietly write",
                                 "commit quietly",
                                 "rollback write",
                                 "SET NOCOUNT ON",
                                 "SELECT @@SPID",
                                 "noexec",
                                 "exec write",
                                 "fail write",
                                 "rows",
                                 "SELECT a FROM t",
                                 "SELECT a FROM t UPDATE write",
                                 "insert bulk t",
                                 "COMMIT TRAN",
                                 "BEGIN TRAN",
                                 "EXEC termgate.set_term N's', 5",
                                 "EXEC termgate.set_term N's', 6",
                                 "EXEC termgate.set_term N's', 7",
                                 "EXEC sp_set_session_context N'termgate.term', N'5'",
                                 "EXEC dbo.declare",
                                 "EXEC sp_reset_connection",
                                 "EXEC (N'EXEC sp_reset_connection') write"};

struct Input {
  const std::uint8_t* data;
  std::size_t size;
  std::uint8_t byte() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
};

void client(TdsGame& game, Input& input, std::uint8_t what) {
  static constexpr std::uint8_t resets[] = {0, 0, 0, tds::status::reset,
                                            tds::status::reset_keep_transaction};
  const std::uint8_t reset = resets[input.byte() % 5];
  switch (what % 11) {
    case 0:
    case 1:
    case 2: return game.batch(texts[input.byte() % std::size(texts)], reset);
    case 3: return game.batch("write " + std::string(std::size_t{input.byte()} * 8, 'x'), reset);
    case 4: return game.rpc("\xFF\xFF"s + static_cast<char>(input.byte() % 16) + "\0\0\0"s, reset);
    case 5:
      return game.manage(std::string(1, static_cast<char>(input.byte() % 10)) + "\0\0\1\0\0"s,
                         reset);
    case 6: return game.attention();
    case 7: return game.send(tds::packet::bulk, "rows");
    case 10: {
      // sp_executesql with its text in chunks, perhaps longer than what is looked at at once.
      const std::string text = std::string((input.byte() & 1) != 0 ? 600 : 0, ' ') +
                               texts[input.byte() % std::size(texts)];
      const std::string data = tds::utf16_of(text);
      std::string body(
          "\xFF\xFF\x0A\0\0\0\0\0\xE7\xFF\xFF\x09\x04\xD0\0\x34\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
          24);
      const std::size_t chunk = 1 + input.byte();
      for (std::size_t at = 0; at < data.size(); at += chunk) {
        const std::string some = data.substr(at, chunk);
        body += static_cast<char>(some.size() & 0xFF);
        body += static_cast<char>(some.size() >> 8);
        body += std::string(2, '\0') + some;
      }
      return game.rpc(body + std::string(4, '\0'), reset);
    }
    case 8: {
      std::string bytes;
      for (std::size_t count = input.byte() % 32; count > 0; --count)
        bytes += static_cast<char>(input.byte());
      return game.give(bytes);
    }
    default: {
      std::string bytes;
      tds::append_message(bytes, tds::packet::sql_batch,
                          game.request(tds::utf16_of("write"), game.descriptor), 512);
      bytes[1] = static_cast<char>(tds::status::end_of_message | tds::status::ignore);
      return game.give(bytes);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input{data, size};
  tds_session::Options options;
  options.held_bytes_max = 512;
  options.waiting_bytes_max = 2048;
  options.outbox_bytes_max = 8192;
  const std::uint8_t kind = input.byte();
  TdsGame game(input.byte() % 40u, options);
  if ((kind & 0x80) == 0) game.model.declared = {"s", 5};
  game.model.declares = {"s", 4 + kind % 3};
  game.model.tds_version = (kind & 1) != 0 ? tds::version::v7_1 : tds::version::v7_4;
  if ((kind & 2) != 0) {
    game.admission.without_term = conversation::WithoutTerm::allow;
    game.model.silence_allowed = true;
  }
  if ((kind & 0x40) != 0) game.admission.without_term = conversation::WithoutTerm::read_only;
  game.model.has_layer1 = (kind & 0x1C) != 0x1C;
  if ((kind & 0x20) != 0) game.login("plain");
  else game.login_with_term(5);
  while (input.size > 0 && game.client_open) {
    const std::uint8_t what = input.byte();
    switch (what % 16) {
      case 10: game.pass(std::chrono::milliseconds(input.byte())); break;
      case 11:
        game.stalled = !game.stalled;
        game.pump();
        break;
      case 12:
        // Not past a held gate, but by ending its session.
        if (game.server_open && !game.model.raise(game.model.fence + 1)) {
          game.server_open = false;
          game.model.out.clear();
          game.session->resume(conversation::ServerLost{""}, game.now);
          game.pump();
        }
        break;
      case 13:
        game.session->resume(conversation::FenceSeen{"s", game.host.fence = game.model.fence},
                             game.now);
        game.pump();
        break;
      case 14:
        game.session->resume(conversation::Drain{}, game.now);
        game.pump();
        break;
      case 15:
        // A raise that waits for the gate: nobody stands in its way beyond the grace, whatever the
        // client has begun.
        if ((input.byte() & 1) != 0) {
          game.raise_fails = !game.raise_fails;
        } else if ((input.byte() & 1) != 0) {
          game.want();
        } else {
          game.stalled = false;
          game.pump();
          game.want(std::chrono::milliseconds(1600));
          if (game.server_open && game.model.gate) std::abort();
        }
        break;
      default: client(game, input, what);
    }
    if (game.model.unfenced != 0) std::abort();
    if (!game.model.malformed.empty()) {
      std::fprintf(stderr, "the server: %s\n", game.model.malformed.c_str());
      std::abort();
    }
    if (game.session->memory_bytes() > 200'000) std::abort();
  }
  return 0;
}
