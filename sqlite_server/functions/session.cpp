// What a session says of itself: user, settings, process, counters, waiting.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>

#include "functions/functions.hpp"
#include "catalog/query.hpp"

namespace termgate::sqlite_server {
namespace {

void current_setting(Call& call) {
  if (call.null(0)) return call.answer_null();
  const std::string name = lower(call.text(0));
  if (const auto value = call.state.session().setting(name)) return call.answer(*value);
  const SqlError problem = unknown_setting(call.text(0));
  if (problem.sqlstate == "42704" && call.count > 1 && !call.null(1) && call.whole(1) != 0) return call.answer_null();
  throw CallError{problem};
}

void set_config(Call& call) {
  if (call.null(0)) fail("22004", "SET requires parameter name");
  const auto result = call.state.session().set(lower(call.text(0)), call.null(1) ? "" : call.text(1), !call.null(2) && call.whole(2) != 0);
  if (const auto* problem = std::get_if<SqlError>(&result)) throw CallError{*problem};
  call.answer(std::get<std::string>(result));
}

void current_schemas(Call& call) { call.answer(call.whole(0) != 0 ? "{pg_catalog,public}" : "{public}"); }

// The first of the search path that is there.
void current_schema(Call& call) {
  const std::string path = call.state.session().setting("search_path").value_or("public");
  for (std::string_view name : fields_of(path, ',')) {
    while (!name.empty() && (name.front() == ' ' || name.front() == '"')) name.remove_prefix(1);
    while (!name.empty() && (name.back() == ' ' || name.back() == '"')) name.remove_suffix(1);
    if (name == "public" || name == "pg_catalog" || name == "information_schema" || name == "termgate") return call.answer(name);
  }
  call.answer_null();
}

void sleep(Call& call) {
  const double seconds = call.real(0);
  if (!(seconds >= 0 && seconds < 1e9)) fail("22023", "pg_sleep() of this many seconds is not supported");
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
  while (std::chrono::steady_clock::now() < end) {
    if (call.state.session().cancelled()) fail("57014", "canceling statement due to user request");
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(end - std::chrono::steady_clock::now(), std::chrono::milliseconds(20)));
  }
  call.answer("");
}

void notify(Call& call) {
  if (call.null(0) || call.text(0).empty()) fail("22023", "channel name cannot be empty");
  if (const auto problem = call.state.session().notify(call.text(0), call.null(1) ? "" : call.text(1))) throw CallError{*problem};
  call.answer("");
}

template <bool unlock>
void advisory(Call& call) {
  const std::int64_t key =
      call.count > 1
          ? static_cast<std::int64_t>(static_cast<std::uint64_t>(call.whole(0)) << 32 | static_cast<std::uint32_t>(call.whole(1)))
          : call.whole(0);
  const auto result = call.state.session().advisory(key, unlock);
  if (!result) fail("0A000", "advisory locks are not supported on SQLite");
  unlock ? call.answer(*result) : call.answer("");
}

template <bool terminate>
void signal(Call& call) {
  const auto heard = call.state.session().signal(static_cast<std::int32_t>(call.whole(0)), terminate);
  if (const auto* problem = std::get_if<SqlError>(&heard)) throw CallError{*problem};
  call.answer(std::get<bool>(heard));
}

// ------------------------------------------------------------------------------------------------ counters

// The table of the sequence 't_id_seq': one whose counted column makes that name.
struct Counter {
  std::string table, column;
};

Counter counter_of(Call& call, std::string name) {
  if (name.starts_with("public.")) name.erase(0, 7);
  if (name.size() > 2 && name.front() == '"' && name.back() == '"') name = name.substr(1, name.size() - 2);
  const auto schema = call.state.schema();
  for (const SchemaRelation& relation : schema->relations) {
    for (const SchemaColumn& column : relation.columns) {
      if (column.counted && relation.space == namespaces::user && lower(relation.name + "_" + column.name + "_seq") == lower(name))
        return {relation.name, column.name};
    }
  }
  fail("42P01", "relation \"" + name + "\" does not exist");
}

// Where the column is AUTOINCREMENT; else the highest row id.
std::int64_t counted_so_far(Call& call, const Counter& counter, bool& kept) {
  std::int64_t value = 0;
  kept = false;
  {
    Query query(call.state.connection(), "SELECT seq FROM main.sqlite_sequence WHERE name = ?1");
    query.bind(counter.table);
    if (query.step()) {
      value = query.integer(0);
      kept = true;
    }
  }
  Query query(call.state.connection(), "SELECT max(" + in_quotes(counter.column) + ") FROM main." + in_quotes(counter.table));
  if (query.step() && !query.is_null(0)) value = std::max(value, query.integer(0));
  return value;
}

void keep(Call& call, const Counter& counter, std::int64_t value, bool kept) {
  Query query(call.state.connection(), kept ? "UPDATE main.sqlite_sequence SET seq = ?2 WHERE name = ?1"
                                            : "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?1, ?2)");
  query.bind(counter.table).bind(value);
  query.step();
  if (query.failed()) fail("0A000", "table \"" + counter.table + "\" has no counter that is kept: its key is not AUTOINCREMENT");
}

void may_write(Call& call, std::string_view function) {
  if (!call.state.session().may_write()) fail("25006", "cannot execute " + std::string(function) + "() in a read-only transaction");
}

void nextval(Call& call) {
  may_write(call, "nextval");
  const Counter counter = counter_of(call, call.text(0));
  const CatalogState::Reading reading(call.state);
  bool kept = false;
  std::int64_t value = counted_so_far(call, counter, kept);
  if (__builtin_add_overflow(value, 1, &value)) fail("2200H", "nextval: reached maximum value of sequence \"" + call.text(0) + "\"");
  keep(call, counter, value, kept);
  call.state.session().count(counter.table, value);
  call.answer(value);
}

void setval(Call& call) {
  may_write(call, "setval");
  const Counter counter = counter_of(call, call.text(0));
  const CatalogState::Reading reading(call.state);
  bool kept = false;
  counted_so_far(call, counter, kept);
  const std::int64_t value = call.whole(1);
  if (value < 1) fail("22003", "setval: value " + std::to_string(value) + " is out of bounds for sequence \"" + call.text(0) + "\"");
  const bool used = call.count < 3 || call.whole(2) != 0;
  keep(call, counter, used ? value : value - 1, kept);
  if (used) call.state.session().count(counter.table, value);
  call.answer(value);
}

void currval(Call& call) {
  const auto value = call.state.session().counted(counter_of(call, call.text(0)).table);
  if (!value) fail("55000", "currval of sequence \"" + call.text(0) + "\" is not yet defined in this session");
  call.answer(*value);
}
void lastval(Call& call) {
  const auto value = call.state.session().counted({});
  if (!value) fail("55000", "lastval is not yet defined in this session");
  call.answer(*value);
}

void serial_sequence(Call& call) {
  std::string table = call.text(0);
  if (table.starts_with("public.")) table.erase(0, 7);
  if (table.size() > 2 && table.front() == '"' && table.back() == '"') table = table.substr(1, table.size() - 2);
  const auto schema = call.state.schema();
  const SchemaRelation* relation = schema->named(table, namespaces::user);
  if (relation == nullptr) fail("42P01", "relation \"" + call.text(0) + "\" does not exist");
  for (const SchemaColumn& column : relation->columns) {
    if (column.name != call.text(1)) continue;
    return column.counted ? call.answer("public." + quoted_identifier(relation->name + "_" + column.name + "_seq")) : call.answer_null();
  }
  fail("42703", "column \"" + call.text(1) + "\" of relation \"" + relation->name + "\" does not exist");
}

void upsert_once(Call& call) {
  if (call.state.changed(call.text(0), call.whole(1))) fail("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time");
  call.answer(true);
}

// clang-format off
constexpr Body session_bodies[] = {
    {"version", [](Call& call) { call.answer("PostgreSQL 15.0 (Termgate over SQLite " + std::string(sqlite3_libversion()) + ")"); }},
    {"current_database", [](Call& call) { call.answer(call.state.database()); }}, {"current_schema", current_schema, false, false}, {"current_schemas", current_schemas},
    {"current_user", [](Call& call) { call.answer(call.state.session().user()); }, false, false}, {"session_user", [](Call& call) { call.answer(call.state.session().user()); }, false, false},
    {"current_setting", current_setting, true, false}, {"set_config", set_config, true, false}, {"pg_backend_pid", [](Call& call) { call.answer(std::int64_t{call.state.session().process_id()}); }, false, false},
    {"pg_is_in_recovery", [](Call& call) { call.answer(false); }}, {"pg_postmaster_start_time", [](Call& call) { call.answer(moment_of(call.state.session().server_began_us())); }, false, false},
    {"pg_client_encoding", [](Call& call) { call.answer(call.state.session().setting("client_encoding").value_or("UTF8")); }}, {"txid_current", [](Call& call) { call.answer(call.state.session().transaction_began_us()); }, false, false}, {"pg_sleep", sleep, false, false},
    {"pg_notify", notify, true, false}, {"pg_advisory_lock", advisory<false>, false, false}, {"pg_advisory_unlock", advisory<true>, false, false}, {"pg_cancel_backend", signal<false>, false, false},
    {"pg_terminate_backend", signal<true>, false, false}, {"inet_server_addr", [](Call& call) { call.answer_null(); }}, {"inet_server_port", [](Call& call) { call.answer_null(); }}, {"nextval", nextval, false, false},
    {"pg_upsert_once", upsert_once, false, false}, {"setval", setval, false, false}, {"currval", currval, false, false}, {"lastval", lastval, false, false}, {"pg_get_serial_sequence", serial_sequence, false, false},
};
// clang-format on

}  // namespace

std::span<const Body> session_functions() { return session_bodies; }

}  // namespace termgate::sqlite_server
