// What a command prints: text for people, or with --json one document; one a line where it reads or follows a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include <termgate/text/printable.hpp>

namespace termgate::cli {

// A moment as people read it, "2026-11-21 04:00:00.123Z"; "-" for none.
std::string moment(std::int64_t ms_since_1970);
std::string moment(const std::optional<std::int64_t>& ms_since_1970);
// A length as people read it: "850 ms", "9.2 s", "3 min", "2 h".
std::string length(std::int64_t ms);

using text::escaped;
using text::is_utf8;
using text::printable;
// {"payload": "…"} where it is UTF-8, {"payload_base64": "…"} where it is not.
void put_payload(boost::json::object& object, std::string_view bytes);
boost::json::value optional_number(const std::optional<std::int64_t>& number);
boost::json::value optional_text(const std::optional<std::string>& text);

void print_line(std::string_view text);               // to standard output, and a newline
void print_message(std::string_view text);            // "termgate: " and the text to standard error; lost where that cannot be written
void print_json(const boost::json::value& document);  // likewise, on one line
// A listing: with --json one array, [] for none; else a table. Nothing is printed until the end, so that an error leaves no half of it.
class Listing {
 public:
  Listing(bool json, std::vector<std::string> head) : json_(json), head_(std::move(head)) {}
  template <class Object, class Row>
  void add(Object object, Row row) {
    if (json_) (text_ += text_.empty() ? "[" : ",\n ") += boost::json::serialize(object());
    else rows_.push_back(row());
  }
  void end();

 private:
  const bool json_;
  const std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
  std::string text_;
};
// One write of a stream, without a second copy of its payload: number, term and payload, separated by tabs; or one JSON object, in which
// put_payload's member comes after those of `before` and ahead of those of `behind`, neither of them empty.
void print_write(std::int64_t sequence_no, std::int64_t term, std::string_view payload);
void print_json_with_payload(const boost::json::object& before, std::string_view payload, const boost::json::object& behind);
void print_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

// Progress on long work: one line that is written over, on a terminal only, at most ten times a second.
class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::string_view text);

 private:
  bool shown_ = false;
  bool wanted_;
  std::int64_t last_ms_ = 0;
};

}  // namespace termgate::cli
