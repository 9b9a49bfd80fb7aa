// doctor and verify: they only read, each in one view of the database.
#include <termgate/detail/sqlite/tables.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include <sql/statements.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include "unit.hpp"

namespace termgate {
inline namespace v0 {
namespace sqlite {
namespace {

namespace stmt = termgate::sql::sqlite_statements;

std::string sql_call(std::string_view function,
                     const std::vector<std::optional<std::string>>& arguments) {
  std::string text = fmt::format("SELECT {}(", function);
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    text += fmt::format("{}{}", at > 0 ? ", " : "",
                        arguments[at] ? quoted_literal(*arguments[at]) : "NULL");
  }
  return text + ")";
}

}  // namespace

std::vector<Doctor::Advice> Doctor::look() {
  const Core::Snapshot snapshot(core_);
  Findings findings;
  // The parts of a newer version are unknown here. Without layer 1 the next read reports that this
  // is not a database of Termgate.
  if (const int version = core_.installed_version();
      version > 0 && version <= sql::sqlite_migrations().back().version) {
    const auto missing = setup_.missing_parts();
    for (const Setup::Part& part : missing)
      findings.push_back(
          {"error", part.name, "it is gone, or not what layer 1 made", "run termgate init again"});
    // The other checks read these tables.
    if (std::any_of(missing.begin(), missing.end(),
                    [](const Setup::Part& part) { return part.table; }))
      return findings;
  }
  untrusted(findings);
  protected_tables(findings);
  adopted_tables(findings);
  uncovered_tables(findings);
  leases(findings);
  attached_files(findings);
  connection(findings);
  return findings;
}

void Doctor::untrusted(Findings& findings) {
  const char* const remedy =
      "acquire its lease, or termgate_declare_restored, or termgate_declare_nothing_lost";
  {
    Running read = core_.use(stmt::fences_untrusted);
    while (read.step())
      findings.push_back({"error", "scope " + read.text(0),
                          "its fence is untrusted, so its writes get TG004", remedy});
  }
  Running read = core_.use(stmt::incarnation_read);
  if (read.step() && read.integer(0) != 0) {
    findings.push_back({"error", "every scope without a fence",
                        "it is untrusted, so its writes get TG004", remedy});
  }
}

// Whether a table's triggers are those that its columns and indexes require today.
void Doctor::triggers(Findings& findings, const std::string& table, std::string_view prefix,
                      Tables::Triggers wanted, const std::string& again) {
  Tables::Triggers present;
  Running read = core_.use(stmt::triggers_of);
  read.bind(table).bind(prefix);
  while (read.step()) present.emplace_back(read.text(0), read.text(1));
  std::sort(wanted.begin(), wanted.end());
  std::sort(present.begin(), present.end());
  if (wanted != present) {
    findings.push_back(
        {"error", "table " + table, "its triggers do not match its columns and indexes", again});
  }
}

// The arguments of a call of protect or adopt, followed by the prefix if the table has one.
std::vector<std::optional<std::string>> Doctor::with_prefix(
    std::string_view made_by, std::string_view table,
    std::vector<std::optional<std::string>> arguments) {
  if (std::string prefix = tables_.scope_prefix(made_by, table); !prefix.empty())
    arguments.emplace_back(std::move(prefix));
  return arguments;
}

void Doctor::protected_tables(Findings& findings) {
  struct Protected {
    std::string table;
    std::optional<std::string> column, scope;
    std::string mode;
  };
  std::vector<Protected> all;
  {
    Running read = core_.use(stmt::protected_all);
    while (read.step())
      all.push_back({read.text(0), read.optional_text(1), read.optional_text(2), read.text(3)});
  }
  for (const Protected& row : all) {
    try {
      triggers(
          findings, row.table, Tables::protect_prefix,
          tables_.protect_triggers(tables_.find(row.table, "protect"), row.column, row.scope,
                                   row.mode),
          sql_call("termgate_protect", with_prefix("protect", row.table,
                                                   {row.table, row.column, row.scope, row.mode})));
    } catch (const InvalidInput&) {
      findings.push_back({"error", "table " + row.table,
                          "it was protected, and its table or scope column is gone",
                          sql_call("termgate_unprotect", {row.table})});
    }
    if (row.mode == "observe") {
      findings.push_back({"info", "table " + row.table, "mode observe: nothing is refused",
                          sql_call("termgate_protect",
                                   with_prefix("protect", row.table,
                                               {row.table, row.column, row.scope, "enforce"}))});
    }
  }
}

void Doctor::adopted_tables(Findings& findings) {
  struct Adopted {
    std::string table, scope_column, term_column;
  };
  std::vector<Adopted> all;
  {
    Running read = core_.use(stmt::adopted_read);
    while (read.step()) all.push_back({read.text(0), read.text(1), read.text(2)});
  }
  for (const Adopted& row : all) {
    try {
      triggers(
          findings, row.table, Tables::adopt_prefix,
          tables_.adopt_triggers(tables_.find(row.table, "adopt"), row.scope_column,
                                 row.term_column),
          sql_call("termgate_adopt", with_prefix("adopt", row.table,
                                                 {row.table, row.scope_column, row.term_column})));
    } catch (const InvalidInput&) {
      findings.push_back({"error", "table " + row.table, "it was adopted, and its table is gone",
                          sql_call("termgate_unadopt", {row.table})});
    }
  }
}

void Doctor::uncovered_tables(Findings& findings) {
  const auto protect = [](const std::string& table) {
    return fmt::format("SELECT termgate_protect({}, SCOPE_COLUMN)", quoted_literal(table));
  };
  {
    Running read = core_.use(stmt::unprotected_adopted);
    while (read.step()) {
      findings.push_back({"warning", "table " + read.text(0),
                          "it is adopted and not protected: a stale writer may still write to it",
                          protect(read.text(0))});
    }
  }
  {
    Running read = core_.use(stmt::unfenced_tables);
    while (read.step())
      findings.push_back(
          {"info", "table " + read.text(0), "it is not protected", protect(read.text(0))});
  }
  Running read = core_.use(stmt::observed_all);
  while (read.step()) {
    findings.push_back(
        {"info", "table " + read.text(0),
         fmt::format("mode observe would have refused {} rows of scope \"{}\" with {}",
                     read.integer(3), read.text(1), read.text(2)),
         "declare a term in that program, then protect with mode enforce"});
  }
}

void Doctor::leases(Findings& findings) {
  Running read = core_.use(stmt::leases_over);
  const Moment moment = core_.now();
  read.bind(moment);
  while (read.step()) {
    findings.push_back({"info", "scope " + read.text(0),
                        fmt::format("the lease of {} (term {}) is past its time by {} ms",
                                    read.text(1), read.integer(2), moment - read.integer(3)),
                        "the next acquisition takes it"});
  }
  Running ahead = core_.use(stmt::leases_ahead);
  ahead.bind(moment);
  while (ahead.step()) {
    findings.push_back(
        {"warning", "scope " + ahead.text(0),
         fmt::format("the lease of {} was taken while the clock was ahead: it ends in {} ms",
                     ahead.text(1), ahead.integer(2) - moment),
         "set the clock right; the next attempt to acquire it limits it to its TTL"});
  }
}

void Doctor::attached_files(Findings& findings) {
  std::vector<std::string> names;
  {
    Running read = core_.use(stmt::attached);
    while (read.step()) names.push_back(read.text(0));
  }
  for (const std::string& name : names) {
    Statement fences(core_.connection(),
                     fmt::format("SELECT 1 FROM {}.sqlite_schema WHERE name = 'termgate_fences'",
                                 quoted_identifier(name)));
    if (!Running(fences.get()).step()) continue;
    findings.push_back({"warning", "attached file " + name,
                        "it has fences of its own, which this connection does not compare with: "
                        "writes to its protected and adopted tables are TG005 here",
                        "open it as the main database of a connection"});
  }
}

void Doctor::connection(Findings& findings) {
  if (const auto problem = core_.file().unfit())
    findings.push_back(
        {"error", "this connection", problem->text, "see there, then open the file again"});
  if (!core_.file().foreign_locks().empty()) {
    findings.push_back(
        {"warning", "this connection",
         fmt::format("its locks are those of the VFS \"{}\"", core_.file().foreign_locks()),
         "see that it excludes every other program that writes to the file"});
  }
  if (const std::string problem = core_.flush().problem(); !problem.empty()) {
    findings.push_back({"error", "this connection", "it cannot raise a fence: " + problem,
                        "PRAGMA synchronous = FULL"});
  }
  int triggers_on = 1;
  if (sqlite3_db_config(core_.connection(), SQLITE_DBCONFIG_ENABLE_TRIGGER, -1, &triggers_on) ==
          SQLITE_OK &&
      triggers_on == 0) {
    findings.push_back(
        {"error", "this connection",
         "triggers are switched off (SQLITE_DBCONFIG_ENABLE_TRIGGER), so protect does nothing here",
         "switch them on"});
  }
  Statement statement(core_.connection(), "PRAGMA main.journal_mode");
  Running mode(statement.get());
  const char* path = sqlite3_db_filename(core_.connection(), "main");
  const bool file = path != nullptr && *path != '\0';
  if (mode.step() && file && (mode.text(0) == "memory" || mode.text(0) == "off")) {
    findings.push_back({"error", "this connection",
                        "PRAGMA journal_mode is " + mode.text(0) +
                            ": a crash in the middle of a write damages the file",
                        "PRAGMA journal_mode = WAL"});
  }
  struct stat status {};
  if (file && stat(path, &status) == 0 && (status.st_mode & S_IWOTH) != 0) {
    findings.push_back({"warning", path,
                        "every user of this machine may write to the file, and so past Termgate",
                        "chmod o-w"});
  }
}

std::vector<Doctor::Breach> Doctor::verify(Moment since) {
  const Core::Snapshot snapshot(core_);
  std::vector<Breach> breaches;
  if (const auto problem = core_.file().unfit())
    breaches.push_back({"not looked at", "", "what other programs wrote", problem->text});
  auto find = [&](std::string kind, std::string scope, std::string object, std::string detail) {
    breaches.push_back({std::move(kind), std::move(scope), std::move(object), std::move(detail)});
  };
  const auto each = [&](std::string_view statement, const std::vector<std::int64_t>& parameters,
                        const std::function<void(Running&)>& row) {
    Running read = core_.use(statement);
    for (const std::int64_t parameter : parameters) read.bind(parameter);
    while (read.step()) row(read);
  };
  // Prunings of the history are recorded, so rows that they may have removed are not reported as
  // missing.
  Moment known_from = 0;
  bool clock_went_back = false;
  each(stmt::verify_known_from, {}, [&](Running& row) {
    known_from = row.integer(0);
    clock_went_back = row.integer(1) != 0;
  });
  each(stmt::verify_order, {since}, [&](Running& row) {
    find("order", row.text(0), "stream " + row.text(1),
         fmt::format("write {} has term {} after term {}", row.integer(2), row.integer(3),
                     row.integer(4)));
  });
  each(stmt::verify_scope_order, {since, clock_went_back}, [&](Running& row) {
    const std::string detail =
        fmt::format("write {} has term {}, and was written when the scope had come to term {}",
                    row.integer(2), row.integer(3), row.integer(4));
    find("order", row.text(0), "stream " + row.text(1), detail);
  });
  each(stmt::verify_gaps, {since}, [&](Running& row) {
    find("gap", row.text(0), "stream " + row.text(1),
         fmt::format("write {} follows write {}", row.integer(2), row.integer(3)));
  });
  each(stmt::verify_beginnings, {known_from}, [&](Running& row) {
    const std::string there = row.is_null(2) ? "none of its writes is there"
                                             : fmt::format("its first write is {}", row.integer(2));
    find("gap", row.text(0), "stream " + row.text(1),
         fmt::format("the last number is {}, {}, and pruning is on record up to {}", row.integer(3),
                     there, row.integer(4) - 1));
  });
  each(stmt::verify_last_no, {}, [&](Running& row) {
    find("last_no", row.text(0), "stream " + row.text(1),
         row.is_null(2) ? fmt::format("the stream has no row, and writes up to {}", row.integer(3))
                        : fmt::format("the last number is {}, and the last write {}",
                                      row.integer(2), row.integer(3)));
  });
  each(stmt::verify_scopes, {known_from}, [&](Running& row) {
    find("scope", row.text(0), "stream " + row.text(1),
         fmt::format("write {} is of this scope, and the stream is of \"{}\" and was never moved",
                     row.integer(2), row.text(3)));
  });
  each(stmt::verify_fences, {}, [&](Running& row) {
    find("fence", row.text(0), "fence",
         fmt::format("it stands at {}, below a stored term {}", row.integer(1), row.integer(2)));
  });
  each(stmt::verify_audited, {}, [&](Running& row) {
    find(
        "fence", row.text(0), "fence",
        fmt::format("it stands at {}, below term {} of the audit", row.integer(1), row.integer(2)));
  });
  if (known_from == 0) {
    each(stmt::verify_raises, {}, [&](Running& row) {
      find("raise", row.text(0), row.integer(2) != 0 ? "fence" : "stream writes",
           fmt::format("term {} is there, and no raise to it is on record", row.integer(1)));
    });
  }
  each(stmt::verify_resets, {known_from}, [&](Running& row) {
    find("reset", row.text(0), "termgate_resets",
         fmt::format("a reset from {} to {} is not on record", row.integer(1), row.integer(2)));
  });
  each(stmt::verify_leases, {}, [&](Running& row) {
    find("lease", row.text(0), "lease",
         fmt::format("its term {} is above the fence, {}", row.integer(1), row.integer(2)));
  });
  each(stmt::verify_write_ids, {}, [&](Running& row) {
    find("write_id", row.text(0), "stream " + row.text(1),
         fmt::format("write {} carries id {}, which names another", row.integer(2), row.text(3)));
  });
  // Judges what adopted tables have reported; does not read the tables.
  if (core_.installed_version() >= Core::first_with_prefixes) {
    each(stmt::adopted_terms_above, {}, [&](Running& row) {
      find("adopted", row.text(0), "",
           fmt::format("the fence stands at {}, below term {} of a row of an adopted table",
                       row.integer(2), row.integer(1)));
    });
  }
  return breaches;
}

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
