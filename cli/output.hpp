// What a command prints: text, or with --json one document. A command that reads, follows or
// watches something prints one document a line.
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

// A time for people: "2026-11-21 04:00:00.123Z"; "-" if there is none.
std::string moment(std::int64_t ms_since_1970);
std::string moment(const std::optional<std::int64_t>& ms_since_1970);
// A duration for people: "850 ms", "9.2 s", "3 min", "2 h".
std::string length(std::int64_t ms);

using text::escaped;
using text::is_utf8;
using text::printable;
// Adds {"payload": "…"} if the bytes are UTF-8, else {"payload_base64": "…"}.
void put_payload(boost::json::object& object, std::string_view bytes);
boost::json::value optional_number(const std::optional<std::int64_t>& number);
boost::json::value optional_text(const std::optional<std::string>& text);

void print_line(std::string_view text);  // to standard output, with a newline
// Writes "termgate: " and the text to standard error. Ignores failures: there is nowhere to report
// them.
void print_message(std::string_view text);
void print_json(const boost::json::value& document);  // to standard output, on one line
// A listing: with --json one array ([] if it is empty), otherwise a table. It prints only at the
// end, so that an error cannot leave half a listing behind.
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
// These two print one write of a stream without copying its payload. print_write() prints number,
// term and payload, separated by tabs. print_json_with_payload() prints one JSON object: the
// members of `before`, put_payload's member, the members of `behind`. Neither `before` nor `behind`
// may be empty.
void print_write(std::int64_t sequence_no, std::int64_t term, std::string_view payload);
void print_json_with_payload(const boost::json::object& before, std::string_view payload,
                             const boost::json::object& behind);
void print_table(const std::vector<std::string>& head,
                 const std::vector<std::vector<std::string>>& rows);

// Progress of long work: one line that is overwritten in place, only on a terminal, at most ten
// times a second.
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
