// SQL Server takes no array as a parameter, and its drivers copy a large value whole. So batches
// and large payloads go into a temporary table of the session first, in pieces, and the call reads
// them from there (sql/sqlserver, pieces).
#include "payload_pieces.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail::odbc {
namespace {

// Created by a separate batch: a table that is created inside a prepared statement ends with it.
constexpr std::string_view batch_table =
    "IF OBJECT_ID(N'tempdb..#termgate_batch') IS NULL CREATE TABLE #termgate_batch (position int "
    "NOT NULL PRIMARY KEY, payload "
    "varbinary(max) NULL, bytes bigint NULL, "
    "write_id uniqueidentifier NULL) ELSE DELETE FROM #termgate_batch";

}  // namespace

// $1 must not be found in $10.
std::string with_parameter(std::string_view text, std::size_t number, std::string_view instead) {
  const std::string name = fmt::format("${}", number);
  std::string result;
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name)) {
    const std::size_t end = at + name.size();
    const bool longer = end < text.size() && text[end] >= '0' && text[end] <= '9';
    result += text.substr(0, at);
    result += longer ? text.substr(at, name.size()) : instead;
    text.remove_prefix(end);
  }
  return result.append(text);
}

void bring_pieces(Connection& connection, std::string_view payload, const NextLimit& limit) {
  connection.run(sql::sqlserver_pieces::begin, limit());
  const Marked add = marked(sql::sqlserver_pieces::add, 3, Family::sqlserver);
  std::int64_t position = 0;
  for (std::string_view left = payload; !left.empty();) {
    const std::string_view piece = left.substr(0, payload_piece_bytes);
    const Value values[] = {Value(position++), Value(BytesView{piece}), Value(piece.size())};
    connection.execute(add, values, false, limit());
    left.remove_prefix(piece.size());
  }
}

std::string joining_text(std::size_t bytes_parameter) {
  return with_parameter(sql::sqlserver_pieces::join, 1, fmt::format("${}", bytes_parameter));
}

void bring_batch(Connection& connection, std::span<const std::string> payloads,
                 const TextArray* ids, const NextLimit& limit) {
  connection.run(batch_table, limit());
  const Marked insert = marked(
      "INSERT INTO #termgate_batch (position, payload, bytes, write_id) VALUES ($1, $2, $3, $4)", 4,
      Family::sqlserver);
  // One group of rows at a time, because they are copied into arrays.
  for (std::size_t row = 0; row < payloads.size();) {
    std::vector<ArrayColumn> columns(4);
    columns[1].binary = true;
    for (std::size_t bytes = 0; row < payloads.size() && bytes < payload_piece_bytes; ++row) {
      const std::string& payload = payloads[row];
      const bool later = payload.size() > payload_piece_bytes;
      columns[0].values.emplace_back(std::to_string(row));
      columns[1].values.push_back(
          later ? std::string()
                : payload);  // empty bytes instead of NULL, which the driver would send as text
      columns[2].values.emplace_back(std::to_string(payload.size()));
      columns[3].values.push_back(ids == nullptr ? std::nullopt : (*ids)[row]);
      bytes += later ? 0 : payload.size();
    }
    connection.execute_rows(insert, columns, limit());
  }
  const Marked put =
      marked(joining_text(1) +
                 "\nUPDATE #termgate_batch SET payload = @termgate_payload WHERE position = $2",
             2, Family::sqlserver);
  for (std::size_t row = 0; row < payloads.size(); ++row) {
    if (payloads[row].size() <= payload_piece_bytes) continue;
    bring_pieces(connection, payloads[row], limit);
    const Value values[] = {Value(payloads[row].size()), Value(row)};
    connection.execute(put, values, false, limit());
  }
}

// Outside a transaction nothing else removes what a failed call has left. A session that cannot
// remove it is closed, so that the next call finds nothing.
void clear_pieces(Connection& connection, milliseconds limit) noexcept {
  try {
    if (connection.broken()) return;
    connection.run(sql::sqlserver_pieces::clear, limit);
  } catch (...) { connection.give_up(); }
}

}  // namespace detail::odbc
}  // namespace v0
}  // namespace termgate
