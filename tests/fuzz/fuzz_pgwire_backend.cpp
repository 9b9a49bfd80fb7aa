// A server's bytes, framed and decoded: in pieces that the first byte chooses and all at once,
// which must come to the same. A message that decodes must be the same when it is cut anew.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "unit/wire/pgwire/support.hpp"

using namespace termgate::pgwire;

namespace {

std::string remade;

void same(std::string_view body) {
  if (std::string_view(remade).substr(5) != body) std::abort();
  remade.clear();
}

void decode(char type, std::string_view body) {
  switch (type) {
    case backend::error_response:
    case backend::notice_response:
      if (const auto fields = decode_report(body)) {
        // What a relayed report is rewritten from must be read back the same.
        append_error_response(remade, *fields);
        const auto again = decode_report(std::string_view(remade).substr(5));
        if (!again) std::abort();
        for (const char letter : ReportFields::letters) {
          if ((*again)[letter] != (*fields)[letter]) std::abort();
        }
        remade.clear();
        static_cast<void>(fields->ends_connection());
      }
      break;
    case backend::ready_for_query:
      if (const auto status = decode_ready_for_query(body)) {
        append_ready_for_query(remade, *status);
        same(body);
      }
      break;
    case backend::command_complete:
      if (const auto complete = decode_command_complete(body)) {
        append_command_complete(remade, complete->tag);
        same(body);
      }
      break;
    case backend::parameter_status:
      if (const auto status = decode_parameter_status(body)) {
        append_parameter_status(remade, status->name, status->value);
        same(body);
      }
      break;
    case backend::backend_key_data:
      if (const auto key = decode_backend_key_data(body)) {
        append_backend_key_data(remade, key->pid, key->key);
        same(body);
      }
      break;
    case backend::authentication:
      if (const auto authentication = decode_authentication(body)) {
        append_authentication(remade, authentication->type, authentication->payload);
        same(body);
        static_cast<void>(authentication->offers("SCRAM-SHA-256"));
      }
      break;
    case backend::negotiate_protocol_version:
      static_cast<void>(decode_negotiate_protocol_version(body));
      break;
    case backend::notification_response:
      if (const auto notification = decode_notification_response(body)) {
        append_notification_response(remade, notification->pid, notification->channel,
                                     notification->payload);
        same(body);
      }
      break;
    case backend::copy_in_response:
    case backend::copy_out_response:
    case backend::copy_both_response: static_cast<void>(decode_copy_response(body)); break;
    case backend::row_description:
    case backend::parameter_description:
      if (!decode_count(body)) std::abort();
      break;
    default: break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Rules rules = [] {
    Limits limits;
    limits.statement_bytes_max = 4096;
    limits.message_bytes_max = 1 << 20;
    limits.bind_whole_bytes_max = 64;
    limits.report_whole_bytes_max = 256;
    return Rules::backend(limits);
  }();
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Read at_once = read_in_pieces(rules, stream, {});
  std::vector<std::size_t> cuts;
  const std::size_t step = data[0] == 0 ? 1 : data[0];
  for (std::size_t at = step; at < stream.size(); at += step) cuts.push_back(at);
  const Read in_pieces = read_in_pieces(rules, stream, cuts);
  if (in_pieces.messages != at_once.messages || in_pieces.problem != at_once.problem) std::abort();
  if (!stream.starts_with(at_once.frames)) std::abort();
  for (const auto& message : at_once.messages) {
    // In memory of exactly its size, so that a read beyond its end is seen.
    const std::vector<char> body(message.body.begin(), message.body.end());
    decode(message.type, std::string_view(body.data(), body.size()));
  }
  return 0;
}
