#include "session/copy_format.hpp"

#include <algorithm>

#include "session/pg_error.hpp"

namespace termgate::sqlite_server {

using CopyFormat = dialect::Copy::Format;

namespace {

constexpr std::string_view signature("PGCOPY\n\377\r\n\0", 11);

[[noreturn]] void malformed(const std::string& message) { throw PgException("22P04", message); }

bool listed(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int digit(char c, int base) {
  const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
  return value < base ? value : -1;
}

std::uint32_t number(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

void append_int(std::string& out, std::uint32_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

}  // namespace

void CopyReader::give(Row& row, const std::function<void(Row&)>& take) {
  if (std::exchange(header_due_, false)) {
    if (!how_.header_match) return;
    bool same = row.size() == columns_.size();
    for (std::size_t i = 0; same && i < row.size(); ++i) same = row[i] == columns_[i];
    if (!same) malformed("column names in the header line do not match those of the table");
    return;
  }
  ++line_;
  if (row.size() < columns_.size()) malformed("missing data for column \"" + columns_[row.size()] + "\"");
  if (row.size() > columns_.size()) malformed("extra data after last expected column");
  take(row);
}

void CopyReader::text_line(std::string_view line, const std::function<void(Row&)>& take) {
  Row row;
  std::string field;
  bool raw_null = false;
  std::size_t begin = 0;
  const auto end_field = [&](std::size_t at) {
    // What NULL looks like is compared before backslashes are read.
    raw_null = line.substr(begin, at - begin) == how_.null;
    if (raw_null) row.emplace_back();
    else row.emplace_back(std::move(field));
    field.clear();
    begin = at + 1;
  };
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    if (c == how_.delimiter) {
      end_field(at);
    } else if (c != '\\' || at + 1 == line.size()) {
      field += c;
    } else {
      const char next = line[++at];
      switch (next) {
        case 'b': field += '\b'; break;
        case 'f': field += '\f'; break;
        case 'n': field += '\n'; break;
        case 'r': field += '\r'; break;
        case 't': field += '\t'; break;
        case 'v': field += '\v'; break;
        case 'x':
          if (at + 1 < line.size() && digit(line[at + 1], 16) >= 0) {
            int value = digit(line[++at], 16);
            if (at + 1 < line.size() && digit(line[at + 1], 16) >= 0) value = value * 16 + digit(line[++at], 16);
            field += static_cast<char>(value);
          } else {
            field += 'x';
          }
          break;
        default:
          if (digit(next, 8) >= 0) {
            int value = digit(next, 8);
            for (int i = 0; i < 2 && at + 1 < line.size() && digit(line[at + 1], 8) >= 0; ++i) value = value * 8 + digit(line[++at], 8);
            field += static_cast<char>(value);
          } else {
            field += next;
          }
      }
    }
  }
  end_field(line.size());
  give(row, take);
}

// True when a record was read from held_.
bool CopyReader::csv_record(bool at_end, const std::function<void(Row&)>& take) {
  Row row;
  std::string field;
  bool quoted = false, inside = false;
  const auto end_field = [&] {
    const std::string& name = row.size() < columns_.size() ? columns_[row.size()] : how_.null;
    const bool known = row.size() < columns_.size();
    bool null = field == how_.null && !quoted;
    if (known && null && listed(how_.force_not_null, name)) null = false;
    if (known && quoted && field == how_.null && listed(how_.force_null, name)) null = true;
    if (null) row.emplace_back();
    else row.emplace_back(std::move(field));
    field.clear();
    quoted = false;
  };
  for (std::size_t at = 0; at < held_.size(); ++at) {
    const char c = held_[at];
    if (inside) {
      if (c == how_.escape && at + 1 == held_.size() && !at_end) return false;
      if (c == how_.escape && at + 1 < held_.size() && (held_[at + 1] == how_.quote || held_[at + 1] == how_.escape)) field += held_[++at];
      else if (c == how_.quote) inside = false;
      else field += c;
    } else if (c == how_.quote) {
      inside = quoted = true;
    } else if (c == how_.delimiter) {
      end_field();
    } else if (c == '\n' || c == '\r') {
      if (c == '\r' && at + 1 == held_.size() && !at_end) return false;
      const std::size_t next = at + (c == '\r' && at + 1 < held_.size() && held_[at + 1] == '\n' ? 2 : 1);
      const bool the_end = row.empty() && !quoted && field == "\\.";
      end_field();
      held_.erase(0, next);
      if (the_end) ended_ = true;
      else give(row, take);
      return true;
    } else {
      field += c;
    }
  }
  if (!at_end) return false;
  if (inside) malformed("unterminated CSV quoted field");
  if (held_.empty()) return false;
  const bool the_end = row.empty() && !quoted && field == "\\.";
  end_field();
  held_.clear();
  if (the_end) ended_ = true;
  else give(row, take);
  return true;
}

bool CopyReader::binary_row(const std::function<void(Row&)>& take) {
  if (!begun_) {
    if (held_.size() < signature.size() + 8) return false;
    if (!held_.starts_with(signature)) malformed("COPY file signature not recognized");
    const std::uint32_t more = number(std::string_view(held_).substr(signature.size() + 4, 4));
    if (more > line_bytes_max) malformed("invalid COPY file header (wrong length)");
    if (held_.size() < signature.size() + 8 + more) return false;
    held_.erase(0, signature.size() + 8 + more);
    begun_ = true;
    header_due_ = false;
  }
  if (held_.size() < 2) return false;
  const auto count = static_cast<std::int16_t>(number(std::string_view(held_).substr(0, 2)));
  if (count == -1) {
    ended_ = true;
    return true;
  }
  if (count < 0 || static_cast<std::size_t>(count) != columns_.size())
    malformed("row field count is " + std::to_string(count) + ", expected " + std::to_string(columns_.size()));
  Row row;
  std::size_t at = 2;
  for (int i = 0; i < count; ++i) {
    if (held_.size() - at < 4) return false;
    const auto size = static_cast<std::int32_t>(number(std::string_view(held_).substr(at, 4)));
    at += 4;
    if (size == -1) {
      row.emplace_back();
      continue;
    }
    if (size < 0 || static_cast<std::size_t>(size) > line_bytes_max) malformed("invalid field size");
    if (held_.size() - at < static_cast<std::size_t>(size)) return false;
    row.emplace_back(held_.substr(at, static_cast<std::size_t>(size)));
    at += static_cast<std::size_t>(size);
  }
  held_.erase(0, at);
  give(row, take);
  return true;
}

void CopyReader::feed(std::string_view bytes, const std::function<void(Row&)>& take) {
  if (ended_) return;
  held_ += bytes;
  if (how_.format == CopyFormat::binary) {
    while (!ended_ && binary_row(take)) {}
  } else if (how_.format == CopyFormat::csv) {
    while (!ended_ && csv_record(false, take)) {}
  } else {
    std::size_t begin = 0;
    for (std::size_t end = held_.find('\n'); end != std::string::npos && !ended_; end = held_.find('\n', begin)) {
      std::string_view line = std::string_view(held_).substr(begin, end - begin);
      begin = end + 1;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line == "\\.") ended_ = true;
      else text_line(line, take);
    }
    held_.erase(0, begin);
  }
  if (held_.size() > line_bytes_max) malformed("a line of COPY may have " + std::to_string(line_bytes_max) + " bytes");
}

void CopyReader::finish(const std::function<void(Row&)>& take) {
  if (ended_) return;
  if (how_.format == CopyFormat::binary) {
    if (!held_.empty() || !begun_) malformed("unexpected EOF in COPY data");
  } else if (how_.format == CopyFormat::csv) {
    while (!ended_ && csv_record(true, take)) {}
  } else if (!held_.empty()) {
    std::string_view line = held_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line != "\\.") text_line(line, take);
  }
}

void append_copy_row(std::string& out, const dialect::Copy& how, const std::vector<std::string>& columns, const CopyReader::Row& row) {
  if (how.format == CopyFormat::binary) {
    append_int(out, static_cast<std::uint32_t>(row.size()), 2);
    for (const auto& field : row) {
      append_int(out, field ? static_cast<std::uint32_t>(field->size()) : 0xffffffff, 4);
      if (field) out += *field;
    }
    return;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) out += how.delimiter;
    if (!row[i]) {
      out += how.null;
      continue;
    }
    const std::string& field = *row[i];
    if (how.format == CopyFormat::text) {
      for (const char c : field) {
        switch (c) {
          case '\\': out += "\\\\"; break;
          case '\b': out += "\\b"; break;
          case '\f': out += "\\f"; break;
          case '\n': out += "\\n"; break;
          case '\r': out += "\\r"; break;
          case '\t': out += "\\t"; break;
          case '\v': out += "\\v"; break;
          default:
            if (c == how.delimiter) out += '\\';
            out += c;
        }
      }
      continue;
    }
    const bool forced = how.force_quote && (how.force_quote->empty() || (i < columns.size() && listed(*how.force_quote, columns[i])));
    const bool needs = forced || field == how.null || field == "\\." ||
                       field.find_first_of(std::string("\r\n") + how.delimiter + how.quote) != std::string::npos;
    if (!needs) {
      out += field;
      continue;
    }
    out += how.quote;
    for (const char c : field) {
      if (c == how.quote || c == how.escape) out += how.escape;
      out += c;
    }
    out += how.quote;
  }
  out += '\n';
}

void append_copy_header(std::string& out, const dialect::Copy& how, const std::vector<std::string>& columns) {
  if (how.format == CopyFormat::binary) {
    out += signature;
    out.append(8, '\0');
  } else if (how.header) {
    CopyReader::Row names(columns.begin(), columns.end());
    dialect::Copy plain = how;
    plain.force_quote.reset();
    append_copy_row(out, plain, columns, names);
  }
}

void append_copy_trailer(std::string& out, const dialect::Copy& how) {
  if (how.format == CopyFormat::binary) out.append(2, '\377');
}

}  // namespace termgate::sqlite_server
