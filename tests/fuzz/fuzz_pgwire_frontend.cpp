// A client's bytes, framed and decoded: in pieces that the first byte chooses and all at once,
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
    case frontend::query:
      if (const auto query = decode_query(body)) {
        append_query(remade, query->sql);
        same(body);
      }
      break;
    case frontend::parse:
      if (const auto parse = decode_parse(body)) {
        if (parse->statement.size() + parse->sql.size() + 4 +
                std::size_t{4} * parse->parameter_types !=
            body.size())
          std::abort();
      }
      break;
    case frontend::bind:
      if (const auto bind = decode_bind(body)) {
        const auto names = decode_bind_names(body);
        if (!names || names->portal != bind->portal || names->statement != bind->statement)
          std::abort();
      }
      break;
    case frontend::describe:
      if (const auto named = decode_describe(body)) {
        named->portal ? append_describe_portal(remade, named->name)
                      : append_describe_statement(remade, named->name);
        same(body);
      }
      break;
    case frontend::close:
      if (const auto named = decode_close(body)) {
        named->portal ? append_close_portal(remade, named->name)
                      : append_close_statement(remade, named->name);
        same(body);
      }
      break;
    case frontend::execute:
      if (const auto execute = decode_execute(body)) {
        append_execute(remade, execute->portal, execute->rows_max);
        same(body);
      }
      break;
    case frontend::copy_fail:
      if (const auto fail = decode_copy_fail(body)) {
        append_copy_fail(remade, fail->message);
        same(body);
      }
      break;
    case frontend::function_call:
      if (!decode_function_call_head(body)) std::abort();
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
    return Rules::frontend(limits);
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
