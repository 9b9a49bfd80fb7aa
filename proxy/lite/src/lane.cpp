#include "lane.hpp"

#include <time.h>

#include <chrono>
#include <thread>
#include <utility>

#include <termgate/lite/values.hpp>

#include "guard.hpp"

namespace termgate::lite {

// --- Control

void Control::begins(sqlite3* db, bool shared) {
  const std::lock_guard lock(mutex_);
  running_ = db;
  cancelled_ = false;
  shared_ = shared;
}

void Control::ends() {
  const std::lock_guard lock(mutex_);
  running_ = nullptr;
}

std::string Control::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void Control::cancel() {
  const std::lock_guard lock(mutex_);
  if (running_ == nullptr) return;
  cancelled_ = true;
  if (!shared_) sqlite3_interrupt(running_);
}

void Control::evict(std::string why) {
  const std::lock_guard lock(mutex_);
  if (evicted_) return;
  why_ = std::move(why);
  evicted_ = true;
  // A higher term goes before those who share the commit with a stale one: they are told to run again.
  if (running_ != nullptr) sqlite3_interrupt(running_);
  hang_up();
}

// --- Lane

namespace {

Lane& lane_of(sqlite3_context* context) { return *static_cast<Lane*>(sqlite3_user_data(context)); }

std::string_view text_of(sqlite3_value* value) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return bytes == nullptr ? std::string_view() : std::string_view(bytes, static_cast<std::size_t>(sqlite3_value_bytes(value)));
}

void answer(sqlite3_context* context, std::string_view text) { sqlite3_result_text64(context, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8); }

void answer_fault(sqlite3_context* context, const Fault& fault) {
  const std::string text = fault.sqlstate + " " + fault.message;
  sqlite3_result_error(context, text.data(), static_cast<int>(text.size()));
}

std::string moment(std::int64_t us) {
  const auto seconds = static_cast<time_t>(us / 1'000'000);
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[48];
  std::string result(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts));
  std::string fraction = std::to_string(1'000'000 + us % 1'000'000).substr(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  if (!fraction.empty()) result += "." + fraction;
  return result + "+00";
}

template <class Work>
void guarded(sqlite3_context* context, const Work& work) {
  Facts* facts = lane_of(context).facts;
  if (facts == nullptr) return sqlite3_result_null(context);
  try {
    work(*facts);
  } catch (const Failed& failed) {
    answer_fault(context, failed.fault());
  }
}

// In slices, so that a cancel or an eviction ends it.
void pg_sleep(sqlite3_context* context, int, sqlite3_value** values) {
  guarded(context, [&](Facts& facts) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::min(sqlite3_value_double(values[0]), 1e6));
    while (std::chrono::steady_clock::now() < until) {
      if (facts.control().interrupted()) throw Failed("57014", "canceling statement due to user request");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    answer(context, "");
  });
}

}  // namespace

Lane::Lane(const OpenAs& how, const std::function<void(sqlite3*)>& install) : connection_(how, false, false) {
  // Anything that the guard did not see prepared is ours.
  sqlite3_set_authorizer(handle(), authorize, this);
  sqlite3_limit(handle(), SQLITE_LIMIT_EXPR_DEPTH, 500);  // within a session's stack
  sqlite3_limit(handle(), SQLITE_LIMIT_TRIGGER_DEPTH, 50);
  // VACUUM INTO is an ATTACH that no authorizer sees before it runs.
  sqlite3_limit(handle(), SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_commit_hook(handle(), [](void* self) { return static_cast<Lane*>(self)->writable ? 0 : 1; }, this);
  register_functions();
  if (install) install(handle());
}

Lane::~Lane() {
  for (const Kept& each : kept_) sqlite3_finalize(each.statement);
}

int Lane::authorize(void* held, int action, const char* first, const char* second, const char*, const char*) {
  Lane& self = *static_cast<Lane*>(held);
  if (!self.from_network_) return SQLITE_OK;
  if (action == SQLITE_FUNCTION && second != nullptr && function_writes(second)) self.calls_writer_ = true;
  return may(action, first, second, self.refused_) ? SQLITE_OK : SQLITE_DENY;
}

void Lane::fail(int code) {
  const int extended = sqlite3_extended_errcode(handle());
  Fault fault = fault_of((extended & 0xff) == (code & 0xff) || code == SQLITE_ERROR ? extended : code, sqlite3_errmsg(handle()));
  if (extended == SQLITE_CONSTRAINT_UNIQUE && !fault.table.empty()) name_index(fault);
  throw Failed(fault);
}

// SQLite names the columns only; an index that was created by a name is what PostgreSQL would name.
void Lane::name_index(Fault& fault) {
  static constexpr const char* sql =
      "SELECT l.name FROM pragma_index_list(?1) l WHERE l.\"unique\" AND l.origin = 'c' AND (SELECT group_concat(name, '_') FROM (SELECT i.name FROM pragma_index_info(l.name) i ORDER BY i.seqno)) = ?2";
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle(), sql, -1, &statement, nullptr) != SQLITE_OK) return;
  sqlite3_bind_text(statement, 1, fault.table.c_str(), -1, SQLITE_STATIC);
  sqlite3_bind_text(statement, 2, fault.column.c_str(), -1, SQLITE_STATIC);
  if (sqlite3_step(statement) == SQLITE_ROW) {
    fault.constraint = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    fault.message = "duplicate key value violates unique constraint \"" + fault.constraint + "\"";
  }
  sqlite3_finalize(statement);
  fault.column.clear();
}

sqlite3_stmt* Lane::prepare_now(const std::string& sql) {
  refused_.clear();
  calls_writer_ = false;
  sqlite3_stmt* statement = nullptr;
  from_network_ = true;
  const int code = sqlite3_prepare(handle(), sql.data(), static_cast<int>(sql.size()) + 1, &statement, nullptr);
  from_network_ = false;
  if (code == SQLITE_OK) return statement;
  if (!refused_.empty()) throw Failed("42501", refused_);
  fail(code);
}

Lane::Text Lane::prepare(const std::string& sql) {
  for (auto each = kept_.begin(); each != kept_.end(); ++each) {
    if (each->sql != sql) continue;
    Text text(*this, std::move(each->sql), each->statement, each->calls_writer);
    kept_.erase(each);
    return text;
  }
  sqlite3_stmt* statement = prepare_now(sql);
  return Text(*this, sql, statement, calls_writer_);
}

void Lane::keep(std::string&& sql, sqlite3_stmt* statement, bool calls_writer) noexcept {
  if (statement == nullptr) return;
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (sql.size() > kept_text_bytes_max) {
    sqlite3_finalize(statement);
    return;
  }
  kept_.push_front({std::move(sql), statement, calls_writer});
  if (kept_.size() <= kept_max) return;
  sqlite3_finalize(kept_.back().statement);
  kept_.pop_back();
}

Lane::Text& Lane::Text::operator=(Text&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  lane_ = other.lane_;
  sql_ = std::move(other.sql_);
  statement_ = std::exchange(other.statement_, nullptr);
  calls_writer_ = other.calls_writer_;
  stepped_ = other.stepped_;
  return *this;
}

void Lane::Text::give_back() noexcept {
  if (statement_ != nullptr) lane_->keep(std::move(sql_), std::exchange(statement_, nullptr), calls_writer_);
  stepped_ = false;
}

int Lane::Text::step() {
  for (int again = 0;; ++again) {
    int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW || code == SQLITE_DONE) {
      stepped_ = true;
      return code;
    }
    // The older interface says what it was only here.
    code = sqlite3_reset(statement_);
    if (code != SQLITE_SCHEMA || stepped_ || again == 25) lane_->fail(code);
    sqlite3_stmt* fresh = lane_->prepare_now(sql_);
    if (sqlite3_transfer_bindings(statement_, fresh) != SQLITE_OK) {
      sqlite3_finalize(fresh);
      lane_->fail(SQLITE_SCHEMA);
    }
    sqlite3_finalize(std::exchange(statement_, fresh));
  }
}

void Lane::register_functions() {
  const auto add = [&](const char* name, int arguments, void (*function)(sqlite3_context*, int, sqlite3_value**), int flags = 0) {
    sqlite3_create_function_v2(handle(), name, arguments, SQLITE_UTF8 | flags, this, function, nullptr, nullptr, nullptr);
  };
  add("pg_backend_pid", 0, [](sqlite3_context* c, int, sqlite3_value**) { guarded(c, [&](Facts& who) { sqlite3_result_int64(c, who.pid()); }); });
  for (const char* name : {"current_user", "session_user"}) {
    add(name, 0, [](sqlite3_context* c, int, sqlite3_value**) { guarded(c, [&](Facts& who) { answer(c, who.user()); }); });
  }
  add("current_database", 0, [](sqlite3_context* c, int, sqlite3_value**) { guarded(c, [&](Facts& who) { answer(c, who.database()); }); });
  add("current_schema", 0, [](sqlite3_context* c, int, sqlite3_value**) { answer(c, "public"); });
  add("version", 0, [](sqlite3_context* c, int, sqlite3_value**) { answer(c, std::string("PostgreSQL 15.0 (Termgate, SQLite ") + sqlite3_libversion() + ")"); });
  add("pg_is_in_recovery", 0, [](sqlite3_context* c, int, sqlite3_value**) { sqlite3_result_int(c, 0); });
  add("pg_now", 0, [](sqlite3_context* c, int, sqlite3_value**) { guarded(c, [&](Facts& who) { answer(c, moment(who.transaction_began_us())); }); });
  add("clock_timestamp", 0, [](sqlite3_context* c, int, sqlite3_value**) {
    answer(c, moment(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count()));
  });
  for (const int arguments : {1, 2}) {
    add("current_setting", arguments, [](sqlite3_context* c, int count, sqlite3_value** values) {
      guarded(c, [&](Facts& who) {
        const bool fine = count == 2 && sqlite3_value_int(values[1]) != 0;
        answer(c, who.setting(text_of(values[0]), fine));
      });
    });
  }
  add("set_config", 3, [](sqlite3_context* c, int, sqlite3_value** values) {
    guarded(c, [&](Facts& who) { answer(c, who.set(text_of(values[0]), text_of(values[1]), sqlite3_value_int(values[2]) != 0)); });
  });
  add("pg_sleep", 1, pg_sleep);
  // The casts that translate() writes for values that are no constants.
  struct Cast {
    const char* name;
    Oid type;
  };
  static constexpr Cast casts[] = {{"pg_int2", 21},   {"pg_int4", 23},     {"pg_int8", 20},      {"pg_float4", 700},       {"pg_float8", 701}, {"pg_numeric", 1700}, {"pg_bool", 16}, {"pg_bytea", 17},
                                   {"pg_date", 1082}, {"pg_time", 1083}, {"pg_timestamp", 1114}, {"pg_timestamptz", 1184}, {"pg_uuid", 2950},  {"pg_json", 114},     {"pg_jsonb", 3802}};
  for (const Cast& cast : casts) {
    sqlite3_create_function_v2(
        handle(), cast.name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, const_cast<Cast*>(&cast),
        [](sqlite3_context* c, int, sqlite3_value** values) {
          const auto& to = *static_cast<const Cast*>(sqlite3_user_data(c));
          const int kind = sqlite3_value_type(values[0]);
          if (kind == SQLITE_NULL) return sqlite3_result_null(c);
          if (to.type == 17 && kind == SQLITE_BLOB) return sqlite3_result_value(c, values[0]);
          if (kind == SQLITE_FLOAT && (to.type == 20 || to.type == 21 || to.type == 23)) {
            const double rounded = __builtin_nearbyint(sqlite3_value_double(values[0]));
            if (!(rounded > -9.3e18 && rounded < 9.2e18)) return answer_fault(c, Fault{"22003", "value out of range"});
            return sqlite3_result_int64(c, static_cast<sqlite3_int64>(rounded));
          }
          const auto parsed = parse_value(text_of(values[0]), to.type, Format::text);
          if (const auto* problem = std::get_if<ValueProblem>(&parsed)) return answer_fault(c, Fault{problem->sqlstate, problem->message});
          const Stored& stored = std::get<Stored>(parsed);
          if (const auto* number = std::get_if<std::int64_t>(&stored)) sqlite3_result_int64(c, *number);
          else if (const auto* real = std::get_if<double>(&stored)) sqlite3_result_double(c, *real);
          else if (const auto* text = std::get_if<std::string>(&stored)) answer(c, *text);
          else if (const auto* blob = std::get_if<Blob>(&stored)) sqlite3_result_blob64(c, blob->bytes.data(), blob->bytes.size(), SQLITE_TRANSIENT);
          else sqlite3_result_null(c);
        },
        nullptr, nullptr, nullptr);
  }
  add("pg_text", 1, [](sqlite3_context* c, int, sqlite3_value** values) {
    if (sqlite3_value_type(values[0]) == SQLITE_NULL) return sqlite3_result_null(c);
    if (sqlite3_value_type(values[0]) != SQLITE_BLOB) return answer(c, text_of(values[0]));
    std::string out;
    const auto* bytes = static_cast<const char*>(sqlite3_value_blob(values[0]));
    (void)append_value(out, Blob{std::string(bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_value_bytes(values[0])))}, dialect::oid::bytea, Format::text);
    answer(c, out);
  }, SQLITE_DETERMINISTIC);
}

}  // namespace termgate::lite
