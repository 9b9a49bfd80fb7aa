// A client's bytes, framed and decoded.
#include "pgwire_fuzz.hpp"

using namespace termgate::pgwire;

namespace {

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
    case frontend::function_call:
      if (!decode_function_call_head(body)) std::abort();
      break;
    default: break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Rules rules = Rules::frontend(fuzz_limits());
  whole_and_in_pieces(rules, data, size, decode);
  return 0;
}
