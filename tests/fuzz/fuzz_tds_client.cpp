// A client's bytes: packets in pieces that the first byte chooses and all at once, which must come
// to the same; then each message as what it is.
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

struct Counter final : CallSink {
  std::size_t calls = 0;
  void call(std::uint16_t, std::string_view, std::uint16_t) override { ++calls; }
  void parameter(std::string_view, std::uint8_t, const TypeInfo&, bool) override {}
  void data(std::string_view) override {}
  void parameter_ends() override {}
};

void login(std::string_view payload) {
  const auto read = decode_login7(payload);
  if (!read) return;
  static_cast<void>(utf8_of(read->application));
  const auto made = changed_login7(payload, *read, {std::string_view("\1\2", 2), "server"});
  if (!made) return;
  const auto again = decode_login7(*made);
  if (!again || again->user != read->user || again->database != read->database ||
      again->password != read->password || again->sspi != read->sspi ||
      again->features.size() > read->features.size() || utf8_of(again->server) != "server")
    std::abort();
}

void prelogin(std::string_view payload) {
  const auto read = decode_prelogin(payload);
  if (!read) return;
  std::string made;
  append_prelogin(made, *read);
  const auto again = decode_prelogin(made);
  if (!again || again->version != read->version || again->mars != read->mars ||
      again->encryption != read->encryption)
    std::abort();
}

void request(std::uint8_t type, std::string_view payload, std::uint32_t tds_version) {
  const auto headers = decode_headers(payload, tds_version);
  if (!headers) return;
  if (headers->bytes > payload.size()) std::abort();
  payload.remove_prefix(headers->bytes);
  if (type == packet::sql_batch && is_utf16(payload) && utf16_of(utf8_of(payload)) != payload)
    std::abort();
  if (type == packet::transaction) static_cast<void>(decode_transaction_request(payload));
  if (type == packet::rpc) {
    const Calls calls = decode_rpc(payload, tds_version);
    std::size_t kept = 0;
    for (const Call& call : calls.all) {
      for (const Parameter& one : call.parameters) kept += one.data.size() + one.name.size();
    }
    if (kept > payload.size()) std::abort();
    // In pieces it comes to the same.
    Counter counter;
    CallReader reader(tds_version);
    bool good = true;
    for (std::size_t at = 0; at < payload.size() && good; at += 3)
      good = reader.take(payload.substr(at, 3), counter);
    if (calls.whole && !(good && reader.may_end() && counter.calls == calls.all.size()))
      std::abort();
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
    for (const std::uint32_t tds_version : {version::v7_1, version::v7_4})
      request(message.type, message.payload, tds_version);
  }
  return 0;
}
