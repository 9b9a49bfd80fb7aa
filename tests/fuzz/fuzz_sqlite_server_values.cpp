// What a client sends as a value of each type, in text and in binary, and what a file may hold in any column: nothing may crash,
// what is taken comes back as the same in both forms, and what a function of a session makes of it is a value or a failure with a
// SQLSTATE. The first byte is the type, the second what is done; the rest is the value.
#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>

#include <termgate/dialect/functions.hpp>
#include <termgate/sqlite_server/catalog.hpp>

using namespace termgate::sqlite_server;
namespace dialect = termgate::dialect;

namespace {

[[noreturn]] void found(std::string_view what, dialect::Oid type) {
  std::fprintf(stderr, "%.*s, type %u\n", static_cast<int>(what.size()), what.data(), type);
  std::abort();
}

void check(const SqlError& problem, dialect::Oid type) {
  if (problem.sqlstate.size() != 5 || problem.message.empty()) found("a problem without words", type);
}

void there_and_back(const Stored& stored, dialect::Oid type) {
  std::string text;
  if (const auto problem = append_value(text, stored, type, Format::text)) return check(*problem, type);
  const auto again = parse_value(text, type, Format::text);
  // A NUL cannot be in text; bytes can, as digits.
  if (const auto* problem = std::get_if<SqlError>(&again)) {
    check(*problem, type);
    found("what was written as text is not read: " + text, type);
  }
  std::string twice;
  if (append_value(twice, std::get<Stored>(again), type, Format::text) || twice != text)
    found("text is not the same the second time: " + text + " and " + twice, type);
  if (!has_binary(type)) return;
  std::string binary;
  if (const auto problem = append_value(binary, stored, type, Format::binary)) return check(*problem, type);
  const auto from_binary = parse_value(binary, type, Format::binary);
  if (std::holds_alternative<SqlError>(from_binary)) found("what was written in binary is not read: " + text, type);
  twice.clear();
  if (append_value(twice, std::get<Stored>(from_binary), type, Format::text) || twice != text)
    found("binary is not the same the second time: " + text + " and " + twice, type);
}

struct Connection {
  sqlite3* held = nullptr;
  Catalog* catalog = nullptr;
  Connection() {
    if (sqlite3_open(":memory:", &held) != SQLITE_OK) std::abort();
    catalog = &install_catalog(held, "fuzz");
    sqlite3_exec(held, "CREATE TABLE t (a INTEGER PRIMARY KEY, b text CHECK (b <> ''))", nullptr, nullptr, nullptr);
  }
  ~Connection() { sqlite3_close(held); }
};

// A function with this value for each argument; those that wait or change something are left out.
void call(std::uint8_t number, std::string_view value, bool as_blob) {
  static Connection connection;
  const auto functions = dialect::functions_to_supply();
  const dialect::Function& function = functions[number % functions.size()];
  if (function.name == "pg_sleep") return;
  std::string sql = "SELECT \"" + std::string(function.name) + "\"(";
  const int count = function.arguments_max < 0 ? function.arguments_min + 1 : function.arguments_max;
  for (int i = 0; i < count; ++i) sql += i > 0 ? ", ?" + std::to_string(i + 1) : "?1";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(connection.held, (sql + ")").c_str(), -1, &statement, nullptr) != SQLITE_OK)
    found(sqlite3_errmsg(connection.held), 0);
  // Arguments are apart by a byte of zero; the last stands for those behind it.
  std::string_view rest = value;
  for (int i = 1; i <= count; ++i) {
    const auto end = rest.find('\0');
    const std::string_view argument = rest.substr(0, end);
    if (end != std::string_view::npos) rest.remove_prefix(end + 1);
    const bool digits = !argument.empty() && argument.size() < 10 && argument.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits) sqlite3_bind_int64(statement, i, std::atoll(std::string(argument).c_str()));
    else if (as_blob) sqlite3_bind_blob64(statement, i, argument.data(), argument.size(), SQLITE_TRANSIENT);
    else
      sqlite3_bind_text64(statement, i, argument.data() == nullptr ? "" : argument.data(), argument.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  if (sqlite3_step(statement) != SQLITE_ROW) {
    const auto problem = connection.catalog->problem();
    if (!problem) found(std::string(function.name) + ": " + sqlite3_errmsg(connection.held), 0);
    check(*problem, 0);
    if (problem->sqlstate == "XX000") found(std::string(function.name) + ": " + problem->message, 0);
  }
  sqlite3_finalize(statement);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 4096) return 0;
  const auto types = dialect::types();
  const dialect::Oid type = types[data[0] % types.size()].oid;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  switch (data[1] % 6) {
    case 0:
    case 1: {
      const auto parsed = parse_value(bytes, type, data[1] % 6 == 0 ? Format::text : Format::binary);
      if (const auto* problem = std::get_if<SqlError>(&parsed)) check(*problem, type);
      else if (bytes.find('\0') == std::string_view::npos || !std::holds_alternative<std::string>(std::get<Stored>(parsed)))
        there_and_back(std::get<Stored>(parsed), type);
      break;
    }
    case 2: {
      // A file may hold anything.
      std::string out;
      Stored stored(std::string{bytes});
      if (bytes.size() == 8) {
        std::int64_t whole = 0;
        double real = 0;
        std::memcpy(&whole, bytes.data(), 8);
        std::memcpy(&real, bytes.data(), 8);
        for (const Stored& number : {Stored(whole), Stored(real)}) {
          if (const auto problem = append_value(out, number, type, Format::text)) check(*problem, type);
          if (const auto problem = append_value(out, number, type, Format::binary)) check(*problem, type);
        }
      }
      if (const auto problem = append_value(out, stored, type, Format::text)) check(*problem, type);
      if (const auto problem = append_value(out, stored, type, Format::binary)) check(*problem, type);
      if (const auto problem = append_value(out, Stored(Blob{std::string(bytes)}), type, Format::binary)) check(*problem, type);
      break;
    }
    case 3: (void)type_of_declaration(bytes); break;
    case 4: call(data[0], bytes, false); break;
    case 5: call(data[0], bytes, true); break;
  }
  return 0;
}
