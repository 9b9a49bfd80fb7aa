#include "commands/verify_history.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/info.hpp>

#include "input.hpp"
#include "output.hpp"
#include "commands/recorded_history.hpp"
#include "storm/sql.hpp"

namespace termgate::cli {
namespace {

using testkit::Operation;
using testkit::Row;

RecordedHistory read_history(const std::string& path) {
  RecordedHistory history;
  Input input(path);
  const Interrupts interrupts;
  try {
    std::string line;
    for (;;) {
      const Input::Next next =
          input.line(line, Database::payload_bytes_max, std::chrono::milliseconds(-1), interrupts);
      if (next == Input::Next::interrupted) throw Error("verify: interrupted");
      if (next == Input::Next::end) break;
      if (next == Input::Next::line) history.take(line);
    }
    history.end();
  } catch (const BadHistory& error) {
    throw UsageError(fmt::format("--history {}: {}", path, error.what()));
  }
  return history;
}

void add_stream(Database& database, const std::string& name, std::vector<Row>& rows) {
  const Stream stream(name);
  if (!Info(database).stream(stream)) return;
  for (std::int64_t after = 0;;) {
    const auto page = Info(database).read_stream(stream, SequenceNo(after), 1000);
    for (const StreamWrite& write : page) {
      after = write.sequence_no.value();
      rows.push_back({write.scope, write.term.value(),
                      write.write_id.value_or(fmt::format("number {} of \"{}\"", after, name)),
                      name, after});
    }
    if (page.size() < 1000) return;
  }
}

std::int64_t whole_number(const std::string& text, const char* column) {
  try {
    std::size_t read = 0;
    const std::int64_t number = std::stoll(text, &read);
    if (read == text.size()) return number;
  } catch (const std::exception&) {
    // The error is thrown below.
  }
  throw UsageError(
      fmt::format("--rows: the column {} is a whole number, not \"{}\"", column, text));
}

void add_own(const std::string& url, const std::string& query, std::vector<Row>& rows) {
  if (!storm::is_sqlite(url) && !url.starts_with("postgres"))
    throw UsageError("--rows: on sqlite:PATH and postgresql://…");
  const auto sql = storm::connect(url);
  sql->run(storm::is_sqlite(url) ? "PRAGMA query_only = 1"
                                 : "SET default_transaction_read_only = on");
  for (const auto& row : sql->run(query).rows) {
    if (row.size() != 3 && row.size() != 5)
      throw UsageError(
          fmt::format("--rows: must return three columns (id, scope, term) or five (and sequence, "
                      "place); it returns {}",
                      row.size()));
    Row one{row[1], whole_number(row[2], "term"), row[0], {}, {}};
    if (row.size() == 5 && !row[4].empty()) {
      one.sequence = std::string(1, '\0') + "rows " + row[3];  // no stream's name contains a NUL
      one.place = whole_number(row[4], "place");
    }
    rows.push_back(std::move(one));
  }
}

}  // namespace

HistoryJudgement judge_history(const Arguments& arguments, Database& database) {
  HistoryJudgement judgement;
  RecordedHistory history = read_history(arguments.text("history"));
  judgement.recorded = history.operations().size();
  std::set<std::string_view> clients;
  std::set<std::string> scopes;
  bool writes = false;
  testkit::Moment first = testkit::Moment::max();
  std::set<std::string_view> ids;
  for (const Operation& one : history.operations()) {
    clients.insert(one.client);
    scopes.insert(one.scope);
    first = std::min(first, one.invoked);
    if (one.kind != Operation::Kind::write) continue;
    writes = writes || one.rows > 0;
    ids.insert(one.id);
  }
  judgement.clients = clients.size();
  const auto own = arguments.maybe("rows");
  if (writes && !own && history.streams().empty())
    throw UsageError(
        "--history: it has writes, but neither a \"stream\" in it nor --rows names their rows");

  testkit::State state;
  for (const std::string& stream : history.streams()) add_stream(database, stream, state.rows);
  if (own) add_own(arguments.database_url(), *own, state.rows);
  // Rows of writers that are not in the history still count for the order of terms. Each gets a
  // write about which nothing else is known.
  std::map<std::string, Operation> others;
  for (Row& row : state.rows) {
    row.id = printable(row.id);  // like the history's ids, because they are printed
    scopes.insert(row.scope);
    if (ids.contains(row.id)) continue;
    ++judgement.others;
    const auto [other, fresh] = others.try_emplace(row.id);
    if (fresh) {
      other->second.outcome = testkit::Outcome::unknown;
      other->second.scope = row.scope;
      other->second.term = row.term;
      other->second.id = row.id;
      other->second.rows = 0;
      other->second.client = "(not in the history)";
      other->second.invoked = first;  // so early that nothing counts as before it
    }
    ++other->second.rows;
  }
  for (const std::string& scope : scopes) {
    const auto fence = Info(database).fence(Scope(scope));
    state.fences[scope] = fence ? fence->term : 0;
  }
  judgement.operations = std::move(history.operations());
  for (auto& [id, other] : others) judgement.operations.push_back(std::move(other));
  judgement.verdict = testkit::check(judgement.operations, state);
  // These unknown operations must not count as committed.
  judgement.verdict.unknown_committed -= others.size();
  return judgement;
}

}  // namespace termgate::cli
