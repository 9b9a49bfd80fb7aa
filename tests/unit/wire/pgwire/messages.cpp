// Bodies: what is encoded is decoded again; cut short anywhere, or with a byte too many, it is
// malformed and no more.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "support.hpp"

using namespace termgate::pgwire;

namespace {

// The body of the one message in `frame`.
std::string body_of(const std::string& frame, char type) {
  REQUIRE(frame.size() >= 5);
  CHECK(frame[0] == type);
  std::size_t length = 0;
  for (int i = 1; i < 5; ++i)
    length = length << 8 | static_cast<unsigned char>(frame[static_cast<std::size_t>(i)]);
  CHECK(length == frame.size() - 1);
  return frame.substr(5);
}

template <class Append>
std::string made(char type, Append append) {
  std::string frame = "before";
  append(frame);
  CHECK(frame.starts_with("before"));
  return body_of(frame.substr(6), type);
}

// No prefix of a body is a body, and nothing may follow it. In memory of exactly that size, for the
// sanitizers.
template <class Decode>
void nothing_else_passes(const std::string& body, Decode decode) {
  for (std::size_t length = 0; length < body.size(); ++length) {
    CAPTURE(length);
    const std::vector<char> cut(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_FALSE(decode(std::string_view(cut.data(), cut.size())));
  }
  const auto longer = decode(body + "x");
  CHECK_FALSE(longer);
  CHECK(std::string(longer.problem().sqlstate) == "08P01");
  CHECK_FALSE(longer.problem().reason().empty());
}

}  // namespace

TEST_CASE("messages: Query and Parse", "[proxy][pgwire]") {
  const std::string query = made('Q', [](std::string& out) { append_query(out, "SELECT 'ä'"); });
  CHECK(decode_query(query)->sql == "SELECT 'ä'");
  nothing_else_passes(query, decode_query);
  CHECK_FALSE(decode_query(std::string("SELECT 1\0; DROP TABLE t\0", 24)));

  const std::vector<std::uint32_t> types{23, 0, 25};
  const std::string parse =
      made('P', [&](std::string& out) { append_parse(out, "name", "SELECT $1", types); });
  const auto decoded = decode_parse(parse);
  REQUIRE(decoded);
  CHECK(decoded->statement == "name");
  CHECK(decoded->sql == "SELECT $1");
  CHECK(decoded->parameter_types == 3);
  nothing_else_passes(parse, decode_parse);
}

TEST_CASE("messages: Bind", "[proxy][pgwire]") {
  const std::vector<Field> values{"42", std::nullopt, "", std::string_view("\0\1", 2)};
  const std::vector<std::uint16_t> formats{0, 0, 1, 1};
  const std::vector<std::uint16_t> results{1};
  const std::string bind = made('B', [&](std::string& out) {
    append_bind(out, "portal", "statement", values, formats, results);
  });
  const auto decoded = decode_bind(bind);
  REQUIRE(decoded);
  CHECK(decoded->portal == "portal");
  CHECK(decoded->statement == "statement");
  CHECK(decoded->parameter_formats == 4);
  CHECK(decoded->parameters == 4);
  CHECK(decoded->result_formats == 1);
  nothing_else_passes(bind, decode_bind);
  CHECK(decode_bind_names(bind)->statement == "statement");
  CHECK(decode_bind_names(std::string_view(bind).substr(0, 17))->portal == "portal");
  CHECK_FALSE(decode_bind_names(std::string_view(bind).substr(0, 16)));

  const std::vector<std::uint16_t> wrong{0, 1};
  const auto mismatch =
      decode_bind(made('B', [&](std::string& out) { append_bind(out, "", "", values, wrong); }));
  REQUIRE_FALSE(mismatch);
  CHECK_THAT(std::string(mismatch.problem().reason()),
             Catch::Contains("2 parameter formats but 4 parameters"));
  // A value that says it is longer than the message, and one of a negative length that is not
  // NULL's.
  CHECK_FALSE(decode_bind(std::string("\0\0\0\0\0\1\x7f\xff\xff\xff\0\0", 12)));
  CHECK_FALSE(decode_bind(std::string("\0\0\0\0\0\1\xff\xff\xff\xfe\0\0", 12)));
  CHECK_FALSE(decode_bind(std::string("\0\0\0\0\xff\xff\0\0", 8)));
}

TEST_CASE("messages: Describe and Close and Execute and FunctionCall and CopyFail",
          "[proxy][pgwire]") {
  const std::string portal = made('D', [](std::string& out) { append_describe_portal(out, "p"); });
  CHECK(decode_describe(portal)->portal);
  CHECK(decode_describe(portal)->name == "p");
  nothing_else_passes(portal, decode_describe);
  const std::string statement =
      made('C', [](std::string& out) { append_close_statement(out, "s"); });
  CHECK_FALSE(decode_close(statement)->portal);
  CHECK(decode_close(statement)->name == "s");
  nothing_else_passes(statement, decode_close);
  CHECK_FALSE(decode_close(made('C', [](std::string& out) {
                append_close_portal(out, "p");
              }))->name.empty());
  CHECK_FALSE(decode_describe(made('D', [](std::string& out) {
                append_describe_statement(out, "");
              }))->portal);
  CHECK_FALSE(decode_describe(std::string("Xs\0", 3)));

  const std::string execute =
      made('E', [](std::string& out) { append_execute(out, "p", 0x01020304); });
  CHECK(decode_execute(execute)->portal == "p");
  CHECK(decode_execute(execute)->rows_max == 0x01020304);
  nothing_else_passes(execute, decode_execute);

  CHECK(decode_function_call_head(std::string_view("\0\0\3\xbb", 4))->function_oid == 955);
  CHECK_FALSE(decode_function_call_head(std::string_view("\0\0\3", 3)));
}

TEST_CASE("messages: ErrorResponse keeps every field and tolerates what is missing or unknown",
          "[proxy][pgwire]") {
  ReportFields fields =
      report("ERROR", "TG001", "TG001 stale term 3 for scope \"billing\": the fence stands at 5");
  fields.set('D', "detail");
  fields.set('H', "hint");
  fields.set('P', "17");
  fields.set('?', "ignored");
  const std::string body = made('E', [&](std::string& out) { append_error_response(out, fields); });
  const auto decoded = decode_report(body);
  REQUIRE(decoded);
  for (const char letter : ReportFields::letters) CHECK((*decoded)[letter] == fields[letter]);
  CHECK(decoded->sqlstate() == "TG001");
  CHECK_FALSE(decoded->ends_connection());
  nothing_else_passes(body, decode_report);
  // Without a SQLSTATE, a severity or anything at all.
  const auto bare = decode_report(std::string_view("Mhello\0\0", 8));
  REQUIRE(bare);
  CHECK(bare->sqlstate().empty());
  CHECK(bare->message() == "hello");
  CHECK(decode_report(std::string(1, '\0')));
  CHECK_FALSE(decode_report(""));
  // A letter of a later version, and two of one: the last counts.
  CHECK(decode_report(std::string("Zfuture\0Mone\0Mtwo\0\0", 19))->message() == "two");
  CHECK(decode_report(std::string("SFATAL\0\0", 8))->ends_connection());
  CHECK(decode_report(std::string("S\xe9\x87\x8d\0VPANIC\0\0", 13))->ends_connection());
  const std::string notice =
      made('N', [&](std::string& out) { append_notice_response(out, fields); });
  CHECK(notice == body);
}

TEST_CASE("messages: ReadyForQuery and CommandComplete and ParameterStatus", "[proxy][pgwire]") {
  for (const auto status :
       {TransactionStatus::idle, TransactionStatus::in_block, TransactionStatus::failed}) {
    const std::string body =
        made('Z', [&](std::string& out) { append_ready_for_query(out, status); });
    CHECK(*decode_ready_for_query(body) == status);
    nothing_else_passes(body, decode_ready_for_query);
  }
  CHECK_FALSE(decode_ready_for_query("X"));
  const std::string status =
      made('S', [](std::string& out) { append_parameter_status(out, "TimeZone", ""); });
  CHECK(decode_parameter_status(status)->name == "TimeZone");
  CHECK(decode_parameter_status(status)->value.empty());
  nothing_else_passes(status, decode_parameter_status);
}

TEST_CASE("messages: BackendKeyData of protocol 3.0 and 3.2", "[proxy][pgwire]") {
  for (const std::size_t size : {4, 32, 256}) {
    const std::string body = made(
        'K', [&](std::string& out) { append_backend_key_data(out, 77, std::string(size, 'k')); });
    CHECK(decode_backend_key_data(body)->pid == 77);
    CHECK(decode_backend_key_data(body)->key == std::string(size, 'k'));
  }
  CHECK_FALSE(decode_backend_key_data(std::string(7, 'k')));
  CHECK_FALSE(decode_backend_key_data(std::string(261, 'k')));
}

TEST_CASE("messages: Authentication", "[proxy][pgwire]") {
  using Type = Authentication::Type;
  for (const Type type :
       {Type::ok, Type::kerberos_v5, Type::cleartext_password, Type::gss, Type::sspi}) {
    const std::string body = made('R', [&](std::string& out) { append_authentication(out, type); });
    CHECK(decode_authentication(body)->type == type);
    nothing_else_passes(body, decode_authentication);
  }
  const std::string md5 =
      made('R', [](std::string& out) { append_authentication(out, Type::md5_password, "salt"); });
  CHECK(decode_authentication(md5)->payload == "salt");
  nothing_else_passes(md5, decode_authentication);
  const std::vector<std::string_view> mechanisms{"SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"};
  const std::string sasl =
      made('R', [&](std::string& out) { append_authentication_sasl(out, mechanisms); });
  const auto decoded = decode_authentication(sasl);
  REQUIRE(decoded);
  CHECK(decoded->offers("SCRAM-SHA-256"));
  CHECK(decoded->offers("SCRAM-SHA-256-PLUS"));
  CHECK_FALSE(decoded->offers("SCRAM-SHA"));
  CHECK_FALSE(decoded->offers(""));
  nothing_else_passes(sasl, decode_authentication);
  CHECK_FALSE(decode_authentication(std::string("\0\0\0\x0a\0", 5)));
  for (const Type type : {Type::gss_continue, Type::sasl_continue, Type::sasl_final}) {
    const std::string body =
        made('R', [&](std::string& out) { append_authentication(out, type, "opaque"); });
    CHECK(decode_authentication(body)->payload == "opaque");
    CHECK_FALSE(decode_authentication(body)->offers("opaque"));
  }
  for (const std::uint8_t type : {1, 4, 6, 13, 255})
    CHECK_FALSE(decode_authentication(std::string("\0\0\0", 3) + static_cast<char>(type)));
}

TEST_CASE("messages: rows are laid out as the documentation draws them", "[proxy][pgwire]") {
  const std::string description = made('T', [](std::string& out) {
    append_row_description(out, std::vector<Column>{{.name = "n",
                                                     .table_oid = 1,
                                                     .attribute = 2,
                                                     .type_oid = 23,
                                                     .type_size = 4,
                                                     .type_modifier = -1,
                                                     .format = 0}});
  });
  CHECK(description == std::string("\0\1n\0\0\0\0\1\0\2\0\0\0\x17\0\4\xff\xff\xff\xff\0\0", 22));
  const std::string row = made('D', [](std::string& out) {
    append_data_row(out, std::vector<Field>{"ab", std::nullopt, ""});
  });
  CHECK(row == std::string("\0\3\0\0\0\2ab\xff\xff\xff\xff\0\0\0\0", 16));
  CHECK(
      made('I', [](std::string& out) { append_bare(out, backend::empty_query_response); }).empty());
}

TEST_CASE("messages: a NUL in a text ends it and cannot begin another message", "[proxy][pgwire]") {
  const std::string body = made('E', [](std::string& out) {
    append_error_response(out, report("ERROR", "42000", std::string_view("bad\0\0Z\0\0\0\5I", 11)));
  });
  CHECK(decode_report(body)->message() == "bad");
  CHECK(decode_query(made('Q', [](std::string& out) {
          append_query(out, std::string_view("a\0b", 3));
        }))->sql == "a");
}

TEST_CASE("messages: what does not fit its own count is refused and leaves the buffer as it was",
          "[proxy][pgwire]") {
  std::string out = "kept";
  CHECK_THROWS_AS(append_data_row(out, std::vector<Field>(65'536)), std::length_error);
  CHECK(out == "kept");
  append_data_row(out, std::vector<Field>(65'535));
  CHECK(out.size() == 4 + 5 + 2 + 4 * 65'535u);
}
