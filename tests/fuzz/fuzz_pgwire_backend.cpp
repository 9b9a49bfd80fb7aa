// A server's bytes, framed and decoded.
#include "pgwire_fuzz.hpp"

using namespace termgate::pgwire;

namespace {

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
    default: break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Rules rules = Rules::backend(fuzz_limits());
  whole_and_in_pieces(rules, data, size, decode);
  return 0;
}
