// The three formats of COPY (PostgreSQL documentation, "COPY", File Formats): bytes in pieces of any size into rows of fields, and
// fields into lines. Pure; no I/O. Throws PgException 22P04 for what is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/dialect/utility.hpp>

namespace termgate::sqlite_server {

class CopyReader {
 public:
  using Row = std::vector<std::optional<std::string>>;
  // Where `header_match`, the first line must have these names.
  CopyReader(const dialect::Copy& how, std::vector<std::string> columns)
      : how_(how), columns_(std::move(columns)), header_due_(how.header || how.header_match) {}

  void feed(std::string_view bytes, const std::function<void(Row&)>& take);
  void finish(const std::function<void(Row&)>& take);

  static constexpr std::size_t line_bytes_max = 64u << 20;

 private:
  void text_line(std::string_view line, const std::function<void(Row&)>& take);
  bool csv_record(bool at_end, const std::function<void(Row&)>& take);
  bool binary_row(const std::function<void(Row&)>& take);
  void give(Row& row, const std::function<void(Row&)>& take);

  dialect::Copy how_;
  std::vector<std::string> columns_;
  std::string held_;
  bool header_due_;
  bool begun_ = false;  // binary: the signature is read
  bool ended_ = false;  // \. or the binary trailer
  std::size_t line_ = 0;
};

// One line with its end; binary: one tuple, values in their binary form.
void append_copy_row(std::string& out, const dialect::Copy& how, const std::vector<std::string>& columns, const CopyReader::Row& row);
void append_copy_header(std::string& out, const dialect::Copy& how, const std::vector<std::string>& columns);
void append_copy_trailer(std::string& out, const dialect::Copy& how);

}  // namespace termgate::sqlite_server
