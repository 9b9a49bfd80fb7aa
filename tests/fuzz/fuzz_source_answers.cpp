// What a lock service answers: Redis's protocol in any pieces, and JSON. Never a crash, never an
// answer longer than its bound.
//   input: one byte (even: Redis, odd: JSON), then the answer; of Redis in pieces, each a byte with its length
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <termgate/sources/http.hpp>

#include "reply.hpp"

using namespace termgate::sources;

namespace {

std::size_t length_of(const RedisReply& reply) {
  std::size_t length = reply.text.size();
  for (const RedisReply& one : reply.elements) length += length_of(one);
  return length;
}

void walk(const boost::json::value& value) {
  for (const char* key : {"ID", "TTL", "kvs", "header", "revision", "metadata"}) {
    (void)integer_at(value, key);
    (void)path_segment(text_at(value, key));
    (void)shown(text_at(value, key));
    const boost::json::value& inner = value_at(value, key);
    if (inner.is_array() && !inner.get_array().empty())
      (void)integer_at(inner.get_array()[0], "create_revision");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    if (const auto value = json_of(text)) walk(*value);
    return 0;
  }
  RedisReader reader;
  while (!text.empty()) {
    const std::size_t length =
        std::min<std::size_t>(static_cast<unsigned char>(text[0]), text.size() - 1);
    if (!reader.feed(text.substr(1, length))) return 0;
    text.remove_prefix(length + 1);
    for (;;) {
      const auto [state, reply] = reader.next();
      if (state == RedisReader::State::malformed) return 0;
      if (state == RedisReader::State::more) break;
      if (length_of(reply) > RedisReader::answer_bytes_max) std::abort();
    }
  }
  return 0;
}
