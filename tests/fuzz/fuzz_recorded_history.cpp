// What `verify --history` reads: JSON Lines of other people's clients. Whatever they are, there is
// a history that the checker can judge, or the number of a line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/testkit/checker.hpp>

#include "commands/recorded_history.hpp"

using namespace termgate;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  cli::RecordedHistory history;
  try {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      history.take(text.substr(at, end - at));
      at = end + 1;
    }
    history.end();
  } catch (const cli::BadHistory& error) {
    if (!std::string_view(error.what()).starts_with("line ")) std::abort();
    return 0;
  }
  for (const testkit::Operation& one : history.operations()) {
    if (one.scope.empty() || one.answered < one.invoked || one.term < 0) std::abort();
    if (one.outcome != testkit::Outcome::unknown && one.answered == testkit::Moment::max())
      std::abort();
  }
  // With the rows that it would have left, all acknowledged writes are there and none is torn.
  testkit::State state;
  for (const testkit::Operation& one : history.operations()) {
    state.fences[one.scope] = std::int64_t{1} << 62;
    if (one.kind != testkit::Operation::Kind::write || one.outcome != testkit::Outcome::committed ||
        one.rows > 100)
      continue;
    for (int row = 0; row < one.rows; ++row)
      state.rows.push_back({one.scope, one.term, one.id, {}, {}});
  }
  const testkit::Verdict verdict = testkit::check(history.operations(), state);
  for (const testkit::Breach& breach : verdict.breaches) {
    if (breach.text.empty() || testkit::describe(breach, history.operations()).empty())
      std::abort();
  }
  return 0;
}
