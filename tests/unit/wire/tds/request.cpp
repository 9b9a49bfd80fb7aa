// Requests: headers, calls and requests to the transaction manager, our own ones read back, cut
// short at every byte.
#include <catch2/catch.hpp>

#include <cstdint>

#include <termgate/tds/request.hpp>
#include <termgate/tds/text.hpp>

using namespace termgate::tds;

TEST_CASE("headers: the transaction is found and lengths are held to", "[wire][tds]") {
  std::string payload;
  append_headers(payload, 0x1122334455667788);
  const auto headers = decode_headers(payload + "rest", version::v7_4);
  REQUIRE(headers);
  CHECK(headers->transaction == 0x1122334455667788);
  CHECK(headers->outstanding == 1);
  CHECK(headers->bytes == 22);
  CHECK(decode_headers("rest", version::v7_1)->bytes == 0);
  for (std::size_t size = 0; size < payload.size(); ++size)
    CHECK_FALSE(decode_headers(payload.substr(0, size), version::v7_4));
  using namespace std::string_literals;
  const std::string one = payload.substr(4);
  CHECK_FALSE(decode_headers("\x28\0\0\0"s + one + one, version::v7_4));  // twice
  CHECK_FALSE(decode_headers("\3\0\0\0"s + one, version::v7_4));          // shorter than itself
  CHECK_FALSE(decode_headers("\xFF\xFF\xFF\xFF"s + one, version::v7_4));  // longer than all
  CHECK_FALSE(
      decode_headers("\x0A\0\0\0\5\0\0\0\2\0"s, version::v7_4));  // a header shorter than its head
  CHECK_FALSE(
      decode_headers("\x0E\0\0\0\x0A\0\0\0\2\0abcd"s, version::v7_4));  // a transaction of 4 bytes
  CHECK(decode_headers("\x0A\0\0\0\6\0\0\0\3\0"s, version::v7_4)->has_transaction == false);
}

TEST_CASE("rpc: a call of our own is read back", "[wire][tds]") {
  for (const std::uint32_t tds_version : {version::v7_1, version::v7_2, version::v7_4}) {
    std::string payload;
    const std::string_view scope = "billing \xE2\x82\xAC";
    const std::int64_t term = -5;
    CallWriter call(payload, tds_version, 7, "[app].[termgate].[gate_enter]");
    call.text("@scope", &scope);
    call.text("@none", nullptr, true);
    call.integer("@term", &term, true);
    call.integer("@nothing", nullptr);
    call.binary("@secret", "abc");
    const auto headers = decode_headers(payload, tds_version);
    REQUIRE(headers);
    const std::string_view body = std::string_view(payload).substr(headers->bytes);
    const Calls calls = decode_rpc(body, tds_version);
    REQUIRE(calls.whole);
    REQUIRE(calls.all.size() == 1);
    const Call& one = calls.all[0];
    CHECK(utf8_of(one.name) == "[app].[termgate].[gate_enter]");
    REQUIRE(one.parameters.size() == 5);
    CHECK(utf8_of(one.parameters[0].data) == scope);
    CHECK(one.parameters[1].null);
    CHECK(one.parameters[1].status == 1);
    CHECK(one.parameters[2].data == std::string_view("\xFB\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8));
    CHECK(one.parameters[3].null);
    CHECK(one.parameters[4].data == "abc");
    const std::size_t head = body.size() - decode_rpc(body, tds_version).all.size();
    for (std::size_t size = 0; size < head; ++size) {
      const Calls cut = decode_rpc(body.substr(0, size), tds_version);
      if (cut.whole) CHECK(cut.all[0].parameters.size() < 5);
    }
  }
}

TEST_CASE("rpc: several calls in a message are told apart", "[wire][tds]") {
  std::string one, payload;
  const std::int64_t number = 1;
  CallWriter(one, version::v7_1, 0, "a").integer("@p", &number);
  for (const std::uint32_t tds_version : {version::v7_1, version::v7_4}) {
    const char separator = tds_version == version::v7_1 ? '\x80' : '\xFF';
    CHECK(decode_rpc(one + separator + one, tds_version).all.size() == 2);
    CHECK(decode_rpc(one + separator + one, tds_version).whole);
    CHECK(decode_rpc(one + separator, tds_version).all.size() == 1);
    CHECK_FALSE(decode_rpc(one + separator + one.substr(0, 3), tds_version).whole);
  }
  using namespace std::string_literals;
  const Calls by_id = decode_rpc("\xFF\xFF\x0A\0\0\0"s, version::v7_4);
  REQUIRE(by_id.whole);
  CHECK(by_id.all[0].id == procedure::execute_sql);
  CHECK_FALSE(decode_rpc("\0\0\0\0"s, version::v7_4).whole);  // no name
  CHECK_FALSE(decode_rpc("\xFF\xFF\x0A\0\0\0\0\0\xF3"s, version::v7_4)
                  .whole);  // a table that ends too early
  CHECK_FALSE(decode_rpc("\xFF\xFF\x0A\0\0\0\0\0\xF8"s, version::v7_4).whole);  // no type
  CHECK_FALSE(decode_rpc("\xFF\xFF\x0A\0\0\0\0\x08\x26\1\0"s, version::v7_4)
                  .whole);  // encrypted, and no cipher
  CHECK_FALSE(decode_rpc("\xFF\xFF\x0A\0\0\0\0\0\xA5\xFF\xFF\4\0"s, version::v7_4)
                  .whole);  // cut in its length
}

namespace {

// As a reader tells it: "call 10 ; @p 231 : data ; …".
struct Told final : CallSink {
  std::string text;
  void call(std::uint16_t id, std::string_view name, std::uint16_t) override {
    text += "call " + std::to_string(id) + utf8_of(name) + ";";
  }
  void parameter(std::string_view name, std::uint8_t, const TypeInfo& type, bool null) override {
    text += utf8_of(name) + " " + std::to_string(type.type) + (null ? " null" : "") + ":";
  }
  void data(std::string_view bytes) override { text += bytes; }
  void parameter_ends() override { text += ";"; }
};

}  // namespace

TEST_CASE("rpc: tables, encrypted values and chunks are read to their ends, in pieces of any size",
          "[wire][tds]") {
  using namespace std::string_literals;
  const std::string head = "\xFF\xFF\x0A\0\0\0"s, max = "\xE7\xFF\xFF\x09\x04\xD0\0\x34"s,
                    integer = "\0\0\x26\4\4\7\0\0\0"s;
  const std::string table_type = "\0\0\xF3\0\1d\0\1t\0"s, column = "\0\0\0\0\0\0\x26\4\0"s,
                    text_column = "\0\0\0\0\0\0"s + max + "\0"s;
  const std::string default_column = "\0\0\0\0\0\2\x26\4\0"s;
  const std::string chunk = "\2\0\0\0a\0"s, other = "\1\0\0\0b"s, rest = "\1\0\0\0\0"s,
                    no_more = "\0\0\0\0"s;
  struct Row {
    const char* name;
    std::string body;
    const char* told;
    bool whole;
  };
  const Row rows[] = {
      {"a value in one chunk", head + "\0\0"s + max + "\2\0\0\0\0\0\0\0"s + chunk + no_more,
       "call 10; 231:a\0;", true},
      {"in many",
       head + "\0\0"s + max + "\4\0\0\0\0\0\0\0"s + chunk + other + rest + no_more + integer, "",
       true},
      {"of a length that is not known",
       head + "\0\0"s + max + "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s + chunk + no_more, "", true},
      {"null", head + "\0\0"s + max + std::string(8, '\xFF') + integer, "", true},
      {"chunks that do not add up", head + "\0\0"s + max + "\5\0\0\0\0\0\0\0"s + chunk + no_more,
       "", false},
      {"no end", head + "\0\0"s + max + "\2\0\0\0\0\0\0\0"s + chunk, "", false},
      {"a table without rows", head + table_type + "\1\0"s + column + "\0\0"s + integer, "", true},
      {"a null table", head + table_type + "\xFF\xFF\0\0"s + integer, "", true},
      {"a table with rows",
       head + table_type + "\3\0"s + column + text_column + default_column +
           "\x10\1\0\1\0\0\x11\1\0\1\0\0\1\4\1\0\0\0"s + "\2\0\0\0\0\0\0\0"s + chunk + no_more +
           "\1\0"s + std::string(8, '\xFF') + "\0"s + integer,
       "", true},
      {"a table of no such row", head + table_type + "\1\0"s + column + "\0\2"s, "", false},
      {"an encrypted value",
       head + "\0\x08\xA5\x40\x1F\2\0xy\x26\4\2\1\0\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\1"s +
           integer,
       "", true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Told whole;
    CallReader at_once(version::v7_4);
    const bool good = at_once.take(row.body, whole) && at_once.may_end();
    CHECK(good == row.whole);
    CHECK(decode_rpc(row.body, version::v7_4).whole == row.whole);
    if (row.whole && row.body.ends_with(integer)) CHECK(whole.text.ends_with(" 38:\7\0\0\0;"s));
    for (const std::size_t piece : {1u, 2u, 3u, 7u}) {
      Told told;
      CallReader reader(version::v7_4);
      bool read = true;
      for (std::size_t at = 0; at < row.body.size() && read; at += piece)
        read = reader.take(std::string_view(row.body).substr(at, piece), told);
      CHECK((read && reader.may_end()) == row.whole);
      if (row.whole) CHECK(told.text == whole.text);
    }
  }
  const Calls calls = decode_rpc(rows[1].body, version::v7_4);
  REQUIRE(calls.all[0].parameters.size() == 2);
  CHECK(calls.all[0].parameters[0].data == std::string("a\0b\0", 4));
}

TEST_CASE("rpc: a table has so many columns and its rows cost no more than their bytes",
          "[wire][tds]") {
  using namespace std::string_literals;
  const std::string head = "\xFF\xFF\x0A\0\0\0"s, table_type = "\0\0\xF3\0\1d\0\1t\0"s,
                    null_column = "\0\0\0\0\0\0\x1F\0"s;
  const auto table = [&](std::size_t columns, std::size_t rows) {
    std::string body = head + table_type;
    body += static_cast<char>(columns & 0xFF);
    body += static_cast<char>(columns >> 8);
    for (std::size_t i = 0; i < columns; ++i) body += null_column;
    return body + '\0' + std::string(rows, '\1') + '\0';
  };
  // A turn for each value would be four thousand million turns, far beyond CTest's limit.
  CHECK(decode_rpc(table(1024, 4'000'000), version::v7_4).whole);
  Told told;
  CallReader reader(version::v7_4);
  CHECK_FALSE(reader.take(table(1025, 1), told));
  CHECK(reader.too_many_columns());
}

TEST_CASE("transaction requests: their kinds and what goes with them", "[wire][tds]") {
  using namespace std::string_literals;
  const auto begin = decode_transaction_request("\5\0\5\2x\0"s);
  REQUIRE(begin);
  CHECK(begin->kind == transaction_request::begin);
  CHECK(begin->isolation == 5);
  const auto commit = decode_transaction_request("\7\0\0\1\2\0"s);
  REQUIRE(commit);
  CHECK(commit->begins_next);
  CHECK(commit->isolation == 2);
  const std::string save_bytes = "\x09\0\2s\0"s;  // the name that is decoded points into it
  const auto save = decode_transaction_request(save_bytes);
  REQUIRE(save);
  CHECK(utf8_of(save->name) == "s");
  CHECK_FALSE(decode_transaction_request("\7\0\0\1"s));
  CHECK_FALSE(decode_transaction_request("\5\0\1\3x\0"s));
  CHECK_FALSE(decode_transaction_request("\5"s));
  CHECK(decode_transaction_request("\1\0anything"s)->kind == transaction_request::propagate);
}

TEST_CASE("text: UTF-16 and UTF-8 are each other's, and what is neither is replaced",
          "[wire][tds]") {
  const std::string all = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  CHECK(utf8_of(utf16_of(all)) == all);
  CHECK(is_utf16(utf16_of(all)));
  CHECK(utf8_of(std::string_view("\x00\xD8", 2)) == "\xEF\xBF\xBD");
  CHECK(utf8_of("x") == "\xEF\xBF\xBD");
  CHECK_FALSE(is_utf16("x"));
  CHECK_FALSE(is_utf16(std::string_view("\x00\xDC", 2)));
  for (const char* bad : {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"})
    CHECK(utf8_of(utf16_of(bad)).find("\xEF\xBF\xBD") == 0);
}
