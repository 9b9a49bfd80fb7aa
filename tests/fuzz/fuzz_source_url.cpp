// The URL of a term source: any text is read or refused; what is read is within its bounds, and no
// refusal quotes a password.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <termgate/error.hpp>
#include <termgate/sources/url.hpp>

using namespace termgate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const sources::SourceUrl url = sources::SourceUrl::parse(text);
    if (url.scheme.empty() || url.hosts.size() > sources::SourceUrl::hosts_max ||
        url.path.find('\0') != std::string::npos)
      std::abort();
    for (const auto& host : url.hosts) {
      if (host.host.empty()) std::abort();
    }
    (void)url.name(1);
    (void)url.timeout();
  } catch (const InvalidInput& error) {
    if (error.code() != "TG005") std::abort();
  }
  return 0;
}
