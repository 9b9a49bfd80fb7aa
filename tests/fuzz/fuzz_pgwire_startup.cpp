// A client's first packets, in pieces that the first byte chooses and all at once, which must come
// to the same; a start-up message that is read can be built again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/pgwire/startup.hpp>

using namespace termgate::pgwire;

namespace {

// All packets up to the one that has no next, as text.
std::string read(std::string_view stream, std::size_t step) {
  StartupReader reader(true);
  std::string seen;
  for (std::size_t at = 0; at < stream.size();) {
    const std::vector<char> piece(
        stream.begin() + static_cast<std::ptrdiff_t>(at),
        stream.begin() + static_cast<std::ptrdiff_t>(std::min(stream.size(), at + step)));
    const StartupEvent event = reader.next({piece.data(), piece.size()});
    if (event.used > piece.size() || reader.buffered() > startup_packet_bytes_max) std::abort();
    at += event.used;
    switch (event.kind) {
      case StartupEvent::Kind::need_more:
        if (event.used != piece.size()) std::abort();
        break;
      case StartupEvent::Kind::ssl_request: seen += "ssl;"; break;
      case StartupEvent::Kind::gssenc_request: seen += "gss;"; break;
      case StartupEvent::Kind::direct_tls: return seen + "tls";
      case StartupEvent::Kind::cancel_request:
        return seen + "cancel " + std::to_string(event.pid) + std::string(event.key);
      case StartupEvent::Kind::malformed:
        return seen + (event.problem.reason().empty() ? std::abort(), "" : "malformed");
      case StartupEvent::Kind::startup: {
        std::vector<StartupMessage::Parameter> all = event.startup.parameters;
        all.insert(all.end(), event.startup.extensions.begin(), event.startup.extensions.end());
        std::string built;
        append_startup(built, event.startup.minor, all);
        StartupReader second(false);
        const StartupEvent again = second.next(built);
        if (again.kind != StartupEvent::Kind::startup ||
            again.startup.parameters != event.startup.parameters ||
            again.startup.extensions != event.startup.extensions)
          std::abort();
        if (again.startup.find("user") != event.startup.find("user")) std::abort();
        return seen + built;
      }
    }
  }
  return seen + "more";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string at_once = read(stream, stream.size());
  const std::string in_pieces = read(stream, data[0] == 0 ? 1 : data[0]);
  if (at_once != in_pieces) std::abort();
  return 0;
}
