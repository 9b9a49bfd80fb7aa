// Rows between SQLite and a sink: parameters bound, values read.
#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <span>
#include <vector>

#include "hrana/port.hpp"

namespace termgate::sqlite_file {

// Throws hrana::Refused: ARGS_INVALID if a parameter has no value or there are more positional
// values than parameters, or SQLite's own code. A named value without a parameter is ignored. The
// values must outlive the statement's run.
void bind_parameters(sqlite3_stmt* statement, const hrana::Statement& given);
std::vector<hrana::Column> columns_of(sqlite3_stmt* statement);
// Reads the statement's current row. `number` counts from 1, for the message. Throws hrana::Refused
// SQLITE_MISMATCH for text that is not UTF-8.
void read_row(sqlite3_stmt* statement, std::size_t number, std::vector<hrana::ValueView>& values);

// This server refuses to send a row, for its size or its encoding. SQLite itself has not failed.
class RowRefused final : public hrana::Refused {
 public:
  using hrana::Refused::Refused;
};

// Rows that are kept back until the commit, or so that a slow client does not extend the time that
// the lock is held.
class HeldRows final : public hrana::RowSink {
 public:
  HeldRows(std::size_t bytes_max, const char* what) : bytes_max_(bytes_max), what_(what) {}
  void columns(std::span<const hrana::Column> columns) override {
    columns_.assign(columns.begin(), columns.end());
  }
  // Throws hrana::Refused RESPONSE_TOO_LARGE.
  void row(std::span<const hrana::ValueView> values) override;
  void send(hrana::RowSink& to);
  void clear() noexcept;

 private:
  const std::size_t bytes_max_;
  const char* const what_;
  std::size_t bytes_ = 0;
  std::vector<hrana::Column> columns_;
  std::vector<hrana::Value> values_;  // row after row
  std::size_t rows_ = 0;
};

}  // namespace termgate::sqlite_file
