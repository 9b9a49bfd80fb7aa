// A server's answers: packets, and the tokens in them, in pieces that the first byte chooses and
// all at once, which must come to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "unit/wire/tds/support.hpp"

using namespace termgate::tds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read read = read_whole(Direction::from_server, stream);
  for (const auto& message : read.messages) {
    for (const std::uint32_t tds_version : {version::v7_1, version::v7_4}) {
      const std::string whole = tokens_of(message.payload, tds_version, 0);
      if (tokens_of(message.payload, tds_version, 1 + data[0] % 31u) != whole) std::abort();
      TokenReader reader(tds_version);
      std::string_view left = message.payload;
      for (;;) {
        const TokenEvent event = reader.next(left);
        left.remove_prefix(event.used);
        if (event.kind == TokenEvent::Kind::need_more) break;
        if (event.token == token::environment_change)
          static_cast<void>(decode_environment_change(event.body));
        if (event.token == token::login_ack) static_cast<void>(decode_login_ack(event.body));
        if (event.token == token::error)
          static_cast<void>(decode_report(event.token, event.body, tds_version));
        if (event.token == token::return_value) static_cast<void>(event.value.integer());
      }
    }
  }
  return 0;
}
