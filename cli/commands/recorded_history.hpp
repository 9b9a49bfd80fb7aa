// A history that clients recorded of their operations, as JSON Lines (docs/evidence/correctness.md,
// "Your own history"); `verify --history` reads it.
//
// Each line is one object. `client` and `op` identify an operation, and all its lines are merged.
// So a client can record what it is about to do before it sends it, and the outcome afterwards;
// kill -9 then loses only an answer.
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

// A line that is not valid; what() begins with its number.
struct BadHistory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The operations so far. One thread.
class RecordedHistory {
 public:
  static constexpr std::size_t line_bytes_max = std::size_t{1} << 20;

  // Takes the next line, without its newline; ignores an empty one. Throws BadHistory.
  void take(std::string_view line);
  // Call it after the last line. Throws BadHistory if an operation is incomplete.
  void end() const;

  const std::vector<testkit::Operation>& operations() const { return operations_; }
  std::vector<testkit::Operation>& operations() { return operations_; }
  // Streams to which the recorded operations wrote.
  const std::set<std::string>& streams() const { return streams_; }

 private:
  struct Known {
    std::size_t line = 0;  // the operation's first line
    bool kind = false, scope = false, term = false, id = false, begun = false, ended = false,
         outcome = false;
  };
  void put(testkit::Operation& one, Known& known, std::string_view name,
           const boost::json::value& value) const;
  [[noreturn]] void fail(const std::string& what) const;

  std::size_t line_ = 0;
  std::vector<testkit::Operation> operations_;
  std::vector<Known> known_;  // known_[i] belongs to operations_[i]
  std::map<std::pair<std::string, std::string>, std::size_t>
      by_name_;  // index of an operation, by client and op
  std::set<std::string> streams_;
};

}  // namespace termgate::cli
