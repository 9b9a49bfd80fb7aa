// append, read, exec, outcome, prune, stream …: fenced writes, and what became of them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "command.hpp"
#include "input.hpp"
#include "output.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

// A batch of `--lines` is bounded both in writes and in bytes, so that memory stays small for any
// input.
constexpr std::size_t batch_writes_max = 1000;
constexpr std::size_t batch_bytes_max = std::size_t{1} << 20;
// A page of `read` is bounded in both as well.
constexpr int page_writes_max = 500;
constexpr std::size_t page_bytes = std::size_t{4} << 20;

// A batch is sent when it is full, when no line has come for `quiet`, and at the latest when its
// first line is `age_max` old.
constexpr std::chrono::milliseconds quiet{100};
constexpr std::chrono::milliseconds age_max{1000};

AppendOptions append_options(const Arguments& arguments) {
  AppendOptions options;
  if (auto scope = arguments.maybe("scope")) options.scope = Scope(*scope);
  if (arguments.maybe("expect"))
    options.expected = SequenceNo(arguments.integer("expect", 0, Term::max_value));
  if (auto id = arguments.maybe("write-id")) options.write_id = WriteId(*id);
  return options;
}

int append_lines(const Arguments& arguments, Database& database, Input& input, const Stream& stream,
                 Term term, AppendOptions options) {
  using Clock = std::chrono::steady_clock;
  // The first Ctrl-C ends the command after the batch that is being sent, and drops one that is
  // being collected; a second one ends it at once, and an open batch is rolled back.
  const Interrupts interrupts;
  Progress progress(!arguments.json());
  std::vector<std::string> batch;
  std::optional<std::string> held;  // a line for which the last batch had no room
  std::int64_t written = 0;
  std::int64_t last = 0;
  std::string line;
  auto state = Input::Next::line;
  while (state != Input::Next::end && state != Input::Next::interrupted) {
    batch.clear();
    std::size_t bytes = 0;
    auto began = Clock::now();
    try {
      while (batch.size() < batch_writes_max && bytes < batch_bytes_max &&
             (batch.empty() || Clock::now() - began < age_max)) {
        if (held) {
          line = *std::exchange(held, std::nullopt);
        } else {
          state = input.line(line, database.payload_limit(),
                             batch.empty() ? std::chrono::milliseconds(-1) : quiet, interrupts);
          if (state != Input::Next::line) break;
        }
        if (batch.empty()) began = Clock::now();
        if (!batch.empty() && bytes + line.size() > batch_bytes_max) {
          held = std::move(line);
          break;
        }
        bytes += line.size();
        batch.push_back(std::move(line));
      }
      if (state == Input::Next::interrupted) break;
      if (batch.empty()) continue;
      last = database.append_many(stream, term, batch, options).value();
    } catch (const std::exception& error) {
      const bool unknown = dynamic_cast<const OutcomeUnknown*>(&error) != nullptr;
      if (written > 0)
        fmt::print(stderr, "termgate: {} lines were written before, up to number {}; {}\n", written,
                   last,
                   unknown ? "the outcome of the batch after them is unknown"
                           : "the batch after them was not");
      else fmt::print(stderr, "termgate: no line was written before\n");
      throw;
    }
    // Only the first batch uses --expect as given; each later one must follow the one before.
    if (options.expected) options.expected = SequenceNo(last);
    written += static_cast<std::int64_t>(batch.size());
    progress.show(fmt::format("{} lines written", written));
  }
  const bool interrupted = state == Input::Next::interrupted;
  if (arguments.json())
    print_json({{"written", written}, {"last", last}, {"interrupted", interrupted}});
  else if (written > 0) print_line(fmt::format("{}", last));
  if (interrupted) {
    fmt::print(stderr,
               "termgate: interrupted; {} lines were written, up to number {}, the rest was not\n",
               written, last);
    return Exit::failed;
  }
  return Exit::done;
}

int run_append(const Arguments& arguments) {
  const Stream stream(arguments.text("stream"));
  const Term term = arguments.term();
  const AppendOptions options = append_options(arguments);
  const bool lines = arguments.flag("lines");
  const auto payload = arguments.maybe("payload");
  if (payload && (lines || arguments.maybe("file")))
    throw UsageError("give --payload alone, without --file or --lines");
  if (lines && options.write_id) throw UsageError("--write-id names one write; --lines makes many");
  std::optional<Input> input;
  if (!payload) input.emplace(arguments.text_or("file", "-"));
  Database database = arguments.open();
  if (lines) return append_lines(arguments, database, *input, stream, term, options);
  const SequenceNo number = database.append(
      stream, term, payload ? *payload : input->all(database.payload_limit()), options);
  if (arguments.json())
    print_json(
        {{"stream", stream.name()}, {"sequence_no", number.value()}, {"term", term.value()}});
  else print_line(fmt::format("{}", number.value()));
  return Exit::done;
}

void print_in_form(const StreamWrite& write, bool json, bool raw) {
  if (json) {
    print_json_with_payload(
        {{"sequence_no", write.sequence_no.value()},
         {"scope", write.scope},
         {"term", write.term.value()}},
        write.payload,
        {{"created_at", moment(write.created_at_ms)}, {"write_id", optional_text(write.write_id)}});
  } else if (raw) {
    print_line(write.payload);
  } else {
    print_write(write.sequence_no.value(), write.term.value(), write.payload);
  }
}

int run_read(const Arguments& arguments) {
  const Stream stream(arguments.text("stream"));
  std::int64_t after = arguments.integer_or("from", 1, 1, Term::max_value) - 1;
  const bool follow = arguments.flag("follow");
  const auto pause = arguments.duration_or("poll", std::chrono::milliseconds(200));
  Database database = arguments.open();
  if (!follow && !Info(database).stream(stream)) {
    fmt::print(stderr, "termgate: there is no stream \"{}\" in this database\n",
               printable(stream.name()));
    return Exit::failed;
  }
  // A page is also limited in bytes, so it may be short without being the last. Only an empty page
  // means that there is no more.
  for (;;) {
    const auto page =
        Info(database).read_stream(stream, SequenceNo(after), page_writes_max, page_bytes);
    for (const StreamWrite& write : page) {
      print_in_form(write, arguments.json(), arguments.flag("raw"));
      after = write.sequence_no.value();
    }
    if (std::ferror(stdout)) return Exit::failed;
    if (!page.empty()) continue;
    if (!follow) return Exit::done;
    if (std::fflush(stdout) != 0) return Exit::failed;
    std::this_thread::sleep_for(pause);
  }
}

boost::json::value json_of(const Value& value) {
  struct {
    boost::json::value operator()(std::monostate) const { return nullptr; }
    boost::json::value operator()(bool held) const { return held; }
    boost::json::value operator()(std::int64_t held) const { return held; }
    boost::json::value operator()(double held) const {
      if (std::isfinite(held)) return held;
      // JSON has no numbers for these.
      return std::isnan(held) ? "NaN" : held > 0 ? "Infinity" : "-Infinity";
    }
    // SQLite may store any bytes as text.
    boost::json::value operator()(const std::string& held) const {
      if (is_utf8(held)) return boost::json::value(held);
      return (*this)(Bytes{held});
    }
    boost::json::value operator()(const Bytes& held) const {
      boost::json::object object;
      put_payload(object, held.data);
      return object;
    }
    boost::json::value operator()(const BytesArray&) const { return nullptr; }
    boost::json::value operator()(const BytesView&) const { return nullptr; }
    boost::json::value operator()(const BytesArrayView&) const { return nullptr; }
    boost::json::value operator()(const TextArray&) const { return nullptr; }
  } convert;
  return std::visit(convert, value.variant());
}

// Column names as keys of a JSON object: valid UTF-8 and unique, so that no column hides another.
std::vector<std::string> json_keys(const std::vector<std::string>& columns) {
  std::vector<std::string> keys;
  for (const std::string& column : columns)
    keys.push_back(is_utf8(column) ? column : printable(column));
  const std::set<std::string> names(keys.begin(), keys.end());
  std::set<std::string> given;
  for (std::string& key : keys) {
    const std::string name = key;
    // The name with its suffix must not equal another column's own name.
    for (int number = 2; given.count(key) != 0 || (key != name && names.count(key) != 0); ++number)
      key = fmt::format("{}_{}", name, number);
    given.insert(key);
  }
  return keys;
}

int run_exec(const Arguments& arguments) {
  const Scope scope = arguments.scope();
  const Term term = arguments.term();
  const auto statements = arguments.list("sql");
  if (statements.empty())
    throw UsageError("which statement? termgate exec --scope X --term T 'UPDATE …'");
  WriteOptions options;
  if (auto id = arguments.maybe("write-id")) options.write_id = WriteId(*id);
  options.timeout = arguments.maybe_duration("timeout");
  Database database = arguments.open();
  std::vector<Rows> results;
  const Wrote wrote = database.write(
      scope, term,
      [&](Transaction& transaction) {
        results.clear();
        for (const std::string& statement : statements)
          results.push_back(transaction.exec(statement));
      },
      options);
  if (arguments.json()) {
    boost::json::array list;
    for (const Rows& rows : results) {
      boost::json::array converted;
      const auto keys = json_keys(rows.columns);
      for (const Row& row : rows.rows) {
        boost::json::object object;
        for (std::size_t column = 0; column < row.size(); ++column)
          object[keys[column]] = json_of(row[column]);
        converted.push_back(std::move(object));
      }
      list.push_back({{"affected", rows.affected}, {"rows", std::move(converted)}});
    }
    print_json(
        {{"committed", true}, {"before", wrote == Wrote::before}, {"results", std::move(list)}});
    return Exit::done;
  }
  if (wrote == Wrote::before)
    print_line("this write id has committed before; nothing was written again");
  for (const Rows& rows : results) {
    if (rows.columns.empty()) {
      print_line(fmt::format("{} rows", rows.affected));
      continue;
    }
    std::vector<std::vector<std::string>> table;
    for (const Row& row : rows.rows) {
      std::vector<std::string> cells;
      for (const Value& value : row)
        cells.push_back(value.is_null() ? "" : printable(value.as_text()));
      table.push_back(std::move(cells));
    }
    std::vector<std::string> head;
    for (const std::string& column : rows.columns) head.push_back(printable(column));
    print_table(head, table);
  }
  return Exit::done;
}

int run_prune(const Arguments& arguments) {
  Database database = arguments.open();
  std::int64_t pruned = 0;
  if (arguments.flag("history")) {
    pruned = Operator(database).prune_history(
        arguments.duration_or("older-than", std::chrono::hours(24 * 90)));
  } else {
    const Stream stream(arguments.text("stream"));
    if (arguments.maybe("keep-last").has_value() == arguments.maybe("before").has_value())
      throw UsageError("give --keep-last N or --before SEQUENCE");
    const std::int64_t number = arguments.maybe("before")
                                    ? arguments.integer("before", 1, Term::max_value)
                                    : arguments.integer("keep-last", 0, Term::max_value);
    const auto info = Info(database).stream(stream);
    if (!info) throw InvalidInput(fmt::format("TG005 there is no stream \"{}\"", stream.name()));
    const std::int64_t before =
        arguments.maybe("before") ? number : std::max<std::int64_t>(1, info->last_no - number + 1);
    pruned = Operator(database).prune(stream, SequenceNo(before));
  }
  if (arguments.json()) print_json({{"pruned", pruned}});
  else print_line(fmt::format("{} rows deleted; fences stay as they are", pruned));
  return Exit::done;
}

int run_outcome(const Arguments& arguments) {
  const WriteId id(arguments.text("write-id"));
  const auto outcome = arguments.open().outcome(id);
  if (arguments.json()) {
    boost::json::object object{{"committed", outcome.has_value()}};
    if (outcome) {
      object["scope"] = outcome->scope;
      object["term"] = outcome->term.value();
      object["stream"] = optional_text(outcome->stream);
      object["sequence_no"] = optional_number(outcome->sequence_no);
      object["created_at"] = moment(outcome->created_at_ms);
    }
    print_json(object);
  } else if (!outcome) {
    print_line("not committed");
  } else {
    print_line(fmt::format(
        "committed under term {} of scope \"{}\" at {}{}", outcome->term.value(),
        printable(outcome->scope), moment(outcome->created_at_ms),
        outcome->stream ? fmt::format(", as number {} of stream \"{}\"",
                                      outcome->sequence_no.value_or(0), printable(*outcome->stream))
                        : std::string()));
  }
  return outcome ? Exit::done : Exit::failed;
}

int run_stream_list(const Arguments& arguments) {
  Database database = arguments.open();
  Listing listing(arguments.json(), {"STREAM", "SCOPE", "LAST", "CREATED"});
  std::string after;
  for (;;) {
    const auto page = Info(database).streams(after, 500);
    if (page.empty()) break;
    for (const StreamInfo& info : page) {
      listing.add(
          [&] {
            return boost::json::object{{"stream", info.stream},
                                       {"scope", info.scope},
                                       {"last_no", info.last_no},
                                       {"created_at", moment(info.created_at_ms)}};
          },
          [&] {
            return std::vector<std::string>{printable(info.stream), printable(info.scope),
                                            std::to_string(info.last_no),
                                            moment(info.created_at_ms)};
          });
    }
    after = page.back().stream;
  }
  listing.end();
  return Exit::done;
}

int run_stream_move(const Arguments& arguments) {
  const bool moved = Operator(arguments.open())
                         .move_stream(Stream(arguments.text("stream")), arguments.scope(),
                                      arguments.text_or("actor", default_actor()),
                                      arguments.text_or("reason", no_reason));
  if (arguments.json()) print_json({{"moved", moved}});
  else print_line(moved ? "moved" : "nothing to do: it is that scope's already");
  return Exit::done;
}

}  // namespace

// Long: a table of commands, each with its help.
void add_write_commands(std::vector<Command>& commands) {
  commands.push_back(
      {"append",
       "append to a fenced stream",
       "Checks the term and appends in one transaction; prints the sequence number.\n"
       "  echo 'debited 30' | termgate append --db sqlite:app.db --stream billing-events --scope "
       "billing --term 5 -\n"
       "With --lines each line of the input becomes one write, in batches of up to 1000, each all "
       "or nothing.\n"
       "Status 3: the term is stale and nothing was written. Status 7: the outcome is unknown; "
       "send it again with the same\n--write-id, "
       "and it is written once.",
       [](po::options_description& o) {
         o.add_options()("stream", po::value<std::string>(), "the stream")(
             "term", po::value<std::string>(), "the writer's term")(
             "scope", po::value<std::string>(), "its scope; fixed by the first write")(
             "expect", po::value<std::string>(),
             "the last sequence number that the writer has seen (0: none)")(
             "write-id", po::value<std::string>(),
             "a UUID: a write that is sent again with it is applied once")(
             "file", po::value<std::string>(),
             "the file with the payload; - or none: standard input")(
             "payload", po::value<std::string>(), "the payload itself")("lines", po::bool_switch(),
                                                                        "each line is one write");
       },
       {"file"},
       run_append});
  commands.push_back(
      {"read",
       "print a stream's writes in order",
       "One line for each write: number, term and payload, separated by tabs. Bytes that are not "
       "text are escaped.\n"
       "  termgate read --db sqlite:app.db --stream billing-events --from 10 --follow",
       [](po::options_description& o) {
         o.add_options()("stream", po::value<std::string>(), "the stream")(
             "from", po::value<std::string>(), "the first number to print (1)")(
             "follow", po::bool_switch(), "continue with later writes")(
             "raw", po::bool_switch(), "print only the payload, unchanged")(
             "poll", po::value<std::string>(), "how often --follow polls (200ms)");
       },
       {},
       run_read});
  commands.push_back({"exec",
                      "run SQL as one fenced transaction",
                      "Checks the term, runs each statement, and commits all of it or nothing.\n"
                      "  termgate exec --db postgresql://app@db/app --scope billing --term 5 "
                      "'UPDATE accounts SET balance = balance - 30 WHERE id = 42'\n"
                      "termgate begins and commits the transaction: BEGIN, COMMIT and ROLLBACK in "
                      "a statement are refused, savepoints are allowed.",
                      [](po::options_description& o) {
                        o.add_options()("scope", po::value<std::string>(), "the scope")(
                            "term", po::value<std::string>(), "the writer's term")(
                            "write-id", po::value<std::string>(),
                            "a UUID: a write that is sent again with it is applied once")(
                            "timeout", po::value<std::string>(), "for the statements")(
                            "sql", po::value<std::vector<std::string>>(), "the statements");
                      },
                      {"sql"},
                      run_exec});
  commands.push_back({"outcome",
                      "report whether a write id has been committed",
                      "Settles status 7 (outcome unknown). Status 0: committed. Status 1: not "
                      "committed.\n  termgate outcome --write-id "
                      "6f1f6a0e-3b1c-4f0e-9a51-0a1b2c3d4e5f",
                      [](po::options_description& o) {
                        o.add_options()("write-id", po::value<std::string>(), "the UUID");
                      },
                      {"write-id"},
                      run_outcome});
  commands.push_back({"prune",
                      "delete old writes or old history; fences stay",
                      "  termgate prune --stream billing-events --keep-last 10000\n  termgate "
                      "prune --history --older-than 90d",
                      [](po::options_description& o) {
                        o.add_options()("stream", po::value<std::string>(), "the stream")(
                            "keep-last", po::value<std::string>(),
                            "how many of its latest writes to keep")(
                            "before", po::value<std::string>(), "delete writes before this number")(
                            "history", po::bool_switch(), "delete old audit and job rows instead")(
                            "older-than", po::value<std::string>(), "how old they must be (90d)");
                      },
                      {},
                      run_prune});
  commands.push_back({"stream list",
                      "list the streams, their scopes and last numbers",
                      "",
                      nullptr,
                      {},
                      run_stream_list});
  commands.push_back({"stream move",
                      "give a stream to another scope, audited",
                      "  termgate stream move --stream billing-events --scope billing-eu --reason "
                      "'split by region'",
                      [](po::options_description& o) {
                        o.add_options()("stream", po::value<std::string>(), "the stream")(
                            "scope", po::value<std::string>(), "its new scope")(
                            "reason", po::value<std::string>(), "why; kept in the audit")(
                            "actor", po::value<std::string>(), "who (default: you)");
                      },
                      {},
                      run_stream_move});
}

}  // namespace termgate::cli
