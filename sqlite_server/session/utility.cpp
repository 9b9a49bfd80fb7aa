// What the session carries out itself: transactions and savepoints, settings, cursors, SQL's PREPARE, EXPLAIN, VACUUM.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

#include <termgate/pgwire/encode.hpp>

#include "values/forms.hpp"
#include "session/session.hpp"

namespace termgate::sqlite_server {

namespace oid = dialect::oid;
using dialect::TransactionControl;

namespace {

bool truth(const std::string& name, const std::string& value) {
  const std::string word = lowered(value);
  if (word == "on" || word == "true" || word == "yes" || word == "1" || word == "t") return true;
  if (word == "off" || word == "false" || word == "no" || word == "0" || word == "f") return false;
  throw PgException("22023", "parameter \"" + name + "\" requires a Boolean value");
}

bool is_utc(std::string value) {
  value = lowered(value);
  return value == "utc" || value == "gmt" || value == "etc/utc" || value == "0" || value == "00:00" || value == "+00:00" ||
         value == "+00" || value == "default" || value == "local" || value.empty();
}

}  // namespace

// --- transactions

void Session::set_read_only(bool on) {
  begin_if_needed();
  if (!on && tx_.read_only && tx_.queried) throw PgException("25001", "transaction read-write mode must be set before any query");
  tx_.read_only = on;
}

// It is shown, and no more: nothing here could be deferred to a safe snapshot, for every snapshot of a file is one.
void Session::set_deferrable(bool on) {
  begin_if_needed();
  if (!tx_.savepoints.empty()) throw PgException("25001", "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction");
  if (tx_.queried) throw PgException("25001", "SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
  tx_.deferrable = on;
}

void Session::set_modes(const dialect::TransactionModes& modes) {
  begin_if_needed();
  if (modes.isolation) {
    const std::string level = lowered(*modes.isolation);
    if (tx_.queried && level != tx_.isolation)
      throw PgException("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query");
    if (!tx_.savepoints.empty() && level != tx_.isolation)
      throw PgException("25001", "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction");
    tx_.isolation = level;
    tx_.snapshot = level == "repeatable read" || level == "serializable";
  }
  if (modes.read_only) set_read_only(*modes.read_only);
  if (modes.deferrable) set_deferrable(*modes.deferrable);
}

// Long: one case for each command of a transaction.
std::string Session::run_control(const TransactionControl& control) {
  using What = TransactionControl::What;
  const auto notice = [&](std::string_view sqlstate, std::string_view text) {
    pgwire::append_notice_response(out_, pgwire::report("WARNING", sqlstate, text));
  };
  const auto find = [&] {
    const auto found =
        std::find_if(tx_.savepoints.rbegin(), tx_.savepoints.rend(), [&](const Savepoint& each) { return each.name == control.savepoint; });
    if (found == tx_.savepoints.rend()) throw PgException("3B001", "savepoint \"" + control.savepoint + "\" does not exist");
    return tx_.savepoints.size() - 1 - static_cast<std::size_t>(found - tx_.savepoints.rbegin());
  };
  const auto inner = [&](const std::string& text) {
    if (!tx_.writer) return;
    if (sqlite3_exec(tx_.connection->handle(), text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) tx_.connection->fail(SQLITE_ERROR);
  };
  // AND CHAIN: the next block begins at once, in the modes of this one.
  const auto chain = [&, isolation = tx_.isolation, read_only = tx_.read_only, deferrable = tx_.deferrable] {
    if (!control.chain) return;
    begin_if_needed();
    tx_.isolation = isolation;
    tx_.snapshot = isolation == "repeatable read" || isolation == "serializable";
    tx_.read_only = read_only;
    tx_.deferrable = deferrable;
    status_ = Status::block;
  };
  const auto ends = [&](const char* word) {
    if (tx_.grouped)
      throw PgException("0A000", std::string(word) +
                                     " behind a write of the same pipeline cannot be told apart from others' here: send a Sync before it");
    if (status_ != Status::idle) return;
    if (control.chain) throw PgException("25P01", std::string(word) + " AND CHAIN can only be used in transaction blocks");
    notice("25P01", "there is no transaction in progress");
  };
  switch (control.what) {
    case What::begin:
      if (tx_.grouped)
        throw PgException("0A000",
                          "BEGIN behind a write of the same pipeline cannot be taken into its transaction here: send a Sync before it");
      if (status_ == Status::block) {
        notice("25001", "there is already a transaction in progress");
      } else {
        begin_if_needed();
        status_ = Status::block;
      }
      set_modes(control.modes);
      return "BEGIN";
    case What::commit: {
      ends("COMMIT");
      if (status_ == Status::failed) {
        roll_back();
        chain();
        return "ROLLBACK";
      }
      try {
        for (auto& [name, portal] : portals_) {
          // A cursor WITH HOLD outlives what it reads.
          if (!portal->hold) continue;
          if (!portal->made && portal->text) read_rest(*portal, "a cursor WITH HOLD");
          portal->kept = portal->made;
        }
      } catch (...) {
        roll_back();
        throw;
      }
      commit();
      chain();
      return "COMMIT";
    }
    case What::rollback:
      ends("ROLLBACK");
      close_portals(false);
      release_lane();
      settings_.rollback();
      tx_ = Transaction();
      status_ = Status::idle;
      chain();
      return "ROLLBACK";
    case What::savepoint: {
      if (status_ == Status::idle) throw PgException("25P01", "SAVEPOINT can only be used in transaction blocks");
      Savepoint made{control.savepoint, "lite_" + std::to_string(tx_.savepoints.size()), settings_.mark()};
      inner("SAVEPOINT " + made.inner);
      tx_.savepoints.push_back(std::move(made));
      return "SAVEPOINT";
    }
    case What::release: {
      if (status_ == Status::idle) throw PgException("25P01", "RELEASE SAVEPOINT can only be used in transaction blocks");
      const std::size_t at = find();
      inner("RELEASE " + tx_.savepoints[at].inner);
      tx_.savepoints.resize(at, Savepoint{});
      return "RELEASE";
    }
    case What::rollback_to: {
      if (status_ == Status::idle) throw PgException("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks");
      const std::size_t at = find();
      close_portals(false);
      if (tx_.lost || (tx_.writer && !tx_.connection->sqlite().in_transaction())) {
        // SQLite has rolled back all of it: an interrupt does that, a full disk too.
        throw PgException("25P02", "the whole transaction was rolled back by the error before: only ROLLBACK is left");
      }
      inner("ROLLBACK TO " + tx_.savepoints[at].inner);
      settings_.rollback_to(tx_.savepoints[at].settings);
      tx_.savepoints.resize(at + 1, Savepoint{});
      status_ = Status::block;
      return "ROLLBACK";
    }
  }
  return {};
}

// --- settings

std::string Session::show(std::string_view given) const {
  const std::string name = lowered(given);
  if (name == "transaction_read_only")
    return (tx_.started ? tx_.read_only : settings_.get("default_transaction_read_only") == "on") ? "on" : "off";
  if (name == "transaction_isolation")
    return tx_.started ? tx_.isolation : settings_.get("default_transaction_isolation").value_or("read committed");
  if (name == "transaction_deferrable") return (tx_.started ? tx_.deferrable : settings_.default_deferrable()) ? "on" : "off";
  const auto value = settings_.get(name);
  if (!value) {
    const SqlError problem = unknown_setting(given);
    throw PgException(problem.sqlstate, problem.message);
  }
  return *value;
}

std::optional<std::string> Session::setting(std::string_view name) const {
  try {
    return show(name);
  } catch (const PgException&) { return std::nullopt; }
}

std::vector<Setting> Session::settings() const {
  std::vector<Setting> all = CatalogSession::settings();
  for (const auto& [name, value] : settings_.all()) {
    const std::string wanted = lowered(name);
    const auto known = std::find_if(all.begin(), all.end(), [&](const Setting& each) { return lowered(each.name) == wanted; });
    if (known == all.end())
      all.push_back({name, value, "", name.find('.') != std::string::npos ? "Customized Options" : "Client Connection Defaults", ""});
  }
  for (Setting& each : all) each.value = setting(each.name).value_or(each.value);
  return all;
}

std::vector<PreparedStatement> Session::prepared_statements() const {
  std::vector<PreparedStatement> all;
  for (const auto& [name, one] : statements_) {
    if (!name.empty()) all.push_back({name, one->text ? *one->text : std::string(), one->made_us, one->parameters, one->by_sql});
  }
  return all;
}

// As in PostgreSQL a portal of the protocol is listed too, that of the asking statement included, but not the one of a simple query.
std::vector<OpenCursor> Session::cursors() const {
  std::vector<OpenCursor> all;
  for (const auto& [name, one] : portals_) {
    const auto& text = one->source ? one->source : one->statement->text;
    all.push_back({name, text ? *text : std::string(), one->made_us == 0 ? now_us() : one->made_us, one->hold, one->scroll});
  }
  return all;
}

std::variant<std::string, SqlError> Session::set(std::string_view name, std::string_view value, bool local) {
  dialect::SetVariable one;
  one.name = name;
  one.values = {std::string(value)};
  one.local = local;
  try {
    set_variable(one);
    return show(name);
  } catch (const PgException& failed) { return SqlError{failed.fault().sqlstate, failed.fault().message}; }
}

void Session::set_variable(const dialect::SetVariable& set) {
  const std::string name = lowered(set.name);
  std::optional<std::string> value;
  if (!set.values.empty()) {
    value.emplace();
    for (const std::string& each : set.values) *value += (value->empty() ? "" : ", ") + each;
  }
  if (value && lowered(*value) == "default" && name != "termgate.scope") value.reset();
  if (name == "all") return settings_.reset_all();
  if (name == "transaction_read_only")
    return set_read_only(value ? truth(set.name, *value) : settings_.get("default_transaction_read_only") == "on");
  if (name == "transaction_isolation") {
    dialect::TransactionModes modes;
    modes.isolation = value.value_or("read committed");
    return set_modes(modes);
  }
  if (name == "transaction_deferrable") return set_deferrable(value ? truth(set.name, *value) : settings_.default_deferrable());
  if (name == "role" || name == "session_authorization" || name == "seed") return;
  if (name == "timezone" && value && !is_utc(*value))
    throw PgException("0A000", "times are kept and shown in UTC here: TimeZone " + *value + " is not spoken");
  if (name == "timezone") value = "UTC";
  if (name == "names") return settings_.set("client_encoding", value, set.local);
  settings_.set(name, value, set.local);
  if (tx_.writer && (name == "termgate.scope" || name == "termgate.term")) declare_to_law();
}

// --- the rest

void Session::run_vacuum(const dialect::Vacuum& vacuum) {
  if (vacuum.vacuum && (status_ != Status::idle || tx_.writer)) throw PgException("25001", "VACUUM cannot run inside a transaction block");
  const char* word = vacuum.vacuum ? "VACUUM" : "ANALYZE";
  if (tx_.read_only) throw PgException("25006", "cannot execute " + std::string(word) + " in a read-only transaction");
  if (vacuum.vacuum && vacuum.tables.empty()) {
    // SQLite runs it in no transaction, so what the session holds is checked in one before it, which writes nothing; nobody of this process
    // gets in between. The pages that VACUUM moves are no write of anybody's.
    become_writer(held_.value_or(Want{}));
    SqlConnection& on = *tx_.connection;
    if (on.sqlite().control("ROLLBACK") != SQLITE_OK) on.fail(SQLITE_ERROR);
    on.sqlite().layer1().transaction_undone();
    tx_.began = tx_.writer = false;
    at_work(on, [&] {
      // It attaches a file of its own.
      sqlite3_limit(on.handle(), SQLITE_LIMIT_ATTACHED, 1);
      const int code = sqlite3_exec(on.handle(), "VACUUM", nullptr, nullptr, nullptr);
      sqlite3_limit(on.handle(), SQLITE_LIMIT_ATTACHED, 0);
      if (code != SQLITE_OK) on.fail(code);
    });
    release_lane();
  }
  // SQLite has no VACUUM of one table; there is nothing in one that has to be.
  if (vacuum.vacuum && !vacuum.analyze) return;
  become_writer({});
  SqlConnection& on = *tx_.connection;
  at_work(on, [&] {
    if (vacuum.tables.empty()) {
      // Of all tables, Termgate's too: no text of the client's, so the guard is not asked.
      if (const int code = sqlite3_exec(on.handle(), "ANALYZE", nullptr, nullptr, nullptr); code != SQLITE_OK) on.fail(code);
    }
    for (const std::string& table : vacuum.tables) on.prepare("ANALYZE " + table).step();
  });
}

void Session::run_explain(Portal& portal, const dialect::Explain& explain) {
  const dialect::Translated& of = *explain.statement;
  if (explain.analyze) throw PgException("0A000", "EXPLAIN ANALYZE is not spoken here: SQLite explains without running");
  if (of.sql.empty()) throw PgException("0A000", "there is no plan of " + of.tag);
  SqlConnection::Text text = sql_connection().prepare("EXPLAIN QUERY PLAN " + of.sql.back());
  std::deque<std::vector<Stored>> rows;
  at_work(sql_connection(), [&] {
    while (text.step() == SQLITE_ROW) rows.push_back({std::string(reinterpret_cast<const char*>(sqlite3_column_text(text.get(), 3)))});
  });
  make(portal, {{"QUERY PLAN", oid::text}}, std::move(rows));
}

// What FETCH gives of a cursor whose rows are all there, and where the cursor is afterwards: as PostgreSQL's DoPortalRunFetch().
void Session::scroll(Portal& cursor, const dialect::FetchCursor& fetch) {
  using Direction = dialect::FetchCursor::Direction;
  const auto size = static_cast<std::int64_t>(cursor.all_rows.size());
  std::int64_t& place = cursor.place;
  cursor.made_rows.clear();
  const auto give = [&](std::int64_t at) {
    if (at >= 1 && at <= size) cursor.made_rows.push_back(cursor.all_rows[static_cast<std::size_t>(at) - 1]);
  };
  const auto go_to = [&](std::int64_t at) {
    place = std::clamp<std::int64_t>(at, 0, size + 1);
    give(place);
  };
  // Beyond every place there is the end, whatever the number.
  const std::int64_t count = std::clamp<std::int64_t>(fetch.count, -size - 2, size + 2);
  if (fetch.direction == Direction::absolute) return go_to(count < 0 ? size + 1 + count : count);
  if (fetch.direction == Direction::relative) return go_to(place + count);
  const bool back = (fetch.direction == Direction::backward) != (count < 0);
  if (count == 0) return give(place);
  for (std::int64_t left = std::abs(count); left > 0 && (back ? place > 0 : place <= size); --left) give(place += back ? -1 : 1);
}

std::string Session::run_fetch(Portal& portal, const dialect::FetchCursor& fetch) {
  using Direction = dialect::FetchCursor::Direction;
  Portal& cursor = find_portal(fetch.name);
  if (cursor.scroll) {
    scroll(cursor, fetch);
    const std::string tag = (fetch.move ? "MOVE " : "FETCH ") + std::to_string(cursor.made_rows.size());
    cursor.formats = portal.formats;
    if (fetch.move) return tag;
    if (portal.statement == nullptr) describe_rows(cursor.columns, portal.formats);
    give_rows(cursor, 0);
    return tag;
  }
  if ((fetch.direction != Direction::forward && !(fetch.direction == Direction::relative && fetch.count == 1)) || fetch.count < 0)
    throw PgException("0A000", "a cursor that goes back is not supported on SQLite: it can only scan forward");
  start(cursor);
  cursor.rows = 0;
  const std::string kind = fetch.move ? "MOVE " : "FETCH ";
  if (fetch.count == 0) return kind + "0";
  const std::uint64_t most = fetch.count == std::numeric_limits<std::int64_t>::max() ? 0 : static_cast<std::uint64_t>(fetch.count);
  know_columns(cursor, true);
  const std::size_t before = out_.size();
  cursor.formats = portal.formats;
  // A simple query describes what it fetches; the extended one was asked.
  if (!fetch.move && portal.statement == nullptr) describe_rows(cursor.columns, portal.formats);
  give_rows(cursor, most);
  if (fetch.move) out_.resize(before);
  return kind + std::to_string(cursor.rows);
}

std::string Session::run_execute(Portal& portal, const dialect::ExecuteStatement& execute) {
  const auto statement = find_statement(execute.name);
  auto inner = std::make_unique<Portal>();
  inner->statement = statement;
  inner->plan = statement->plan();
  if (inner->plan == nullptr) throw PgException("0A000", "EXECUTE of an empty statement");
  if (execute.arguments.size() != statement->parameters.size()) {
    throw PgException("42601", "wrong number of parameters for prepared statement \"" + execute.name + "\"");
  }
  for (std::size_t i = 0; i < execute.arguments.size(); ++i) {
    SqlConnection::Text value = sql_connection().prepare("SELECT " + execute.arguments[i]);
    if (value.writes()) throw PgException("0A000", "an argument of EXECUTE may not write");
    bind_values(value.get(), portal.values);
    if (value.step() != SQLITE_ROW || sqlite3_column_type(value.get(), 0) == SQLITE_NULL) {
      inner->values.emplace_back();
      continue;
    }
    const std::string text(reinterpret_cast<const char*>(sqlite3_column_text(value.get(), 0)),
                           static_cast<std::size_t>(sqlite3_column_bytes(value.get(), 0)));
    auto parsed = parse_value(text, statement->parameters[i], Format::text);
    if (const auto* problem = std::get_if<SqlError>(&parsed)) throw PgException(problem->sqlstate, problem->message);
    inner->values.push_back(std::move(std::get<Stored>(parsed)));
  }
  inner->formats = portal.formats;
  if (inner->plan->does.effect == dialect::Effect::utility)
    throw PgException("0A000", "EXECUTE of " + inner->plan->does.tag + " is not spoken here");
  start(*inner);
  know_columns(*inner, true);
  if (!inner->columns.empty() && portal.statement == nullptr) describe_rows(inner->columns, portal.formats);
  give_rows(*inner, 0);
  return tag_of(*inner);
}

// Long: one case for each kind of command.
std::string Session::run_utility(Portal& portal, const Plan& plan) {
  if (const auto* control = plan.utility<TransactionControl>()) return run_control(*control);
  if (const auto* set = plan.utility<dialect::SetVariable>()) {
    set_variable(*set);
    return plan.does.tag.empty() ? "SET" : plan.does.tag;
  }
  if (const auto* modes = plan.utility<dialect::SetTransaction>()) {
    if (modes->session) {
      if (modes->modes.isolation) settings_.set("default_transaction_isolation", lowered(*modes->modes.isolation), false);
      if (modes->modes.read_only) settings_.set("default_transaction_read_only", *modes->modes.read_only ? "on" : "off", false);
      if (modes->modes.deferrable) settings_.set("default_transaction_deferrable", *modes->modes.deferrable ? "on" : "off", false);
    } else {
      set_modes(modes->modes);
    }
    return "SET";
  }
  if (const auto* wanted = plan.utility<dialect::ShowVariable>()) {
    std::deque<std::vector<Stored>> rows;
    if (wanted->name == "all") {
      for (const auto& [name, value] : settings_.all()) rows.push_back({name, value, std::string()});
      know_columns(portal, false);
      make(portal, portal.columns, std::move(rows));
    } else {
      rows.push_back({show(wanted->name)});
      make(portal, {{shown_name(wanted->name), oid::text}}, std::move(rows));
    }
    return "SHOW";
  }
  if (const auto* explain = plan.utility<dialect::Explain>()) {
    run_explain(portal, *explain);
    return "EXPLAIN";
  }
  if (const auto* vacuum = plan.utility<dialect::Vacuum>()) {
    run_vacuum(*vacuum);
    return vacuum->vacuum ? "VACUUM" : "ANALYZE";
  }
  if (const auto* declare = plan.utility<dialect::DeclareCursor>()) {
    if (status_ == Status::idle && !declare->hold) throw PgException("25P01", "DECLARE CURSOR can only be used in transaction blocks");
    if (declare->binary) throw PgException("0A000", "BINARY cursors are not spoken here");
    if (portals_.contains(declare->name)) throw PgException("42P03", "cursor \"" + declare->name + "\" already exists");
    auto cursor = std::make_shared<Portal>();
    auto prepared = std::make_shared<Prepared>();
    auto plans = std::make_shared<std::vector<Plan>>(1);
    plans->front().does = *declare->query;
    plans->front().schema = plan.schema;
    prepared->plans = plans;
    cursor->statement = prepared;
    cursor->plan = prepared->plan();
    cursor->values = portal.values;
    cursor->cursor = true;
    cursor->hold = declare->hold;
    cursor->source = plan.text;
    cursor->made_us = now_us();
    if (plan_writes(*cursor->plan)) throw PgException("0A000", "a cursor reads");
    start(*cursor);
    if (declare->scroll) {
      read_rest(*cursor, "a cursor with SCROLL");
      cursor->all_rows.assign(std::make_move_iterator(cursor->made_rows.begin()), std::make_move_iterator(cursor->made_rows.end()));
      cursor->made_rows.clear();
      cursor->scroll = true;
    }
    // What is held beyond its transaction is read to its end.
    if (status_ == Status::idle && !cursor->scroll) read_rest(*cursor, "a cursor WITH HOLD");
    cursor->kept = status_ == Status::idle;
    portals_.insert_or_assign(declare->name, std::move(cursor));
    return "DECLARE CURSOR";
  }
  if (const auto* fetch = plan.utility<dialect::FetchCursor>()) return run_fetch(portal, *fetch);
  if (const auto* close = plan.utility<dialect::CloseCursor>()) {
    if (close->name.empty()) {
      std::erase_if(portals_, [](const auto& one) { return one.second->cursor; });
      return "CLOSE CURSOR ALL";
    }
    find_portal(close->name);
    portals_.erase(portals_.find(close->name));
    return "CLOSE CURSOR";
  }
  if (const auto* made = plan.utility<dialect::PrepareStatement>()) {
    if (statements_.contains(made->name)) throw PgException("42P05", "prepared statement \"" + made->name + "\" already exists");
    auto plans = std::make_shared<std::vector<Plan>>(1);
    plans->front().does = *made->statement;
    plans->front().schema = plan.schema;
    const auto prepared = prepare(plans, made->statement->parameters);
    prepared->text = plan.text;
    prepared->made_us = now_us();
    prepared->by_sql = true;
    statements_.insert_or_assign(made->name, prepared);
    return "PREPARE";
  }
  if (const auto* execute = plan.utility<dialect::ExecuteStatement>()) return run_execute(portal, *execute);
  if (const auto* gone = plan.utility<dialect::Deallocate>()) {
    if (gone->name.empty()) {
      statements_.clear();
      return "DEALLOCATE ALL";
    }
    find_statement(gone->name);
    statements_.erase(statements_.find(gone->name));
    return "DEALLOCATE";
  }
  if (const auto* discard = plan.utility<dialect::Discard>()) {
    using What = dialect::Discard::What;
    if (discard->what == What::all) {
      if (status_ != Status::idle) throw PgException("25001", "DISCARD ALL cannot run inside a transaction block");
      statements_.clear();
      portals_.clear();
      release_lane();
      drop_temporary();
      held_.reset();
      settings_.reset_all();
      return "DISCARD ALL";
    }
    if (discard->what == What::temporary && temporary_) {
      if (status_ != Status::idle) throw PgException("0A000", "DISCARD TEMP within a transaction block is not supported");
      release_lane();
      drop_temporary();
    }
    return discard->what == What::plans ? "DISCARD PLANS" : discard->what == What::sequences ? "DISCARD SEQUENCES" : "DISCARD TEMP";
  }
  if (plan.utility<dialect::Unlisten>() != nullptr) return "UNLISTEN";
  if (plan.utility<dialect::Listen>() != nullptr || plan.utility<dialect::Notify>() != nullptr)
    throw PgException("0A000", "LISTEN and NOTIFY are not supported in front of an SQLite file");
  if (plan.utility<dialect::Checkpoint>() != nullptr) return "CHECKPOINT";
  throw PgException("0A000", plan.does.tag + " is not spoken here");
}

}  // namespace termgate::sqlite_server
