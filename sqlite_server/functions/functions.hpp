// The functions of a session, by file: each is a body that reads its arguments and answers once.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/sqlite_server/values.hpp>

#include "catalog/state.hpp"

namespace termgate::sqlite_server {

// Thrown by a body; becomes the failure of the call.
struct CallError {
  SqlError problem;
};
[[noreturn]] inline void fail(std::string_view sqlstate, std::string message) {
  throw CallError{{std::string(sqlstate), std::move(message)}};
}

class Call {
 public:
  Call(CatalogState& of, sqlite3_context* at, int arguments, sqlite3_value** first)
      : state(of), context(at), count(arguments), values(first) {}

  bool null(int i) const { return i >= count || sqlite3_value_type(values[i]) == SQLITE_NULL; }
  int type(int i) const { return sqlite3_value_type(values[i]); }
  std::int64_t whole(int i) const { return sqlite3_value_int64(values[i]); }
  double real(int i) const { return sqlite3_value_double(values[i]); }
  // As PostgreSQL prints it: 1 for 1.0, \x… for a blob.
  std::string text(int i) const;
  std::string_view blob(int i) const;
  Stored stored(int i) const;

  void answer_null() { sqlite3_result_null(context); }
  void answer(std::int64_t number) { sqlite3_result_int64(context, number); }
  void answer(double number) { sqlite3_result_double(context, number); }
  void answer(bool truth) { sqlite3_result_int(context, truth ? 1 : 0); }
  // 54000 where it is longer than a value may be.
  void answer(std::string_view text);
  void answer(const std::string& text) { answer(std::string_view(text)); }
  void answer(const char* text) { answer(std::string_view(text)); }
  void answer_value(int i) { sqlite3_result_value(context, values[i]); }
  void answer_stored(const Stored& value);
  void answer_blob(std::string_view bytes);

  CatalogState& state;
  sqlite3_context* context;
  int count;
  sqlite3_value** values;
};

struct Body {
  std::string_view name;
  void (*run)(Call& call);
  bool nulls_too = false;  // else a NULL argument makes NULL
  bool pure = true;        // the same for the same arguments
};
std::span<const Body> cast_functions();
std::span<const Body> text_functions();
std::span<const Body> array_functions();
std::span<const Body> json_functions();
std::span<const Body> number_functions();
std::span<const Body> time_functions();
std::span<const Body> session_functions();
std::span<const Body> catalog_functions();
std::span<const Body> typed_functions();
// How many arguments one of these takes; the second is -1: any number.
std::pair<int, int> typed_arguments(std::string_view name);
// The collations and aggregates of typed statements.
void register_typed(sqlite3* connection, CatalogState& state);
// ordered.cpp
void register_ordered(sqlite3* connection, CatalogState& state, int (*compare_numeric)(std::string_view, std::string_view));
// In place of SQLite's own of the name; the number of arguments is SQLite's.
std::span<const Body> plain_functions();

// Elements of '{1,"a b",NULL}' and of int2vector's '1 2'; 22P02 where it is neither. nullopt: NULL. An inner array is an element after
// a mark that no text has, so that a text which looks like an array stays one.
using Elements = std::vector<std::optional<std::string>>;
inline constexpr char inner_mark = '\0';
inline bool is_inner_array(std::string_view element) { return element.starts_with(inner_mark); }
Elements array_elements(std::string_view array);
std::string array_literal(const Elements& elements);
std::string json_string(std::string_view text);

// What the aggregates of JSON collect.
class JsonList {
 public:
  void put(std::string_view json);
  void put(std::string_view key, std::string_view json);
  std::string text(bool object, bool binary) const;

 private:
  std::string list_;
};

// UTF-8 by code points; a byte that is none counts as one.
std::vector<std::string_view> characters(std::string_view text);

// Times: microseconds since 2000-01-01, of a date too.
struct Interval {
  std::int64_t months = 0, days = 0, micros = 0;
};
Interval parse_interval(std::string_view text);
std::string interval_text(const Interval& interval);
struct Moment {
  std::int64_t micros = 0;
  Oid type = 0;  // date, time, timestamp, timestamptz
};
// By the look of the text.
Moment parse_moment(std::string_view text);
std::string moment_text(const Moment& moment);
// A timestamptz, of microseconds since 1970-01-01 UTC.
std::string moment_of(std::int64_t since_1970);
Interval between(const Moment& later, const Moment& earlier);
Moment shifted(Moment moment, const Interval& by, int sign);
std::string time_to_char(const Moment& moment, std::string_view format);
std::string interval_to_char(const Interval& interval, std::string_view format);
std::string number_to_char(double value, std::string_view format);
std::string md5_hex(std::string_view bytes);

}  // namespace termgate::sqlite_server
