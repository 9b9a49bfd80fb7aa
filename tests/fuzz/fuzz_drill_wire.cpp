// A conversation with PostgreSQL as a drill reads it along, in any pieces: the same facts as byte
// by byte, and never more of a message kept than the limit says.
//   input: pieces, each a byte (bit 7: from the server; the rest: its length) and that many bytes
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "drill/wire.hpp"

using namespace termgate::cli::drill;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Conversation whole, pieces;
  int second = 0;
  while (size > 0) {
    const bool server = (data[0] & 0x80) != 0;
    const std::size_t length = std::min<std::size_t>(data[0] & 0x7f, size - 1);
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, length);
    const Moment now{std::chrono::seconds(++second)};
    // Nothing is never read from a socket.
    if (bytes.empty()) {
    } else if (server) whole.from_server(bytes);
    else whole.from_client(bytes, now);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (server) pieces.from_server(bytes.substr(i, 1));
      else pieces.from_client(bytes.substr(i, 1), now);
    }
    data += length + 1;
    size -= length + 1;
  }
  if (whole.refusals.size() != pieces.refusals.size() ||
      whole.writes.size() != pieces.writes.size() || whole.endings != pieces.endings)
    std::abort();
  for (std::size_t i = 0; i < whole.writes.size(); ++i) {
    if (whole.writes[i].tag != pieces.writes[i].tag ||
        whole.writes[i].statement != pieces.writes[i].statement ||
        whole.writes[i].requested != pieces.writes[i].requested)
      std::abort();
    if (whole.writes[i].statement.size() > Messages::message_bytes_kept ||
        whole.writes[i].tag.size() > Messages::message_bytes_kept)
      std::abort();
  }
  for (std::size_t i = 0; i < whole.refusals.size(); ++i) {
    if (whole.refusals[i].message != pieces.refusals[i].message ||
        whole.refusals[i].requested != pieces.refusals[i].requested)
      std::abort();
  }
  return 0;
}
