#include "file/rows.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>

#include <termgate/text/ascii.hpp>
#include <termgate/text/scanner.hpp>

#include "file/errors.hpp"

namespace termgate::sqlite_file {
namespace {

hrana::Refused bad_arguments(const std::string& message) { return {"ARGS_INVALID", message}; }

int bind(sqlite3_stmt* statement, int at, const hrana::Value& value) {
  return std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>) return sqlite3_bind_null(statement, at);
        else if constexpr (std::is_same_v<Held, std::int64_t>)
          return sqlite3_bind_int64(statement, at, held);
        else if constexpr (std::is_same_v<Held, double>)
          return sqlite3_bind_double(statement, at, held);
        else if constexpr (std::is_same_v<Held, std::string>)
          return sqlite3_bind_text64(statement, at, held.data(), held.size(), SQLITE_STATIC,
                                     SQLITE_UTF8);
        // An empty blob may have no address, which would bind NULL.
        else
          return sqlite3_bind_blob64(statement, at, held.bytes.c_str(), held.bytes.size(),
                                     SQLITE_STATIC);
      },
      value);
}

// Finds a parameter by its name, with or without its first character (: @ $ ?).
const hrana::Value* find_named(const hrana::Statement& given, std::string_view name) {
  const auto found = std::find_if(given.named.begin(), given.named.end(), [&](const auto& each) {
    return each.first == name || (!name.empty() && each.first == name.substr(1));
  });
  return found != given.named.end() ? &found->second : nullptr;
}

// Whether the text has a ? without a number.
bool has_plain_marker(std::string_view sql) {
  text::Scanner scanner(sql, text::Dialect::sqlite);
  text::Token token;
  while (scanner.next(token)) {
    if (token.kind != text::Token::Kind::marker) continue;
    if (scanner.rest().empty() || !text::is_digit(scanner.rest().front())) return true;
  }
  return false;
}

}  // namespace

void bind_parameters(sqlite3_stmt* statement, const hrana::Statement& given) {
  const int count = sqlite3_bind_parameter_count(statement);
  if (given.positional.size() > static_cast<std::size_t>(count))
    throw bad_arguments(fmt::format("the statement has {} parameters, and {} values were given",
                                    count, given.positional.size()));
  for (int at = 1; at <= count; ++at) {
    const char* name = sqlite3_bind_parameter_name(statement, at);
    const auto place = static_cast<std::size_t>(at) - 1;
    const hrana::Value* value = name != nullptr ? find_named(given, name) : nullptr;
    if (value == nullptr && place < given.positional.size()) value = &given.positional[place];
    // A text that only contains ?3 has three parameters for SQLite, and the first two have no name
    // and need no value.
    if (value == nullptr && name == nullptr && !has_plain_marker(given.sql)) continue;
    if (value == nullptr)
      throw bad_arguments(
          fmt::format("parameter {} has no value", name != nullptr ? name : std::to_string(at)));
    if (const int code = bind(statement, at, *value); code != SQLITE_OK)
      throw refused(code, sqlite3_errstr(code));
  }
}

std::vector<hrana::Column> columns_of(sqlite3_stmt* statement) {
  std::vector<hrana::Column> columns(static_cast<std::size_t>(sqlite3_column_count(statement)));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const char* name = sqlite3_column_name(statement, static_cast<int>(i));
    const char* type = sqlite3_column_decltype(statement, static_cast<int>(i));
    if (name != nullptr) columns[i].name = name;
    if (type != nullptr) columns[i].declared_type = type;
    if (!is_utf8(columns[i].name) || (type != nullptr && !is_utf8(type)))
      throw RowRefused(
          "SQLITE_MISMATCH",
          fmt::format("the name or type of column {} is not UTF-8: give it another with AS", i + 1),
          "SQLITE_MISMATCH");
  }
  return columns;
}

void read_row(sqlite3_stmt* statement, std::size_t number, std::vector<hrana::ValueView>& values) {
  values.clear();
  const int count = sqlite3_column_count(statement);
  for (int i = 0; i < count; ++i) {
    const auto bytes = [&](const void* data) {
      const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
      return data != nullptr ? std::string_view(static_cast<const char*>(data), size)
                             : std::string_view();
    };
    switch (sqlite3_column_type(statement, i)) {
      case SQLITE_INTEGER:
        values.emplace_back(static_cast<std::int64_t>(sqlite3_column_int64(statement, i)));
        break;
      case SQLITE_FLOAT: values.emplace_back(sqlite3_column_double(statement, i)); break;
      case SQLITE_BLOB:
        values.emplace_back(hrana::BlobView{bytes(sqlite3_column_blob(statement, i))});
        break;
      case SQLITE_TEXT: {
        const unsigned char* text = sqlite3_column_text(statement, i);
        if (text == nullptr) throw hrana::Refused("SQLITE_NOMEM", "out of memory", "SQLITE_NOMEM");
        const std::string_view view = bytes(text);
        if (!is_utf8(view)) {
          throw RowRefused("SQLITE_MISMATCH",
                           fmt::format("the text in row {}, column {} ({}) is not UTF-8, so JSON "
                                       "cannot carry it: select CAST(… AS BLOB)",
                                       number, i + 1, sqlite3_column_name(statement, i)),
                           "SQLITE_MISMATCH");
        }
        values.emplace_back(view);
        break;
      }
      default: values.emplace_back(std::monostate()); break;
    }
  }
}

void HeldRows::row(std::span<const hrana::ValueView> values) {
  for (const hrana::ValueView& each : values) {
    bytes_ += sizeof(hrana::Value);
    if (const auto* text = std::get_if<std::string_view>(&each)) bytes_ += text->size();
    if (const auto* blob = std::get_if<hrana::BlobView>(&each)) bytes_ += blob->bytes.size();
  }
  if (bytes_ > bytes_max_)
    throw RowRefused("RESPONSE_TOO_LARGE",
                     fmt::format("the rows of {} may have {} bytes together: they wait for its end",
                                 what_, bytes_max_));
  for (const hrana::ValueView& each : values) {
    std::visit(
        [&](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, std::string_view>)
            values_.emplace_back(std::string(held));
          else if constexpr (std::is_same_v<Held, hrana::BlobView>)
            values_.emplace_back(hrana::Blob{std::string(held.bytes)});
          else values_.emplace_back(held);
        },
        each);
  }
  ++rows_;
}

void HeldRows::send(hrana::RowSink& to) {
  to.columns(columns_);
  std::vector<hrana::ValueView> row;
  for (std::size_t i = 0; i < rows_; ++i) {
    row.clear();
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      std::visit(
          [&](const auto& held) {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::string>)
              row.emplace_back(std::string_view(held));
            else if constexpr (std::is_same_v<Held, hrana::Blob>)
              row.emplace_back(hrana::BlobView{held.bytes});
            else row.emplace_back(held);
          },
          values_[i * columns_.size() + column]);
    }
    to.row(row);
  }
}

void HeldRows::clear() noexcept {
  bytes_ = rows_ = 0;
  columns_.clear();
  values_.clear();
}

}  // namespace termgate::sqlite_file
