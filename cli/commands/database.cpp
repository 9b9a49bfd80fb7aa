// init, uninstall, settings, protect …, doctor, verify: layer 1 and the owner's tables.
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <termgate/detail/install_script.hpp>
#include <termgate/operator.hpp>

#include "command.hpp"
#include "output.hpp"
#include "secrets.hpp"
#include "commands/privileges.hpp"
#include "commands/verify_history.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

// The name of SQL's PUBLIC in grant_level(); no role can have that name.
constexpr const char* everybody = "public";

std::string role_of(const std::string& given) {
  return given == "PUBLIC" || given == "public" ? everybody : given;
}
std::string shown_role(const std::string& role) { return role == everybody ? "PUBLIC" : role; }

const char* meaning_of(const std::string& level) {
  if (level == "dump") return "it may read the tables, for pg_dump";
  if (level == "read") return "it reads fences, leases, streams and history";
  if (level == "write") return "it reads, checks terms and appends";
  if (level == "lead") return "it reads, writes, takes leases and seals";
  return "it reads, writes, leads, ends others' leases, resets fences and prunes";
}

// Checks the encoding and who owns layer 1: this error is clearer than that of the statement that
// would fail.
void need_own_layer(Database& database, const std::string& schema) {
  const std::string encoding =
      database.query("SELECT current_setting('server_encoding')").rows.at(0)[0].as_text();
  if (encoding != "UTF8")
    throw Error(
        fmt::format("Termgate needs a database with encoding UTF8, and this one has {}: CREATE "
                    "DATABASE ... ENCODING 'UTF8' TEMPLATE "
                    "template0; nothing was installed",
                    encoding));
  const auto access = access_of(database, schema);
  if (access && access->installed && !access->owns)
    throw Error(
        fmt::format("layer 1 in schema {} belongs to role {}, and role {} is not a member of it: "
                    "run init as {} or as a superuser; nothing was changed",
                    schema, access->owner, access->role, access->owner));
}

// A warning that `doctor` gives as well, shown while starting over is still easy. Empty if the
// owner is an ordinary role.
std::string owner_warning(Database& database, const std::string& schema) {
  const Rows owner = database.query(
      "SELECT r.rolname::text FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = "
      "n.nspowner WHERE n.nspname = $1 AND "
      "r.rolsuper",
      {Value(schema)});
  if (owner.rows.empty()) return "";
  return fmt::format(
      "warning: {}, a superuser, owns layer 1: its functions run with all rights. Install it as a "
      "role of its own "
      "(docs/use/operations.md#roles)",
      printable(owner.rows[0][0].as_text()));
}

// Lets the database's owner dump it, as it could before layer 1 was installed. Returns the owner's
// name if that needed a grant.
std::string keep_dumps_working(Database& database) {
  const Rows owner = database.query(
      "SELECT pg_catalog.pg_get_userbyid(d.datdba)::text FROM pg_catalog.pg_database d WHERE "
      "d.datname = current_database() AND NOT "
      "pg_catalog.pg_has_role(d.datdba, current_user, 'USAGE')");
  if (owner.rows.empty()) return "";
  const std::string name = owner.rows[0][0].as_text();
  Operator(database).grant(name, "dump");
  return name;
}

struct Wanted {
  std::vector<std::pair<std::string, std::string>> grants;  // role, level
  std::vector<std::string> revokes;
  std::string failover;
};

// Parses all arguments before anything is done, so that a mistyped one does not leave a job half
// done.
Wanted wanted_of(const Arguments& arguments) {
  Wanted wanted;
  for (const std::string& grant : arguments.list("grant")) {
    const auto at = grant.rfind('=');
    if (at == std::string::npos || at == 0)
      throw UsageError(
          fmt::format("--grant {}: write ROLE=read, ROLE=write, ROLE=lead or ROLE=operate", grant));
    const auto& [role, level] =
        wanted.grants.emplace_back(role_of(grant.substr(0, at)), grant.substr(at + 1));
    if (level != "read" && level != "write" && level != "lead" && level != "operate" &&
        level != "dump")
      throw UsageError(
          fmt::format("--grant {}: the level is read, write, lead or operate, or dump for a role "
                      "that runs pg_dump",
                      grant));
    if (role == everybody && level != "read" && level != "write")
      throw UsageError(
          fmt::format("--grant {}: PUBLIC gets read or write; grant {} to a role", grant, level));
  }
  for (const std::string& role : arguments.list("revoke")) wanted.revokes.push_back(role_of(role));
  wanted.failover = arguments.text_or("failover", "");
  if (!wanted.failover.empty() && wanted.failover != "synchronous" && wanted.failover != "declared")
    throw UsageError("--failover is synchronous or declared");
  return wanted;
}

void need_no_roles(const Wanted& wanted) {
  if (!wanted.grants.empty())
    throw InvalidInput(
        "TG005 SQLite has no roles to grant anything to: leave --grant out; nothing was installed");
  if (!wanted.revokes.empty())
    throw InvalidInput(
        "TG005 SQLite has no roles to revoke anything from: leave --revoke out; nothing was "
        "installed");
  if (!wanted.failover.empty())
    throw InvalidInput(
        "TG005 an SQLite file has no failover: leave --failover out; nothing was installed");
}

// Opens no database: the kind comes from --db-kind, else from the scheme of a given URL, else it is
// PostgreSQL.
int print_init(const Arguments& arguments, const Wanted& wanted) {
  std::string kind = arguments.text_or("db-kind", "");
  const char* variable = std::getenv("TERMGATE_DB");
  const bool has_url =
      arguments.has("db") || arguments.has("db-file") || (variable != nullptr && *variable != '\0');
  if (kind.empty() && has_url) {
    const std::string url = arguments.database_url();
    kind = url.substr(0, url.find(':'));
    if (kind == "odbc")
      throw UsageError("--print: say by --db-kind which database is behind odbc:");
  }
  if (kind.empty()) kind = "postgresql";
  if (kind == "postgres") kind = "postgresql";
  if (kind != "postgresql" && kind != "sqlserver" && kind != "sqlite")
    throw UsageError(fmt::format("--db-kind {}: write postgresql, sqlserver or sqlite", kind));
  if (kind == "sqlite") need_no_roles(wanted);
  if (kind == "sqlserver" && !wanted.revokes.empty())
    throw UsageError(
        "--revoke: on SQL Server a level is membership in a role, which ALTER ROLE … DROP MEMBER "
        "ends");
  if (kind != "postgresql" && arguments.flag("no-transaction"))
    throw UsageError("--no-transaction is for PostgreSQL alone");
  std::string script =
      detail::install_script({kind, arguments.text_or("schema", "termgate"), wanted.revokes,
                              wanted.grants, wanted.failover, !arguments.flag("no-transaction")});
  script.pop_back();  // print_line() adds the newline
  print_line(script);
  return Exit::done;
}

int run_init(const Arguments& arguments) {
  const Wanted wanted = wanted_of(arguments);
  const auto& [grants, revokes, failover] = wanted;
  if (arguments.flag("print")) return print_init(arguments, wanted);
  for (const char* option : {"db-kind", "no-transaction"}) {
    const std::string written = arguments.written(option);
    if (!written.empty() && written != "false")
      throw UsageError(fmt::format("--{} goes with --print", option));
  }
  Database database = arguments.open();
  if (database.kind() == "sqlite") {
    need_no_roles(wanted);
  } else {
    if (database.kind() == "postgresql")
      need_own_layer(database, arguments.text_or("schema", "termgate"));
    for (const std::string& role : revokes) {
      if (role != everybody && database.kind() == "postgresql" &&
          database.query("SELECT FROM pg_catalog.pg_roles WHERE rolname = $1", {Value(role)})
              .rows.empty())
        throw Error(fmt::format("--revoke {}: there is no such role; nothing was changed", role));
    }
    for (const auto& [role, level] : grants) {
      if (role == everybody && database.kind() == "postgresql") continue;
      const auto there = database.kind() == "sqlserver"
                             ? "SELECT 1 FROM sys.database_principals WHERE name = $1"
                             : "SELECT FROM pg_catalog.pg_roles WHERE rolname = $1";
      if (database.query(there, {Value(role)}).rows.empty())
        throw Error(fmt::format("--grant {}={}: there is no such role; nothing was installed", role,
                                level));
    }
  }
  const auto installed = Operator(database).install();
  const std::string dumper = database.kind() == "postgresql" ? keep_dumps_working(database) : "";
  // Revokes come first, so that `--revoke app --grant app=read` leaves only read.
  std::vector<std::pair<std::string, Rows>> kept;
  for (const std::string& role : revokes) kept.emplace_back(role, Operator(database).revoke(role));
  for (const auto& [role, level] : grants) Operator(database).grant(role, level);
  if (!failover.empty()) Operator(database).set_setting("failover", failover);
  if (arguments.json()) {
    boost::json::array granted, revoked;
    for (const auto& [role, level] : grants)
      granted.push_back({{"role", shown_role(role)}, {"level", level}});
    for (const auto& [role, rows] : kept) {
      boost::json::array still;
      for (const Row& row : rows.rows)
        still.push_back({{"level", row[0].as_text()}, {"through", row[1].as_text()}});
      revoked.push_back({{"role", shown_role(role)}, {"keeps", std::move(still)}});
    }
    print_json({{"from_version", installed.from_version},
                {"to_version", installed.to_version},
                {"grants", grants.size()},
                {"granted", std::move(granted)},
                {"revoked", std::move(revoked)}});
    return Exit::done;
  }
  if (installed.from_version == installed.to_version) {
    print_line(fmt::format("nothing to upgrade: version {} is installed", installed.to_version));
  } else {
    print_line(fmt::format("{} version {}; try `termgate doctor`",
                           installed.from_version == 0 ? "installed" : "upgraded to",
                           installed.to_version));
  }
  if (!dumper.empty())
    print_line(
        fmt::format("role {}, the owner of this database, may read layer 1's tables, so that "
                    "pg_dump keeps working for it",
                    printable(dumper)));
  if (database.kind() == "postgresql") {
    const std::string warning = owner_warning(database, arguments.text_or("schema", "termgate"));
    if (!warning.empty()) print_line(warning);
  }
  for (const auto& [role, rows] : kept) {
    print_line(fmt::format("revoked from {}: every level", printable(shown_role(role))));
    for (const Row& row : rows.rows)
      print_line(fmt::format("  it still has {} through {}",
                             row[0].as_text() == "dump"  ? "SELECT on the tables"
                             : row[0].as_text() == "all" ? "everything"
                                                         : "level " + row[0].as_text(),
                             printable(row[1].as_text())));
  }
  for (const auto& [role, level] : grants)
    print_line(
        fmt::format("granted {} to {}: {}", level, printable(shown_role(role)), meaning_of(level)));
  if (std::find(grants.begin(), grants.end(),
                std::pair<std::string, std::string>(everybody, "write")) != grants.end())
    print_line(
        "warning: every login of this database can now raise the fences of scopes that have no "
        "lease, and so shut their leaders out");
  return Exit::done;
}

int run_uninstall(const Arguments& arguments) {
  if (!arguments.flag("yes"))
    throw UsageError(
        "this removes every fence, lease, stream and audit row for good: confirm with --yes");
  Database database = arguments.open();
  const std::string url = arguments.database_url();
  const auto access = access_of(database, arguments.text_or("schema", "termgate"));
  const bool installed = access ? access->installed : Operator(database).installed_version() > 0;
  if (installed) Operator(database).uninstall();
  if (arguments.json()) print_json({{"uninstalled", installed}});
  else
    print_line(installed ? "uninstalled"
                         : "nothing was installed in " + printable(without_passwords(url, {url})));
  return Exit::done;
}

int run_settings(const Arguments& arguments) {
  Database database = arguments.open();
  std::vector<std::pair<std::string, std::string>> wanted;
  for (const std::string& assignment : arguments.list("set")) {
    const auto at = assignment.find('=');
    if (at == std::string::npos)
      throw UsageError(fmt::format("\"{}\": write NAME=VALUE", assignment));
    wanted.emplace_back(assignment.substr(0, at), assignment.substr(at + 1));
  }
  if (!wanted.empty()) Operator(database).set_settings(wanted);
  const Rows settings = Operator(database).settings();
  if (arguments.json()) {
    boost::json::object object;
    for (const Row& row : settings.rows) object[row[0].as_text()] = row[1].as_text();
    print_json(object);
    return Exit::done;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Row& row : settings.rows)
    rows.push_back({row[0].as_text(), row[1].as_text(), row[2].as_text()});
  print_table({"NAME", "VALUE", "WHAT FOR"}, rows);
  return Exit::done;
}

int run_protect(const Arguments& arguments) {
  Protection protection;
  protection.scope_column = arguments.maybe("scope-column");
  protection.scope = arguments.maybe("scope");
  protection.mode = arguments.text_or("mode", "enforce");
  protection.prefix = arguments.text_or("prefix", "");
  const std::string table = arguments.text("table");
  if (protection.scope.has_value() == protection.scope_column.has_value())
    throw UsageError(
        fmt::format("protect {}: give --scope NAME, the scope of all its rows, or --scope-column "
                    "COLUMN, which holds each "
                    "row's own scope, and not both",
                    table));
  const std::int64_t tables = Operator(arguments.open()).protect(table, protection);
  if (arguments.json())
    print_json({{"table", table}, {"protected", tables}, {"mode", protection.mode}});
  else
    print_line(fmt::format("{} ({} tables with its partitions and children): {}", printable(table),
                           tables,
                           protection.mode == "observe"
                               ? "observed; `termgate doctor` shows what would have been refused"
                               : "protected"));
  return Exit::done;
}

int run_unprotect(const Arguments& arguments) {
  const bool done = Operator(arguments.open()).unprotect(arguments.text("table"));
  if (arguments.json()) print_json({{"unprotected", done}});
  else print_line(done ? "unprotected" : "it was not protected");
  return Exit::done;
}

int run_adopt(const Arguments& arguments) {
  const std::string table = arguments.text("table");
  const std::int64_t scopes =
      Operator(arguments.open())
          .adopt(table, arguments.text("scope-column"), arguments.text("term-column"),
                 arguments.text_or("prefix", ""));
  if (arguments.json()) print_json({{"table", table}, {"scopes", scopes}});
  else
    print_line(
        fmt::format("{} counts towards MAX(term); the fences of {} scopes were raised to what it "
                    "holds. It refuses no write: protect it as well",
                    printable(table), scopes));
  return Exit::done;
}

int run_unadopt(const Arguments& arguments) {
  const bool done = Operator(arguments.open()).unadopt(arguments.text("table"));
  if (arguments.json()) print_json({{"unadopted", done}});
  else print_line(done ? "no longer adopted; fences stay as they are" : "it was not adopted");
  return Exit::done;
}

int run_doctor(const Arguments& arguments) {
  const std::string fail_on = arguments.text_or("fail-on", "");
  if (!fail_on.empty() && fail_on != "error" && fail_on != "warning")
    throw UsageError(fmt::format("--fail-on {}: must be error or warning", fail_on));
  Database database = arguments.open();
  auto advice = Operator(database).doctor();
  const bool failed = std::any_of(advice.begin(), advice.end(), [&](const Advice& item) {
    return !fail_on.empty() &&
           (item.severity == "error" || (item.severity == "warning" && fail_on == "warning"));
  });
  const int status = failed ? Exit::failed : Exit::done;
  if (arguments.json()) {
    boost::json::array list;
    for (const Advice& item : advice)
      list.push_back({{"severity", item.severity},
                      {"object", item.object},
                      {"problem", item.problem},
                      {"remedy", item.remedy}});
    print_json({{"advice", std::move(list)}});
    return status;
  }
  if (advice.empty())
    print_line("no findings: everything that can be checked from here is covered");
  for (const Advice& item : advice) {
    print_line(fmt::format("{:<8} {}: {}", item.severity, printable(item.object),
                           printable(item.problem)));
    if (!item.remedy.empty()) print_line(fmt::format("         {}", printable(item.remedy)));
  }
  return status;
}

boost::json::object document_of(const HistoryJudgement& judged) {
  const testkit::Verdict& verdict = judged.verdict;
  boost::json::array breaches;
  for (const testkit::Breach& breach : verdict.breaches) {
    breaches.push_back({{"guarantee", testkit::guarantee_of(breach.kind)},
                        {"kind", testkit::name_of(breach.kind)},
                        {"scope", breach.scope},
                        {"text", breach.text},
                        {"history", testkit::describe(breach, judged.operations)}});
  }
  return {{"operations", judged.recorded},
          {"clients", judged.clients},
          {"committed", verdict.committed},
          {"refused", verdict.refused},
          {"unknown_committed", verdict.unknown_committed},
          {"unknown_absent", verdict.unknown_absent},
          {"raises", verdict.raises},
          {"rows_of_others", judged.others},
          {"breaches", std::move(breaches)}};
}

void print_judgement(const HistoryJudgement& judged) {
  const testkit::Verdict& verdict = judged.verdict;
  print_line(fmt::format(
      "history: {} operations of {} clients; writes: {} acknowledged, {} refused, without an "
      "answer {} that had committed and "
      "{} that had not; {} terms; rows of others {}",
      judged.recorded, judged.clients, verdict.committed, verdict.refused,
      verdict.unknown_committed, verdict.unknown_absent, verdict.raises, judged.others));
  // BREACH precedes the first line, which says what is broken. Names in the text may come from
  // anybody, so it is escaped.
  for (const testkit::Breach& breach : verdict.breaches) {
    const std::string text = testkit::describe(breach, judged.operations);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      print_line((at == 0 ? "BREACH " : "") + escaped(std::string_view(text).substr(at, end - at)));
      at = end + 1;
    }
  }
}

// Names of adopted tables; empty if the database refuses the query, as it does to a role that may
// not read the list.
std::vector<std::string> adopted_tables(Database& database, const std::string& schema) {
  const auto quoted = [&](char open, char close) {
    std::string all(1, open);
    for (const char letter : schema)
      all += letter == close ? std::string(2, close) : std::string(1, letter);
    return all + close;
  };
  std::vector<std::string> names;
  try {
    for (const Row& row :
         database
             .query(database.kind() == "sqlite"
                        ? "SELECT table_name FROM termgate_adopted ORDER BY table_name"
                    : database.kind() == "sqlserver"
                        ? "SELECT table_name FROM " + quoted('[', ']') +
                              ".adopted ORDER BY table_name"
                        : "SELECT table_oid::regclass::text FROM " + quoted('"', '"') +
                              ".adopted_tables ORDER BY 1")
             .rows)
      names.push_back(row[0].as_text());
  } catch (const DatabaseError&) {}
  return names;
}

int run_verify(const Arguments& arguments) {
  std::optional<std::int64_t> since;
  if (const auto back = arguments.maybe_duration("since")) {
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    since = (now - *back).count();
  }
  if (arguments.has("rows") && !arguments.has("history"))
    throw UsageError("--rows goes with --history");
  Database database = arguments.open();
  std::optional<HistoryJudgement> judged;
  if (arguments.has("history")) judged = judge_history(arguments, database);
  const auto findings = Operator(database).verify(since);
  const bool kept = findings.empty() && (!judged || judged->verdict.breaches.empty());
  const std::vector<std::string> unordered =
      adopted_tables(database, arguments.text_or("schema", "termgate"));
  if (arguments.json()) {
    boost::json::array list;
    for (const Breach& item : findings)
      list.push_back({{"kind", item.kind},
                      {"scope", item.scope},
                      {"object", item.object},
                      {"detail", item.detail}});
    boost::json::object document{
        {"kept", kept},
        {"findings", std::move(list)},
        {"order_not_looked_at", boost::json::array(unordered.begin(), unordered.end())}};
    if (judged) document["history"] = document_of(*judged);
    print_json(document);
    return kept ? Exit::done : Exit::failed;
  }
  bool broken = false;
  for (const Breach& item : findings) {
    const bool breach = item.kind != "not looked at";
    broken = broken || breach;
    print_line(
        breach
            ? fmt::format("BREACH {} scope \"{}\" {}: {}", item.kind, printable(item.scope),
                          printable(item.object), printable(item.detail))
            : fmt::format("not looked at: {}: {}", printable(item.object), printable(item.detail)));
  }
  if (judged) print_judgement(*judged);
  if (!unordered.empty())
    print_line(
        fmt::format("not looked at: whether rows of {} were written under a lower term than "
                    "earlier rows; adopted rows have no order that "
                    "could show it",
                    printable(fmt::format("{}", fmt::join(unordered, ", ")))));
  if (database.kind() == "sqlserver")
    print_line(
        "not looked at: the order of writes in several streams of a scope, what the audit says of "
        "fences, terms and resets, writes of "
        "another scope");
  if (kept)
    print_line(judged ? "all guarantees kept: no breach in the history, none in the stored rows"
                      : "all guarantees kept: no breach in the stored rows");
  if (!kept && !broken && (!judged || judged->verdict.breaches.empty()))
    print_line("no breach in what was looked at");
  return kept ? Exit::done : Exit::failed;
}

void table_option(po::options_description& o) {
  o.add_options()("table", po::value<std::string>(), "the table, schema-qualified if need be");
}

}  // namespace

// Long: a table of commands, each with its help.
void add_database_commands(std::vector<Command>& commands) {
  commands.push_back(
      {"init",
       "install or upgrade layer 1; safe to run again",
       "Creates the tables, functions and triggers of layer 1, in one transaction.\n"
       "  termgate init --db postgresql://owner@db/app --grant app=write --grant scheduler=lead\n"
       "  termgate init --print --grant app=write > termgate.sql; psql -X -v ON_ERROR_STOP=1 -f "
       "termgate.sql\n"
       "Levels: read (views), write (check, append), lead (leases, seal), operate (force-release, "
       "reset, prune). The owner "
       "of the database can always dump it.",
       [](po::options_description& o) {
         o.add_options()("grant", po::value<std::vector<std::string>>(),
                         "ROLE=read|write|lead|operate, or ROLE=dump for a role that runs pg_dump; "
                         "may be repeated. "
                         "PUBLIC=read or PUBLIC=write: every role")(
             "revoke", po::value<std::vector<std::string>>(),
             "ROLE: remove its level, and report what it still has through other roles; may be "
             "repeated")("failover", po::value<std::string>(),
                         "synchronous: a promotion of a standby loses no commit (default: "
                         "declared, an operator declares it)")(
             "print", po::bool_switch(),
             "write what init would do to standard output, as one script, and touch no database")(
             "db-kind", po::value<std::string>(),
             "--print: postgresql (default), sqlserver or sqlite")(
             "no-transaction", po::bool_switch(),
             "--print: without BEGIN and COMMIT, for tools that run each script in a transaction "
             "of their own");
       },
       {},
       run_init});
  commands.push_back(
      {"uninstall",
       "remove layer 1",
       "Drops fences, leases, streams, audit and protect's triggers, and nothing else. If the "
       "schema contains something "
       "that is not Termgate's,\nif something else depends on it, or if another role owns a "
       "protected table, it changes "
       "nothing and lists the commands to run first.",
       [](po::options_description& o) { o.add_options()("yes", po::bool_switch(), "confirm"); },
       {},
       run_uninstall});
  commands.push_back({"settings",
                      "read and set the settings",
                      "Several settings are set together: all or none.\n  termgate settings "
                      "eviction_grace_ms=2000 check_wait_ms=4000",
                      [](po::options_description& o) {
                        o.add_options()("set", po::value<std::vector<std::string>>(), "NAME=VALUE");
                      },
                      {"set"},
                      run_settings});
  commands.push_back(
      {"protect",
       "refuse writes to a table unless their transaction has passed the check",
       "  termgate protect accounts --scope billing --mode observe    (first: only count, refuse "
       "nothing)\n"
       "  termgate protect accounts --scope-column tenant             (each row's own scope)",
       [](po::options_description& o) {
         table_option(o);
         o.add_options()(
             "scope", po::value<std::string>(),
             "the scope of all its rows; '*': any scope whose check the transaction has passed")(
             "scope-column", po::value<std::string>(), "the column that holds each row's scope")(
             "mode", po::value<std::string>(), "enforce (default) or observe")(
             "prefix", po::value<std::string>(),
             "is put in front of the column's value, as in adopt");
       },
       {"table"},
       run_protect});
  commands.push_back({"unprotect",
                      "remove protect's triggers from a table",
                      "",
                      table_option,
                      {"table"},
                      run_unprotect});
  commands.push_back(
      {"adopt",
       "let a table's own term column raise fences",
       "The terms in its rows raise fences and are evidence after a restore. adopt refuses no "
       "write: protect the table as "
       "well.\n  termgate adopt "
       "jobs --scope-column shard --term-column term\n  termgate adopt "
       "river_job --scope-column id --term-column attempt --prefix river/    (the scope of job 17 "
       "is river/17)\n"
       "On PostgreSQL it takes level operate and the table's owner. NULL and terms below 1 are no "
       "evidence: a job that "
       "nobody has claimed.",
       [](po::options_description& o) {
         table_option(o);
         o.add_options()("scope-column", po::value<std::string>(), "the column with the scope")(
             "term-column", po::value<std::string>(), "the column with the term")(
             "prefix", po::value<std::string>(),
             "is put in front of the scope column's value, so that two tables' ids are two scopes");
       },
       {"table"},
       run_adopt});
  commands.push_back(
      {"unadopt", "undo adopt; the fences stay", "", table_option, {"table"}, run_unadopt});
  commands.push_back({"doctor",
                      "report what is not covered: tables, roles, settings, untrusted fences",
                      "Each line has a severity: error (the fences do not hold there), warning (a "
                      "user could bypass them) or info.\n"
                      "  termgate doctor --fail-on warning    (for cron and CI: status 1 if it "
                      "finds an error or a warning)",
                      [](po::options_description& o) {
                        o.add_options()("fail-on", po::value<std::string>(),
                                        "error or warning: end with status 1 if it finds one "
                                        "(without this option the status is 0)");
                      },
                      {},
                      run_doctor});
  commands.push_back(
      {"verify",
       "search the stored rows for breaches; status 1 if there is one",
       "Checks the terms along each stream, fences below stored terms, leases above their fence, "
       "gaps, adopted rows.\n"
       "With --history it also judges what your clients saw: one JSON object a line for each "
       "operation (docs/evidence/correctness.md), "
       "compared with the streams that they name and the rows of --rows.\n"
       "  termgate verify --since 24h\n"
       "  termgate verify --history operations.jsonl --rows \"SELECT id, scope, term FROM orders\"",
       [](po::options_description& o) {
         o.add_options()("since", po::value<std::string>(), "only rows of the last 10m, 24h, 7d …")(
             "history", po::value<std::string>(),
             "a file of operations that clients recorded, as JSON Lines; -: standard input")(
             "rows", po::value<std::string>(),
             "with --history: a SELECT of id, scope, term, and sequence, place if something "
             "numbers the rows in commit order");
       },
       {},
       run_verify});
}

}  // namespace termgate::cli
