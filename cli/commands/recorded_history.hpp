// What clients wrote down of their operations, as JSON Lines (docs/evidence/correctness.md, "Your own history"): for `verify --history`.
//
// One object a line. `client` and `op` name an operation; the lines of one operation are put together, so that a client can write what it
// is about to do before it sends it, and how that ended afterwards: kill -9 then loses an answer and nothing else.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include <termgate/testkit/history.hpp>

namespace termgate::cli {

// A line that is none; what() names it by its number.
struct BadHistory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One thread.
class RecordedHistory {
 public:
  static constexpr std::size_t line_bytes_max = std::size_t{1} << 20;

  // The next line, without its newline; an empty one is passed over. Throws BadHistory.
  void take(std::string_view line);
  // After the last line: every operation must be whole. Throws BadHistory.
  void end() const;

  const std::vector<testkit::Operation>& operations() const { return operations_; }
  std::vector<testkit::Operation>& operations() { return operations_; }
  // Streams that operations say they wrote to.
  const std::set<std::string>& streams() const { return streams_; }

 private:
  struct Known {
    std::size_t line = 0;  // of its first one
    bool kind = false, scope = false, term = false, id = false, begun = false, ended = false, outcome = false;
  };
  void put(testkit::Operation& one, Known& known, std::string_view name, const boost::json::value& value) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::size_t line_ = 0;
  std::vector<testkit::Operation> operations_;
  std::vector<Known> known_;                                            // by the same indices
  std::map<std::pair<std::string, std::string>, std::size_t> by_name_;  // client, op
  std::set<std::string> streams_;
};

}  // namespace termgate::cli
