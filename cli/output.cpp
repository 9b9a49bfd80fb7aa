#include "output.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include <termgate/text/printable.hpp>

namespace termgate::cli {
namespace {

// RFC 4648, section 4, with padding.
std::string base64(std::string_view bytes) {
  static constexpr char alphabet[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? alphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

}  // namespace

std::string moment(std::int64_t ms) {
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     ms % 1000);
}

std::string moment(const std::optional<std::int64_t>& ms) { return ms ? moment(*ms) : "-"; }

std::string length(std::int64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 120'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (ms < 7'200'000) return fmt::format("{} min", ms / 60'000);
  return fmt::format("{} h", ms / 3'600'000);
}

void put_payload(boost::json::object& object, std::string_view bytes) {
  if (is_utf8(bytes)) object["payload"] = bytes;
  else object["payload_base64"] = base64(bytes);
}

boost::json::value optional_number(const std::optional<std::int64_t>& number) {
  return number ? boost::json::value(*number) : boost::json::value(nullptr);
}

boost::json::value optional_text(const std::optional<std::string>& text) {
  return text ? boost::json::value(*text) : boost::json::value(nullptr);
}

void print_line(std::string_view text) {
  write_out(text);
  std::fputc('\n', stdout);
}

void print_message(std::string_view text) {
  const std::string line = fmt::format("termgate: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void print_json(const boost::json::value& document) {
  print_line(boost::json::serialize(document));
}

void Listing::end() {
  if (json_) print_line(text_.empty() ? "[]" : text_ + "]");
  else print_table(head_, rows_);
}

void print_write(std::int64_t sequence_no, std::int64_t term, std::string_view payload) {
  write_out(fmt::format("{}\t{}\t", sequence_no, term));
  text::escape(payload, true, write_out);
  std::fputc('\n', stdout);
}

void print_json_with_payload(const boost::json::object& before, std::string_view payload,
                             const boost::json::object& behind) {
  std::string text = boost::json::serialize(before);
  text.back() = ',';
  if (is_utf8(payload)) {
    write_out(text += "\"payload\":");
    boost::json::serializer serializer;
    std::array<char, 16384> part;
    for (serializer.reset(payload); !serializer.done();)
      write_out(serializer.read(part.data(), part.size()));
  } else {
    write_out(text += "\"payload_base64\":\"");
    constexpr std::size_t group = 3 * 4096;  // a multiple of three bytes needs no padding
    for (std::size_t at = 0; at < payload.size(); at += group)
      write_out(base64(payload.substr(at, group)));
    std::fputc('"', stdout);
  }
  text = boost::json::serialize(behind);
  text.front() = ',';
  print_line(text);
}

void print_table(const std::vector<std::string>& head,
                 const std::vector<std::vector<std::string>>& rows) {
  auto width = [](const std::string& text) {  // code points, which nearly equal columns
    std::size_t count = 0;
    for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    return count;
  };
  // A column is at most this wide, so that one name of 200 characters does not push the other
  // columns off the screen.
  constexpr std::size_t widest = 48;
  std::vector<std::size_t> widths;
  for (const auto& cell : head) widths.push_back(width(cell));
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], std::min(width(row[column]), widest));
  }
  auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size())
        line +=
            std::string(std::max(widths[column], width(row[column])) - width(row[column]) + 2, ' ');
    }
    print_line(line);
  };
  print_row(head);
  for (const auto& row : rows) print_row(row);
}

Progress::Progress(bool wanted) : wanted_(wanted && isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::string_view text) {
  if (!wanted_) return;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
  if (shown_ && now - last_ms_ < 100) return;
  last_ms_ = now;
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
}

}  // namespace termgate::cli
