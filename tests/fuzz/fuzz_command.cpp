// What the command reads and prints of other people's text: durations, and payloads and names on a
// terminal or as JSON.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "command.hpp"
#include "output.hpp"

using namespace termgate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (cli::parse_duration(text).count() < 0) std::abort();
  } catch (const cli::UsageError&) {}
  // No byte of a payload may steer a terminal or begin a new line.
  const std::string shown = cli::printable(text);
  for (std::size_t at = 0; at < shown.size(); ++at) {
    const auto byte = static_cast<unsigned char>(shown[at]);
    if (byte < 0x20 || byte == 0x7f) std::abort();
    if (byte == 0xc2 && at + 1 < shown.size() && static_cast<unsigned char>(shown[at + 1]) < 0xa0)
      std::abort();
  }
  // Whatever the payload, the document can be read again, and holds it unchanged where it is text.
  boost::json::object object;
  cli::put_payload(object, text);
  const auto document = boost::json::parse(boost::json::serialize(object));
  if (document.as_object().size() != 1) std::abort();
  if (const auto* payload = document.as_object().if_contains("payload")) {
    const auto& held = payload->as_string();
    if (std::string_view(held.data(), held.size()) != text) std::abort();
  }
  return 0;
}
