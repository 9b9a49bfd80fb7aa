// A server's tokens: walked whole, a byte at a time and in any pieces they come to the same; what
// is not known loses the walker and not the end of the message.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <termgate/tds/text.hpp>
#include <termgate/tds/token.hpp>

#include "support.hpp"

using namespace termgate::tds;
using namespace std::string_literals;

namespace {

std::string done(std::uint16_t status) {
  std::string out;
  append_done(out, {token::done, status, 0, 0}, version::v7_4);
  return out;
}

// One column and one row of it, then a DONE: the walker must find that.
std::string result_of(const std::string& type_info, const std::string& value,
                      const std::string& table = "") {
  return "\x81\1\0"s + "\0\0\0\0\x09\0"s + type_info + table + "\1c\0"s + "\xD1" + value +
         done(0x10);
}

// Messages of FreeTDS's tsql, of tedious and of a server, which are a fuzz target's seeds: behind
// one byte of the fuzzer's.
std::vector<std::string> recorded(const std::string& target) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(TERMGATE_TDS_SEEDS "/" + target)) {
    if (entry.path().filename() == "found.bin") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    all.push_back(std::string(std::istreambuf_iterator<char>(file), {}).substr(1));
  }
  return all;
}

}  // namespace

TEST_CASE("tokens: every recorded message is read to its end, whole and a byte at a time",
          "[wire][tds]") {
  for (const std::string& bytes : recorded("tds_client"))
    CHECK(read_whole(Direction::from_client, bytes).problem.empty());
  int answers = 0;
  for (const std::string& bytes : recorded("tds_server")) {
    const Read read = read_whole(Direction::from_server, bytes);
    REQUIRE(read.problem.empty());
    REQUIRE(read.messages.size() == 1);
    const std::string& payload = read.messages[0].payload;
    if (static_cast<unsigned char>(payload[0]) == 0) continue;  // PRELOGIN's answer
    ++answers;
    const std::string whole = tokens_of(payload, version::v7_4, 0);
    CHECK(whole.find("lost") == std::string::npos);
    CHECK(whole.find("last ") != std::string::npos);
    CHECK(tokens_of(payload, version::v7_4, 1) == whole);
    CHECK(tokens_of(payload, version::v7_4, 7) == whole);
  }
  CHECK(answers > 20);
}

TEST_CASE("tokens: a value of every type is walked over", "[wire][tds]") {
  const std::string collation = "\x09\x04\xD0\x00\x34"s, plp_null(8, '\xFF');
  const std::string chunks = "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\3\0\0\0abc\2\0\0\0de\0\0\0\0"s;
  struct Row {
    const char* name;
    std::string type, value, table;
  };
  const Row rows[] = {
      {"int", "\x38"s, "\1\0\0\0"s, ""},
      {"bigint", "\x7F"s, std::string(8, 'x'), ""},
      {"bit", "\x32"s, "\1"s, ""},
      {"intn", "\x26\4"s, "\4abcd"s, ""},
      {"intn null", "\x26\4"s, "\0"s, ""},
      {"decimal", "\x6A\x11\x0A\2"s, "\5abcde"s, ""},
      {"guid", "\x24\x10"s, "\x10" + std::string(16, 'x'), ""},
      {"date", "\x28"s, "\3abc"s, ""},
      {"datetime2", "\x2A\7"s, "\x08" + std::string(8, 'x'), ""},
      {"datetimeoffset null", "\x2B\7"s, "\0"s, ""},
      {"nvarchar", "\xE7\x64\0"s + collation, "\4\0abcd"s, ""},
      {"nvarchar null", "\xE7\x64\0"s + collation, "\xFF\xFF"s, ""},
      {"varbinary", "\xA5\x64\0"s, "\2\0ab"s, ""},
      {"varchar(max)", "\xA7\xFF\xFF"s + collation, chunks, ""},
      {"varchar(max) null", "\xA7\xFF\xFF"s + collation, plp_null, ""},
      {"varbinary(max) empty", "\xA5\xFF\xFF"s, std::string(8, '\0') + std::string(4, '\0'), ""},
      {"text", "\x23\xFF\xFF\xFF\x7F"s + collation, "\x10" + std::string(24, 'p') + "\3\0\0\0abc"s,
       "\1\2\0t\0u\0"s},
      {"text null", "\x23\xFF\xFF\xFF\x7F"s + collation, "\0"s, "\0"s},
      {"image", "\x22\xFF\xFF\xFF\x7F"s, "\x10" + std::string(24, 'p') + "\0\0\0\0"s,
       "\2\1\0a\0\1\0b\0"s},
      {"sql_variant", "\x62\x49\x1F\0\0"s, "\6\0\0\0\x38\0abcd"s, ""},
      {"sql_variant null", "\x62\x49\x1F\0\0"s, "\0\0\0\0"s, ""},
      {"xml", "\xF1\0"s, chunks, ""},
      {"xml of a schema", "\xF1\1\1d\0\1o\0\1\0c\0"s, chunks, ""},
      {"udt", "\xF0\xFF\xFF\1d\0\1s\0\1n\0\2\0a\0b\0"s, chunks, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string payload = result_of(row.type, row.value, row.table);
    const std::string whole = tokens_of(payload, version::v7_4, 0);
    CHECK(whole.find("lost") == std::string::npos);
    CHECK(whole.find("\nD1 \nFD ") != std::string::npos);
    CHECK(whole.find("last 16\n") != std::string::npos);
    CHECK(tokens_of(payload, version::v7_4, 1) == whole);
    // Cut short, there is no last DONE, unless the row was not walked to its end.
    CHECK(tokens_of(payload.substr(0, payload.size() - 1), version::v7_4, 0).find("last") ==
          std::string::npos);
  }
}

TEST_CASE("tokens: a row with a bitmap has no bytes for its NULLs", "[wire][tds]") {
  std::string payload = "\x81\3\0"s;
  for (int i = 0; i < 3; ++i) payload += "\0\0\0\0\x09\0\x26\4\0"s;
  payload += "\xD2\5\4abcd"s + "\xD2\7"s + done(0);
  const std::string whole = tokens_of(payload, version::v7_4, 0);
  CHECK(whole.find("D2 \nD2 \nFD ") != std::string::npos);
  CHECK(tokens_of(payload, version::v7_4, 1) == whole);
}

TEST_CASE("tokens: returned values are read", "[wire][tds]") {
  const std::string head = "\xAC\0\0\2@\0p\0\1\0\0\0\0\0\0"s;
  struct Row {
    const char* name;
    std::string rest;
    std::optional<std::int64_t> integer;
    bool null, kept;
  };
  const Row rows[] = {
      {"bigint", "\x26\x08\x08\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s, -2, false, true},
      {"int", "\x26\4\4\5\0\0\0"s, 5, false, true},
      {"smallint", "\x26\2\2\xFF\xFF"s, -1, false, true},
      {"bit", "\x68\1\1\1"s, 1, false, true},
      {"null", "\x26\x08\0"s, std::nullopt, true, true},
      {"text", "\xE7\x64\0\x09\x04\xD0\x00\x34\2\0a\0"s, std::nullopt, false, true},
      {"long", "\xA5\xFF\xFF\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\3\0\0\0abc\0\0\0\0"s, std::nullopt,
       false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    TokenReader reader(version::v7_4);
    const std::string payload = head + row.rest + done(0);
    const TokenEvent event = reader.next(payload);
    REQUIRE(event.kind == TokenEvent::Kind::return_value);
    CHECK(utf8_of(event.value.name) == "@p");
    CHECK(event.value.integer() == row.integer);
    CHECK(event.value.null == row.null);
    CHECK(event.value.kept == row.kept);
    CHECK(tokens_of(payload, version::v7_4, 1) == tokens_of(payload, version::v7_4, 0));
    CHECK(tokens_of(payload, version::v7_4, 0).find("last 0") != std::string::npos);
  }
}

TEST_CASE("tokens: what is not known loses the walker but not the end", "[wire][tds]") {
  for (const std::string& unknown :
       {"\x42garbage"s, "\xA3garbage"s, "\xD3\1\0garbage"s, "\x81\1\0\0\0\0\0\0\0\xF3xx"s,
        "\xAC\0\0\0\0\0\0\0\0\0\0\xF3"s, "\xAE\1\xFF\xFF\xFF\xFF"s}) {
    const std::string payload = unknown + done(0x21);
    const std::string whole = tokens_of(payload, version::v7_4, 0);
    CHECK(whole.find("lost") != std::string::npos);
    CHECK(whole.ends_with("last 33\n"));
    CHECK(tokens_of(payload, version::v7_4, 1) == whole);
  }
  TokenReader reader(version::v7_4);
  reader.distrust_results();
  CHECK(reader.next("\x81\1\0"s).kind == TokenEvent::Kind::lost);
  CHECK(reader.is_lost());
  CHECK_FALSE(reader.end_of_message());
  CHECK_FALSE(reader.is_lost());
}

TEST_CASE("tokens: what we write is read back", "[wire][tds]") {
  for (const std::uint32_t tds_version : {version::v7_1, version::v7_4}) {
    std::string payload;
    append_report(payload, token::error, 50001, 16, "TG001 stale term 5", "proxy", tds_version);
    append_environment_change(payload, environment::rollback_transaction, "", "12345678");
    append_done(payload, {token::done_procedure, 2, 3, 4}, tds_version);
    TokenReader reader(tds_version);
    std::string_view left = payload;
    TokenEvent event = reader.next(left);
    REQUIRE(event.kind == TokenEvent::Kind::token);
    const auto report = decode_report(event.token, event.body, tds_version);
    REQUIRE(report);
    CHECK(report->number == 50001);
    CHECK(report->severity == 16);
    CHECK(utf8_of(report->text) == "TG001 stale term 5");
    CHECK(report->line == 1);
    left.remove_prefix(event.used);
    event = reader.next(left);
    const auto change = decode_environment_change(event.body);
    REQUIRE(change);
    CHECK(change->type == environment::rollback_transaction);
    CHECK(transaction_of(change->before) == 0x3837363534333231);
    CHECK(transaction_of(change->now) == 0);
    left.remove_prefix(event.used);
    event = reader.next(left);
    const auto end = decode_done(event.token, event.body);
    REQUIRE(end);
    CHECK(end->failed());
    CHECK(end->count == 4);
    CHECK(reader.end_of_message()->command == 3);
  }
}
