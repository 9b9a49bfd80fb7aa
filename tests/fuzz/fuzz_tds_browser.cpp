// A datagram for SQL Server's Browser: whatever it is, the answer is none, or of the length that it
// says and the protocol allows.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/tds/browser.hpp>

using namespace termgate::tds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view request(reinterpret_cast<const char*>(data), size);
  const std::array<BrowsedInstance, 2> instances{BrowsedInstance{"BILLING", 14331},
                                                 BrowsedInstance{"reports", 14332}};
  const std::string answer = browser_answer(request, "proxy", instances);
  if (answer.empty()) return 0;
  if (answer.size() < 3 || answer.size() > browser_answer_bytes_max || answer[0] != '\x05')
    std::abort();
  const std::size_t length = static_cast<unsigned char>(answer[1]) |
                             static_cast<std::size_t>(static_cast<unsigned char>(answer[2])) << 8;
  if (answer.size() != 3 + length || !answer.ends_with(";;")) std::abort();
  if (data[0] != 2 && data[0] != 3 && data[0] != 4) std::abort();
  return 0;
}
