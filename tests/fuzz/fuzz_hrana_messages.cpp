// JSON of any client: the first byte chooses the message. What is read as a value is written and
// read again as the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "hrana/failure.hpp"
#include "hrana/messages.hpp"
#include "hrana/values.hpp"
#include "unit/sqlite_server/hrana/fake_file.hpp"

using namespace termgate::hrana;

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

void same_again(const std::vector<Value>& values) {
  for (const Value& value : values) {
    std::string json = R"({"stmt":{"sql":"","args":[)";
    append_value(json, fake::view_of(value));
    Charge charge;
    must(read_v1_execute(json + "]}}", charge).stmt.args.at(0) == value);
  }
}

void read(std::uint8_t choice, std::string_view json, Charge& charge) {
  switch (choice % 6) {
    case 0:
      for (const Request& request : read_pipeline(json, charge).requests) {
        if (const auto* execute = std::get_if<Execute>(&request)) same_again(execute->stmt.args);
      }
      return;
    case 1: static_cast<void>(read_cursor(json, charge)); return;
    case 2: static_cast<void>(read_socket_message(json, charge)); return;
    case 3: same_again(read_v1_execute(json, charge).stmt.args); return;
    case 4: static_cast<void>(read_v1_batch(json, charge)); return;
    default:
      for (const Stmt& stmt : read_v0(json, charge)) same_again(stmt.args);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Budget budget(std::size_t{1} << 26);
  try {
    Charge charge(budget);
    read(data[0], text, charge);
  } catch (const Failure& failure) {
    const auto body = boost::json::parse(failure_body(failure.code, failure.what()));
    must(body.at("message") == body.at("error") && failure.status >= 400);
  }
  must(budget.used() == 0);
  std::string out;
  append_string(out, text);
  must(boost::json::parse(out).is_string());
  const auto bytes = base64url_bytes(base64url(text));
  must(bytes && *bytes == text);
  if (const auto decoded = base64_bytes(text)) {
    std::string again;
    append_base64(again, *decoded);
    must(text.starts_with(again));
  }
  return 0;
}
