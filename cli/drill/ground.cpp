// What the database knows about the scope (ground.hpp). The counting statements are built once.
#include "drill/ground.hpp"

#include <stdexcept>

#include <fmt/format.h>

#include <termgate/detail/named_row.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>
#include <termgate/text/quote.hpp>

#include "storm/sql.hpp"

namespace termgate::cli::drill {

Ground::Ground(const Plan& plan) : plan_(plan) {
  OpenOptions options;
  options.schema = plan.schema;
  options.connections_max = 4;
  database_ = Database::open(plan.url, options);
  need_level(*database_, plan.schema, "read", "drill");
  const bool sqlite = storm::is_sqlite(plan.url),
             tsql = storm::engine_of(plan.url) == storm::Engine::sqlserver;
  const std::string schema =
      (tsql ? text::in_brackets(plan.schema) : text::quoted(plan.schema, '"')) + ".";
  counts_.push_back({"stream writes",
                     fmt::format("SELECT count(*) FROM {} WHERE term = $1 AND scope = $2",
                                 sqlite ? "termgate_stream_writes" : schema + "stream_writes"),
                     false});
  try {
    const auto adopted = database_->query(
        sqlite ? "SELECT a.table_name, a.scope_column, a.term_column, coalesce(p.prefix, '') FROM "
                 "termgate_adopted a LEFT JOIN "
                 "termgate_scope_prefixes p ON p.table_name = a.table_name AND p.made_by = 'adopt'"
        : tsql ? "SELECT QUOTENAME(OBJECT_SCHEMA_NAME(table_id)) + N'.' + "
                 "QUOTENAME(OBJECT_NAME(table_id)), "
                 "scope_column, term_column, scope_prefix FROM " +
                     schema + "adopted"
               : "SELECT table_oid::regclass::text, scope_column, term_column, scope_prefix FROM " +
                     schema + "adopted_tables");
    for (const auto& row : adopted.rows) {
      const std::string table = sqlite ? text::quoted(row[0].as_text(), '"') : row[0].as_text();
      counts_.push_back(
          {"rows of " + row[0].as_text(),
           fmt::format(
               "SELECT count(*) FROM {} WHERE {} = $1 AND {}CAST({} AS {}) = $2", table,
               tsql ? text::in_brackets(row[2].as_text()) : text::quoted(row[2].as_text(), '"'),
               row[3].as_text().empty()
                   ? std::string()
                   : text::quoted(row[3].as_text(), '\'') + (tsql ? " + " : " || "),
               tsql ? text::in_brackets(row[1].as_text()) : text::quoted(row[1].as_text(), '"'),
               tsql ? "nvarchar(400)" : "text"),
           false});
    }
  } catch (const DatabaseError&) {
    // The role may not read the list of tables. The drill then has less evidence but the same
    // witnesses.
  }
  if (plan.evidence) counts_.push_back({"--evidence", *plan.evidence, true});
}

std::optional<std::int64_t> Ground::fence() {
  try {
    const auto found = Info(*database_).fence(plan_.scope);
    return found ? found->term : 0;
  } catch (const Unavailable& error) { why_not_ = error.what(); } catch (const Blocked& error) {
    why_not_ = error.what();
  } catch (const Conflict& error) { why_not_ = error.what(); }
  return std::nullopt;
}

std::map<std::string, std::int64_t> Ground::rows_under(std::int64_t term) {
  std::map<std::string, std::int64_t> found;
  for (const Count& one : counts_) {
    std::vector<Value> values;
    if (one.sql.find("$1") != std::string::npos) values.emplace_back(term);
    if (one.sql.find("$2") != std::string::npos) values.emplace_back(plan_.scope.name());
    try {
      const Rows rows = database_->query(one.sql, values);
      if (rows.rows.size() == 1 && rows.rows[0].size() == 1)
        found[one.what] = std::stoll(rows.rows[0][0].as_text());
      else if (one.users)
        throw UsageError(
            "--evidence: must be a query of one row and one column, the number of writes under a "
            "term");
    } catch (const DatabaseError& error) {
      if (one.users) throw UsageError(fmt::format("--evidence: {}", error.what()));
    } catch (const std::logic_error&) {
      throw UsageError(fmt::format("{}: no number", one.what));
    } catch (const Unavailable&) {
      // The database is locked or unreachable just now. If it stays so, fence() reports it at the
      // end.
    } catch (const Blocked&) {}
  }
  return found;
}

std::int64_t Ground::audited_refusals(std::int64_t term) {
  std::int64_t all = 0;
  try {
    const Rows events = Operator(*database_).explain(plan_.scope, 1000);
    for (const Row& each : events.rows) {
      const termgate::detail::NamedRow row(events, each);
      if (row["action"].as_text() != "refuse") continue;
      const auto detail = boost::json::parse(row["detail"].as_text());
      if (detail.at("term").to_number<std::int64_t>() == term)
        all += detail.at("count").to_number<std::int64_t>();
    }
  } catch (const std::exception&) {
    // The role may not read the audit, or the database is busy: the audit is no witness then.
  }
  return all;
}

bool Ground::locked() {
  if (!storm::is_sqlite(plan_.url)) return false;
  try {
    const auto sql = storm::connect(plan_.url);
    // Short, because instance 1 is stopped meanwhile, and its lease must not expire.
    sql->run("PRAGMA busy_timeout = 100");
    sql->run("BEGIN IMMEDIATE");
    sql->roll_back();
    return false;
  } catch (const Error&) { return true; }
}

}  // namespace termgate::cli::drill
