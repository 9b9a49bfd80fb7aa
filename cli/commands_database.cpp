// init, uninstall, settings, protect …, doctor, verify: layer 1 and the owner's tables.
#include <algorithm>

#include <fmt/format.h>

#include "command.hpp"
#include "output.hpp"
#include "verify_history.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

int run_init(const Arguments& arguments) {
  Database database = arguments.open();
  // A grant that is mistyped must not leave half a job: all are read before anything is done.
  std::vector<std::pair<std::string, std::string>> grants;
  for (const std::string& grant : arguments.list("grant")) {
    const auto at = grant.rfind('=');
    if (at == std::string::npos || at == 0)
      throw UsageError(fmt::format("--grant {}: write ROLE=read, ROLE=write, ROLE=lead or ROLE=operate", grant));
    grants.emplace_back(grant.substr(0, at), grant.substr(at + 1));
    const std::string& level = grants.back().second;
    if (level != "read" && level != "write" && level != "lead" && level != "operate")
      throw UsageError(fmt::format("--grant {}: the level is read, write, lead or operate", grant));
  }
  const std::string failover = arguments.text_or("failover", "");
  if (!failover.empty() && failover != "synchronous" && failover != "declared") throw UsageError("--failover is synchronous or declared");
  if (database.kind() == "sqlite") {
    if (!grants.empty()) throw InvalidInput("TG005 SQLite has no roles to grant anything to: leave --grant out; nothing was installed");
    if (!failover.empty()) throw InvalidInput("TG005 an SQLite file has no failover: leave --failover out; nothing was installed");
  } else {
    for (const auto& [role, level] : grants) {
      const auto there = database.kind() == "sqlserver" ? "SELECT 1 FROM sys.database_principals WHERE name = $1" : "SELECT FROM pg_catalog.pg_roles WHERE rolname = $1";
      if (database.query(there, {Value(role)}).rows.empty())
        throw Error(fmt::format("--grant {}={}: there is no such role; nothing was installed", role, level));
    }
  }
  const auto installed = database.install();
  for (const auto& [role, level] : grants) database.grant(role, level);
  if (!failover.empty()) database.set_setting("failover", failover);
  if (arguments.json()) {
    print_json({{"from_version", installed.from_version}, {"to_version", installed.to_version}, {"grants", grants.size()}});
  } else if (installed.from_version == installed.to_version) {
    print_line(fmt::format("nothing to upgrade: version {} is installed", installed.to_version));
  } else {
    print_line(fmt::format("{} version {}; try `termgate doctor`", installed.from_version == 0 ? "installed" : "upgraded to",
                           installed.to_version));
  }
  return Exit::done;
}

int run_uninstall(const Arguments& arguments) {
  if (!arguments.flag("yes")) throw UsageError("this takes every fence, lease, stream and audit row away for good: say --yes");
  arguments.open().uninstall();
  if (arguments.json())
    print_json({{"uninstalled", true}});
  else
    print_line("uninstalled");
  return Exit::done;
}

int run_settings(const Arguments& arguments) {
  Database database = arguments.open();
  std::vector<std::pair<std::string, std::string>> wanted;
  for (const std::string& assignment : arguments.list("set")) {
    const auto at = assignment.find('=');
    if (at == std::string::npos) throw UsageError(fmt::format("\"{}\": write NAME=VALUE", assignment));
    wanted.emplace_back(assignment.substr(0, at), assignment.substr(at + 1));
  }
  if (!wanted.empty()) database.set_settings(wanted);
  const Rows settings = database.settings();
  if (arguments.json()) {
    boost::json::object object;
    for (const Row& row : settings.rows) object[row[0].as_text()] = row[1].as_text();
    print_json(object);
    return Exit::done;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Row& row : settings.rows) rows.push_back({row[0].as_text(), row[1].as_text(), row[2].as_text()});
  print_table({"NAME", "VALUE", "WHAT FOR"}, rows);
  return Exit::done;
}

int run_protect(const Arguments& arguments) {
  Database::Protection protection;
  protection.scope_column = arguments.maybe("scope-column");
  protection.scope = arguments.maybe("scope");
  protection.mode = arguments.text_or("mode", "enforce");
  const std::string table = arguments.text("table");
  const std::int64_t tables = arguments.open().protect(table, protection);
  if (arguments.json())
    print_json({{"table", table}, {"protected", tables}, {"mode", protection.mode}});
  else
    print_line(fmt::format("{} ({} tables with its partitions and children): {}", printable(table), tables,
                           protection.mode == "observe" ? "observed; `termgate doctor` shows what would have been refused" : "protected"));
  return Exit::done;
}

int run_unprotect(const Arguments& arguments) {
  const bool done = arguments.open().unprotect(arguments.text("table"));
  if (arguments.json())
    print_json({{"unprotected", done}});
  else
    print_line(done ? "unprotected" : "it was not protected");
  return Exit::done;
}

int run_adopt(const Arguments& arguments) {
  const std::string table = arguments.text("table");
  const std::int64_t scopes = arguments.open().adopt(table, arguments.text("scope-column"), arguments.text("term-column"));
  if (arguments.json())
    print_json({{"table", table}, {"scopes", scopes}});
  else
    print_line(fmt::format("{} counts towards MAX(term); the fences of {} scopes were raised to what it holds", printable(table), scopes));
  return Exit::done;
}

int run_unadopt(const Arguments& arguments) {
  const bool done = arguments.open().unadopt(arguments.text("table"));
  if (arguments.json())
    print_json({{"unadopted", done}});
  else
    print_line(done ? "no longer adopted; fences stay as they are" : "it was not adopted");
  return Exit::done;
}

int run_doctor(const Arguments& arguments) {
  const auto advice = arguments.open().doctor();
  if (arguments.json()) {
    boost::json::array list;
    for (const Advice& item : advice)
      list.push_back({{"severity", item.severity}, {"object", item.object}, {"problem", item.problem}, {"remedy", item.remedy}});
    print_json({{"advice", std::move(list)}});
    return Exit::done;
  }
  if (advice.empty()) print_line("nothing to say: everything that can be seen from here is covered");
  for (const Advice& item : advice) {
    print_line(fmt::format("{:<8} {}: {}", item.severity, printable(item.object), printable(item.problem)));
    if (!item.remedy.empty()) print_line(fmt::format("         {}", printable(item.remedy)));
  }
  return Exit::done;
}

boost::json::object document_of(const HistoryJudgement& judged) {
  const testkit::Verdict& verdict = judged.verdict;
  boost::json::array breaches;
  for (const testkit::Breach& breach : verdict.breaches) {
    breaches.push_back({{"law", testkit::law_of(breach.kind)}, {"kind", testkit::name_of(breach.kind)}, {"scope", breach.scope}, {"text", breach.text},
                        {"history", testkit::tell(breach, judged.operations)}});
  }
  return {{"operations", judged.recorded}, {"clients", judged.clients}, {"committed", verdict.committed}, {"refused", verdict.refused}, {"unknown_committed", verdict.unknown_committed},
          {"unknown_absent", verdict.unknown_absent}, {"raises", verdict.raises}, {"rows_of_others", judged.others}, {"breaches", std::move(breaches)}};
}

void tell(const HistoryJudgement& judged) {
  const testkit::Verdict& verdict = judged.verdict;
  print_line(fmt::format("history: {} operations of {} clients; writes: {} acknowledged, {} refused, without an answer {} that had committed and {} that had not; {} terms; rows of others {}", judged.recorded,
                         judged.clients, verdict.committed, verdict.refused, verdict.unknown_committed, verdict.unknown_absent, verdict.raises, judged.others));
  // Its first line is the breach; names in it are other people's text.
  for (const testkit::Breach& breach : verdict.breaches) {
    const std::string text = testkit::tell(breach, judged.operations);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      print_line((at == 0 ? "BREACH " : "") + escaped(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
  }
}

int run_verify(const Arguments& arguments) {
  std::optional<std::int64_t> since;
  if (const auto back = arguments.maybe_duration("since")) {
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
    since = (now - *back).count();
  }
  if (arguments.has("rows") && !arguments.has("history")) throw UsageError("--rows goes with --history");
  Database database = arguments.open();
  std::optional<HistoryJudgement> judged;
  if (arguments.has("history")) judged = judge_history(arguments, database);
  const auto findings = database.verify(since);
  const bool kept = findings.empty() && (!judged || judged->verdict.breaches.empty());
  if (arguments.json()) {
    boost::json::array list;
    for (const Finding& item : findings)
      list.push_back({{"kind", item.kind}, {"scope", item.scope}, {"object", item.object}, {"detail", item.detail}});
    boost::json::object document{{"kept", kept}, {"findings", std::move(list)}};
    if (judged) document["history"] = document_of(*judged);
    print_json(document);
    return kept ? Exit::done : Exit::failed;
  }
  for (const Finding& item : findings)
    print_line(
        fmt::format("BREACH {} scope \"{}\" {}: {}", item.kind, printable(item.scope), printable(item.object), printable(item.detail)));
  if (judged) tell(*judged);
  if (kept) print_line(judged ? "the law is kept: no breach in the history, none in the stored rows" : "the law is kept: no breach in the stored rows");
  return kept ? Exit::done : Exit::failed;
}

void table_option(po::options_description& o) {
  o.add_options()("table", po::value<std::string>(), "the table, schema-qualified if need be");
}

}  // namespace

void add_database_commands(std::vector<Command>& commands) {
  commands.push_back(
      {"init",
       "install or upgrade layer 1; safe to run again",
       "Creates the tables, functions and triggers that hold the law, in one transaction.\n"
       "  termgate init --db postgresql://owner@db/app --grant app=write --grant scheduler=lead\n"
       "Grants: read (views), write (check, append), lead (leases, seal), operate (force-release, reset, prune).",
       [](po::options_description& o) {
         o.add_options()("grant", po::value<std::vector<std::string>>(), "ROLE=read|write|lead|operate, as often as need be")(
             "failover", po::value<std::string>(), "synchronous: a promotion here loses nothing (default: declared, by the operator)");
       },
       {},
       run_init});
  commands.push_back({"uninstall",
                      "take all of it away",
                      "Fences, leases, streams, audit: all gone; protect's triggers too.",
                      [](po::options_description& o) { o.add_options()("yes", po::bool_switch(), "yes, for good"); },
                      {},
                      run_uninstall});
  commands.push_back({"settings",
                      "read and set the settings",
                      "Several are set together: all or none.\n  termgate settings eviction_grace_ms=2000 check_wait_ms=4000",
                      [](po::options_description& o) { o.add_options()("set", po::value<std::vector<std::string>>(), "NAME=VALUE"); },
                      {"set"},
                      run_settings});
  commands.push_back({"protect",
                      "refuse writes to a table whose transaction has not passed the check",
                      "  termgate protect accounts --scope billing --mode observe    (first: refuse nothing, count)\n"
                      "  termgate protect accounts --scope-column tenant             (each row's own scope)",
                      [](po::options_description& o) {
                        table_option(o);
                        o.add_options()("scope", po::value<std::string>(),
                                        "the scope of all its rows; '*': any that the session has passed")(
                            "scope-column", po::value<std::string>(), "the column that holds each row's scope")(
                            "mode", po::value<std::string>(), "enforce (default) or observe");
                      },
                      {"table"},
                      run_protect});
  commands.push_back({"unprotect", "take protect's triggers off a table", "", table_option, {"table"}, run_unprotect});
  commands.push_back(
      {"adopt",
       "let a table's own term column count towards MAX(term)",
       "  termgate adopt jobs --scope-column shard --term-column term\nNeeds an index on (scope, term); the error says how to make it.",
       [](po::options_description& o) {
         table_option(o);
         o.add_options()("scope-column", po::value<std::string>(), "the column with the scope")("term-column", po::value<std::string>(),
                                                                                                "the column with the term");
       },
       {"table"},
       run_adopt});
  commands.push_back({"unadopt", "end that; fences stay", "", table_option, {"table"}, run_unadopt});
  commands.push_back({"doctor", "what is not covered: tables, roles, settings, fences in doubt", "", nullptr, {}, run_doctor});
  commands.push_back(
      {"verify",
       "look for any breach that the stored rows can show; status 1 if there is one",
       "Terms along each stream, fences below stored terms, leases above their fence, gaps, adopted rows.\n"
       "With --history also what your clients saw: a JSON object a line for each of their operations (docs/correctness.md), held against the streams that they name and the rows of --rows.\n"
       "  termgate verify --since 24h\n"
       "  termgate verify --history operations.jsonl --rows \"SELECT id, scope, term FROM orders\"",
       [](po::options_description& o) {
         o.add_options()("since", po::value<std::string>(), "only rows of the last 10m, 24h, 7d …")("history", po::value<std::string>(), "operations that clients wrote down, as JSON Lines; -: standard input")(
             "rows", po::value<std::string>(), "with --history: a SELECT of id, scope, term, and if something numbers them in commit order sequence, place");
       },
       {},
       run_verify});
}

}  // namespace termgate::cli
