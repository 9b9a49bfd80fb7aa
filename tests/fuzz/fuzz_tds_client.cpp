// A client's bytes: packets in pieces that the first byte chooses and all at once, which must come to the same; then each message as what
// it is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/tds/login.hpp>
#include <termgate/tds/request.hpp>
#include <termgate/tds/text.hpp>

#include "unit/wire/tds/support.hpp"

using namespace termgate::tds;

namespace {

void login(std::string_view payload) {
  const auto read = decode_login7(payload);
  if (!read) return;
  static_cast<void>(utf8_of(read->application));
  const auto without = without_features(payload, *read, std::string_view("\1\2", 2));
  if (!without) return;
  const auto again = decode_login7(*without);
  if (!again || again->user != read->user || again->features.size() > read->features.size()) std::abort();
}

void prelogin(std::string_view payload) {
  const auto read = decode_prelogin(payload);
  if (!read) return;
  std::string made;
  append_prelogin(made, *read);
  const auto again = decode_prelogin(made);
  if (!again || again->version != read->version || again->mars != read->mars || again->encryption != read->encryption) std::abort();
}

void request(std::uint8_t type, std::string_view payload, std::uint32_t tds_version) {
  const auto headers = decode_headers(payload, tds_version);
  if (!headers) return;
  if (headers->bytes > payload.size()) std::abort();
  payload.remove_prefix(headers->bytes);
  if (type == packet::sql_batch && is_utf16(payload) && utf16_of(utf8_of(payload)) != payload) std::abort();
  if (type == packet::transaction) static_cast<void>(decode_transaction_request(payload));
  if (type == packet::rpc) {
    for (const Call& call : decode_rpc(payload, tds_version).all) {
      for (const Parameter& one : call.parameters) {
        if (one.value.data.size() > one.value.bytes) std::abort();
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read whole = read_whole(Direction::from_client, stream);
  std::vector<std::size_t> cuts;
  const std::size_t piece = 1 + data[0] % 31u;
  for (std::size_t cut = piece; cut < stream.size(); cut += piece) cuts.push_back(cut);
  if (read_in_pieces(Direction::from_client, stream, cuts) != whole) std::abort();
  for (const auto& message : whole.messages) {
    if (message.type == packet::login7) login(message.payload);
    if (message.type == packet::prelogin) prelogin(message.payload);
    for (const std::uint32_t tds_version : {version::v7_1, version::v7_4}) request(message.type, message.payload, tds_version);
  }
  return 0;
}
