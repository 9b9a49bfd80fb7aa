// Statements and portals: what Parse, Bind, Describe, Execute and Close do, and simple queries with them.
// Long: one case for each kind of plan.
#include <algorithm>
#include <array>
#include <cstring>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include "values/forms.hpp"
#include "catalog/query.hpp"
#include "session/session.hpp"

namespace termgate::sqlite_server {

namespace backend = pgwire::backend;
namespace oid = dialect::oid;

namespace {

void append_int(std::string& out, std::uint32_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

// Of a body that decode_bind() has found whole.
class Fields {
 public:
  explicit Fields(std::string_view body) : body_(body) {}
  std::string_view name() {
    const std::string_view result = body_.substr(0, body_.find('\0'));
    body_.remove_prefix(result.size() + 1);
    return result;
  }
  std::uint32_t number(int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(body_[static_cast<std::size_t>(i)]);
    body_.remove_prefix(static_cast<std::size_t>(bytes));
    return value;
  }
  std::string_view bytes(std::size_t count) {
    const std::string_view result = body_.substr(0, count);
    body_.remove_prefix(count);
    return result;
  }

 private:
  std::string_view body_;
};

Format format_of(std::uint32_t code) {
  if (code > 1) throw PgException("22023", "unsupported format code: " + std::to_string(code));
  return code == 0 ? Format::text : Format::binary;
}

std::int16_t size_of(Oid type) {
  switch (type) {
    case oid::boolean:
    case 18: return 1;
    case oid::int2: return 2;
    case oid::int4:
    case oid::float4:
    case oid::date:
    case oid::oid: return 4;
    case oid::int8:
    case oid::float8:
    case oid::time:
    case oid::timestamp:
    case oid::timestamptz: return 8;
    case oid::interval:
    case oid::uuid: return 16;
    case oid::timetz: return 12;
    case oid::name: return 64;
    default: return -1;
  }
}

Stored stored_of(sqlite3_stmt* statement, int column) {
  const auto bytes = [&](const void* data) {
    return std::string(data != nullptr ? static_cast<const char*>(data) : "",
                       static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
  };
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
    case SQLITE_TEXT: return bytes(sqlite3_column_text(statement, column));
    case SQLITE_BLOB: return Blob{bytes(sqlite3_column_blob(statement, column))};
    default: return std::monostate();
  }
}

void append_made(std::string& out, const Stored& value, Oid type, Format format) {
  if (const auto problem = append_value(out, value, type, format)) throw PgException(problem->sqlstate, problem->message);
}

bool is_reg(Oid type) {
  static constexpr std::array<Oid, 11> all = {24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191};
  return std::find(all.begin(), all.end(), type) != all.end();
}

// A number as numeric(p,s) shows it: with the zeros after the point that SQLite does not keep. What has more digits keeps them.
Stored scaled(const Stored& value, int scale) {
  std::string text;
  if (scale == 0 || append_value(text, value, oid::numeric, Format::text)) return value;
  if (text.empty() || text.find_first_not_of("-.0123456789") != std::string::npos) return value;
  const auto point = text.find('.');
  const std::size_t digits = point == std::string::npos ? 0 : text.size() - point - 1;
  if (digits >= static_cast<std::size_t>(scale)) return value;
  if (point == std::string::npos) text += '.';
  text.append(static_cast<std::size_t>(scale) - digits, '0');
  return text;
}

// A char(n) with the blanks at its end, which are not stored.
Stored padded(const Stored& value, std::int32_t length) {
  std::string text = text_of(value);
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  if (characters < length) text.append(static_cast<std::size_t>(length - characters), ' ');
  return text;
}

// A typed statement reckons with a numeric's own digits.
std::variant<Stored, SqlError> bound_value(std::string_view bytes, Oid type, Format format, bool typed) {
  if (format == Format::text) {
    if (auto problem = encoding_problem(bytes)) return *std::move(problem);
  }
  if (!typed || type != oid::numeric) return parse_value(bytes, type, format);
  auto text = format == Format::text ? numeric_text(bytes) : numeric_text_of_binary(bytes);
  if (auto* problem = std::get_if<SqlError>(&text)) return std::move(*problem);
  return Stored(std::move(std::get<std::string>(text)));
}

bool stays_in_failed(const Plan& plan) {
  const auto* control = plan.utility<dialect::TransactionControl>();
  using What = dialect::TransactionControl::What;
  return control != nullptr && (control->what == What::commit || control->what == What::rollback || control->what == What::rollback_to);
}

constexpr int typed_again_max = 25;  // others may be changing the schema

// What SQLite runs of it is one statement, and changes nothing of the schema.
bool is_one_text(const Plan& plan) {
  using dialect::Effect;
  return plan.does.typed && (plan.does.effect == Effect::read || plan.does.effect == Effect::write) && plan.does.sql.size() == 1 &&
         plan.does.steps.empty();
}

// PostgreSQL asks the schema when it runs it, and has nothing to say of it before.
bool is_looked_at_late(const Plan& plan) {
  const std::string& tag = plan.does.tag;
  return (plan.does.effect == dialect::Effect::definition && tag != "SELECT" && tag != "CREATE TABLE AS") || tag == "TRUNCATE TABLE";
}

bool same_columns(const std::vector<dialect::Column>& before, const std::vector<dialect::Column>& now) {
  return std::equal(before.begin(), before.end(), now.begin(), now.end(), [](const dialect::Column& a, const dialect::Column& b) {
    return a.name == b.name && a.type == b.type && a.typmod == b.typmod;
  });
}

}  // namespace

// --- messages

std::shared_ptr<Session::Prepared> Session::prepare(const Plans& plans, std::vector<Oid> types) {
  auto prepared = std::make_shared<Prepared>();
  prepared->plans = plans;
  prepared->parameters = std::move(types);
  if (const Plan* plan = prepared->plan(); plan != nullptr && plan->does.typed) {
    if (plan->does.problem && !is_looked_at_late(*plan))
      throw PgException(
          PgError{plan->does.problem->sqlstate, plan->does.problem->message, {}, {}, {}, {}, {}, plan->does.problem->position});
    prepared->parameters = plan->does.parameters;
  } else if (plan != nullptr) {
    infer_parameters(*prepared, *plan);
  }
  for (Oid& type : prepared->parameters) {
    if (type == 0 || type == oid::unknown) type = oid::text;
  }
  return prepared;
}

void Session::infer_parameters(Prepared& prepared, const Plan& plan) {
  std::vector<Oid>& types = prepared.parameters;
  const auto know = [&](std::size_t number, Oid type) {
    if (types.size() < number) types.resize(number);
    if (types[number - 1] == 0) types[number - 1] = type;
  };
  for (std::size_t i = 0; i < plan.does.parameters.size(); ++i) know(i + 1, plan.does.parameters[i]);
  if (plan.own) {
    for (std::size_t i = 0; i < plan.own->arguments.size(); ++i) {
      const int number = plan.own->arguments[i].parameter;
      if (number > 0) know(static_cast<std::size_t>(number), i == 1 ? oid::int8 : oid::text);
    }
  }
  // SQLite notices a changed schema only at the first step; asking the catalog makes it look now.
  if (!plan.beside.empty() || plan.native) (void)sql_connection().catalog().relations();
  for (const Beside& beside : plan.beside) {
    if (types.size() >= beside.parameter && types[beside.parameter - 1] != 0) continue;
    for (const std::string& table : plan.tables) {
      try {
        SqlConnection::Text text = sql_connection().prepare("SELECT * FROM " + in_quotes(table));
        const int count = sqlite3_column_count(text.get());
        int at = beside.column.empty() ? static_cast<int>(beside.place) : count;
        for (int i = 0; !beside.column.empty() && i < count; ++i) {
          if (sqlite3_stricmp(sqlite3_column_name(text.get(), i), beside.column.c_str()) == 0) at = i;
        }
        if (at >= count) continue;
        if (const char* declared = sqlite3_column_decltype(text.get(), at)) know(beside.parameter, type_of_declaration(declared).oid);
        break;
      } catch (const PgException&) {
        continue;  // a common table expression, or one that is not there: reported when it is run
      }
    }
  }
  if (plan.native) {
    try {
      SqlConnection::Text text = sql_connection().prepare(plan.does.sql.back());
      if (const int count = sqlite3_bind_parameter_count(text.get()); count > 0) know(static_cast<std::size_t>(count), 0);
    } catch (const PgException& failed) {
      if (plan.better && failed.fault().sqlstate == "42601") throw PgException(*plan.better);
      throw;
    }
  }
}

void Session::parse(std::string_view name, const std::string& sql, const std::vector<Oid>& types) {
  Plans plans = planned(sql, types);
  if (plans->size() == 1 && plans->front().does.typed && status_ != Status::failed) {
    if (const auto now = sql_connection().catalog().relations(); now->id() != plans->front().schema) plans = plans_of(sql, types, now);
  }
  if (plans->size() > 1) throw PgException("42601", "cannot insert multiple commands into a prepared statement");
  if (!plans->empty()) check_allowed(plans->front());
  if (!name.empty() && statements_.contains(name))
    throw PgException("42P05", "prepared statement \"" + std::string(name) + "\" already exists");
  const auto prepared = prepare(plans, types);
  prepared->text = std::make_shared<const std::string>(sql);
  if (!name.empty()) prepared->made_us = now_us();
  statements_.insert_or_assign(std::string(name), prepared);
}

std::shared_ptr<Session::Prepared> Session::find_statement(std::string_view name) {
  const auto found = statements_.find(name);
  if (found == statements_.end())
    throw PgException("26000", name.empty() ? "unnamed prepared statement does not exist"
                                            : "prepared statement \"" + std::string(name) + "\" does not exist");
  return found->second;
}

Session::Portal& Session::find_portal(std::string_view name) {
  const auto found = portals_.find(name);
  if (found == portals_.end()) throw PgException("34000", "portal \"" + std::string(name) + "\" does not exist");
  return *found->second;
}

void Session::bind(std::string_view body) {
  if (const auto whole = pgwire::decode_bind(body); !whole) throw PgException("08P01", whole.problem().reason());
  Fields fields(body);
  const std::string name(fields.name());
  const std::string statement(fields.name());
  auto portal = std::make_shared<Portal>();
  portal->statement = find_statement(statement);
  portal->plan = portal->statement->plan();
  if (portal->plan != nullptr) check_allowed(*portal->plan);
  std::vector<Format> formats(fields.number(2));
  for (Format& each : formats) each = format_of(fields.number(2));
  const std::size_t count = fields.number(2);
  const std::vector<Oid>& types = portal->statement->parameters;
  if (count != types.size()) {
    throw PgException("08P01", "bind message supplies " + std::to_string(count) + " parameters, but prepared statement \"" + statement +
                                   "\" requires " + std::to_string(types.size()));
  }
  if (formats.size() > 1 && formats.size() != count)
    throw PgException(
        "08P01", "bind message has " + std::to_string(formats.size()) + " parameter formats but " + std::to_string(count) + " parameters");
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = static_cast<std::int32_t>(fields.number(4));
    if (size < 0) {
      portal->values.emplace_back();
      continue;
    }
    auto value = bound_value(fields.bytes(static_cast<std::size_t>(size)), types[i],
                             formats.empty()       ? Format::text
                             : formats.size() == 1 ? formats[0]
                                                   : formats[i],
                             portal->plan != nullptr && portal->plan->does.typed);
    if (const auto* problem = std::get_if<SqlError>(&value)) throw PgException(problem->sqlstate, problem->message);
    portal->values.push_back(std::move(std::get<Stored>(value)));
  }
  portal->formats.resize(fields.number(2));
  for (Format& each : portal->formats) each = format_of(fields.number(2));
  if (!name.empty() && portals_.contains(name)) throw PgException("42P03", "cursor \"" + name + "\" already exists");
  if (!name.empty()) portal->made_us = now_us();
  portals_.insert_or_assign(name, std::move(portal));
  pgwire::append_bare(out_, backend::bind_complete);
}

void Session::describe_rows(const std::vector<OutColumn>& columns, const std::vector<Format>& formats) {
  if (columns.empty()) return pgwire::append_bare(out_, backend::no_data);
  std::vector<pgwire::Column> all;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    pgwire::Column column;
    column.name = columns[i].name;
    column.type_oid = columns[i].type == 0 ? oid::text : columns[i].type;
    column.type_size = size_of(column.type_oid);
    column.type_modifier = columns[i].modifier;
    column.table_oid = columns[i].table;
    column.attribute = columns[i].place;
    const Format format = formats.empty()       ? Format::text
                          : formats.size() == 1 ? formats[0]
                          : i < formats.size()  ? formats[i]
                                                : Format::text;
    column.format = format == Format::binary ? 1 : 0;
    all.push_back(column);
  }
  pgwire::append_row_description(out_, all);
}

void Session::describe(std::string_view body) {
  const auto named = pgwire::decode_describe(body);
  if (!named) throw PgException("08P01", named.problem().reason());
  begin_if_needed();
  if (named->portal) {
    Portal& portal = find_portal(named->name);
    know_columns(portal, true);
    return describe_rows(portal.columns, portal.formats);
  }
  Portal portal;
  portal.statement = find_statement(named->name);
  portal.plan = portal.statement->plan();
  std::string types;
  append_int(types, static_cast<std::uint32_t>(portal.statement->parameters.size()), 2);
  for (const Oid type : portal.statement->parameters) append_int(types, type, 4);
  know_columns(portal, false);
  pgwire::append_opaque(out_, backend::parameter_description, types);
  describe_rows(portal.columns, {});
}

void Session::close(std::string_view body) {
  const auto named = pgwire::decode_close(body);
  if (!named) throw PgException("08P01", named.problem().reason());
  if (named->portal) {
    if (const auto found = portals_.find(named->name); found != portals_.end()) portals_.erase(found);
  } else if (const auto found = statements_.find(named->name); found != statements_.end()) {
    statements_.erase(found);
  }
  pgwire::append_bare(out_, backend::close_complete);
}

void Session::execute(std::string_view body) {
  const auto message = pgwire::decode_execute(body);
  if (!message) throw PgException("08P01", message.problem().reason());
  find_portal(message->portal);
  // COMMIT, DISCARD and CLOSE let go of the very portal that runs them.
  const std::shared_ptr<Portal> held = portals_.find(message->portal)->second;
  Portal& portal = *held;
  if (portal.plan == nullptr) return pgwire::append_bare(out_, backend::empty_query_response);
  check_allowed(*portal.plan);
  if (portal.scroll) throw PgException("0A000", "a cursor with SCROLL gives its rows to FETCH alone");
  begin_if_needed();
  if (!portal.started) {
    freshen(portal, true);
    give_notices(*portal.plan);
  }
  const auto* copy = portal.plan->utility<dialect::Copy>();
  if (portal.plan->does.effect == dialect::Effect::utility && !portal.made && !portal.started) {
    portal.started = true;
    const std::string tag = copy != nullptr ? run_copy(portal, *portal.plan) : run_utility(portal, *portal.plan);
    if (copy_in_) copy_in_->extended = true;
    if (tag.empty()) return;
    if (!portal.made) return pgwire::append_command_complete(out_, tag);
    portal.rows = 0;
  }
  start(portal);
  portal.rows = 0;
  if (!give_rows(portal, message->rows_max)) return pgwire::append_bare(out_, backend::portal_suspended);
  pgwire::append_command_complete(out_, tag_of(portal));
}

void Session::give_notices(const Plan& plan) {
  for (const std::string& notice : plan.does.notices) pgwire::append_notice_response(out_, pgwire::report("NOTICE", "00000", notice));
}

void Session::simple(const Plans& plans, bool& responded) {
  if (plans->empty()) return pgwire::append_bare(out_, backend::empty_query_response);
  for (const Plan& planned : *plans) {
    if (responded && !gathering_) start_clock();  // each statement of a text has its own
    responded = true;
    check_allowed(planned);
    begin_if_needed();
    // The last answer may depend on a COMMIT that is still to come.
    std::string& reply = &planned == &plans->back() ? last_ : out_;
    Portal portal;
    portal.plan = &planned;
    portal.several = plans->size() > 1;
    freshen(portal, true);
    const Plan& plan = *portal.plan;
    give_notices(plan);
    if (plan.does.effect == dialect::Effect::utility) {
      portal.started = true;
      const auto* copy = plan.utility<dialect::Copy>();
      if (copy != nullptr && copy->from && &planned != &plans->back())
        throw PgException("0A000", "behind COPY FROM STDIN there is no other statement in one query here");
      const std::string tag = copy != nullptr ? run_copy(portal, plan) : run_utility(portal, plan);
      if (tag.empty()) continue;
      if (portal.made) {
        describe_rows(portal.columns, {});
        give_rows(portal, 0);
        pgwire::append_command_complete(reply, tag_of(portal));
      } else {
        pgwire::append_command_complete(reply, tag);
      }
      continue;
    }
    start(portal);
    know_columns(portal, true);
    if (!portal.columns.empty()) describe_rows(portal.columns, {});
    give_rows(portal, 0);
    pgwire::append_command_complete(reply, tag_of(portal));
    // The next statement of the text may begin a block, which wants the connection for itself.
    portal.text = {};
    release_idle_lane();
  }
}

// --- running

void Session::check_allowed(const Plan& plan) {
  at_plan_ = {plan.text, plan.does.offset, plan.does.length};
  const bool ends = plan.does.problem && plan.does.problem->message.starts_with(ends_the_block);
  if (status_ == Status::failed && !stays_in_failed(plan) && !ends)
    throw PgException("25P02", "current transaction is aborted, commands ignored until end of transaction block");
}

// A check writes only where it raises the fence.
bool Session::only_checks(const Plan& plan) { return plan.own && plan.own->name.starts_with("check_"); }

bool Session::plan_writes(const Plan& plan) {
  using dialect::Effect;
  if (plan.own) return plan.own->name != "fence" && plan.own->name != "lease" && plan.own->name != "release_session";
  if (plan.does.effect == Effect::write || plan.does.effect == Effect::definition) return true;
  if (plan.does.effect == Effect::utility) {
    const auto* execute = plan.utility<dialect::ExecuteStatement>();
    if (execute == nullptr) return false;
    const auto found = statements_.find(execute->name);
    return found != statements_.end() && found->second->plan() != nullptr && plan_writes(*found->second->plan());
  }
  if (plan.does.effect == Effect::none || plan.does.sql.empty()) return false;
  try {
    return sql_connection().prepare(plan.does.sql.back()).writes();
  } catch (const PgException& failed) {
    if (plan.better && failed.fault().sqlstate == "42601") throw PgException(*plan.better);
    throw;
  }
}

void Session::freshen(Portal& portal, bool runs) {
  if (portal.plan == nullptr || !portal.plan->does.typed) return;
  if (portal.plan->does.temporary && !portal.plan->does.problem) use_own_connection();
  const Plan& old = *portal.plan;
  const bool one_text = runs && is_one_text(old) && !old.does.problem;
  // Asked under the lock, on the connection that will write.
  if (one_text && old.does.effect == dialect::Effect::write && !tx_.writer && !tx_.read_only) return;
  if (one_text && sql_connection().will_ask(old.does.sql.front(), old.schema)) {
    portal.checked = true;
    return;
  }
  if (const auto now = sql_connection().catalog().relations(); now->id() != old.schema) {
    if (old.source == nullptr) throw PgException("0A000", "the schema has changed since this statement was prepared: prepare it again");
    Plans fresh = plans_of(*old.source, portal.statement != nullptr ? portal.statement->parameters : old.declared, now);
    if (fresh->size() != 1) throw PgException("0A000", "the schema has changed since this statement was prepared: prepare it again");
    // Its client knows what the old one returns, and reads the values by that.
    if (portal.statement != nullptr && !same_columns(old.does.columns, fresh->front().does.columns) && !fresh->front().does.problem)
      throw PgException("0A000", "cached plan must not change result type");
    portal.fresh = std::move(fresh);
    portal.plan = &portal.fresh->front();
  }
  portal.checked = true;
  const auto& problem = portal.plan->does.problem;
  if (problem) throw PgException(PgError{problem->sqlstate, problem->message, {}, {}, {}, {}, {}, problem->position});
}

void Session::start(Portal& portal) {
  if (portal.started) return;
  portal.started = true;
  const Plan& plan = *portal.plan;
  if (plan.own) return run_own(portal, *plan.own);
  if (plan.does.effect == dialect::Effect::none) {
    if (plan.does.tag == "LOCK TABLE" && status_ != Status::block && !portal.several)
      throw PgException("25P01", "LOCK TABLE can only be used in transaction blocks");
    // Of these, PostgreSQL lets a transaction that reads say one.
    if (tx_.read_only && plan.does.tag != "SET CONSTRAINTS")
      throw PgException("25006", "cannot execute " + plan.does.tag + " in a read-only transaction");
    portal.done = true;
    return;
  }
  start_sql(portal);
}

void Session::bind_values(sqlite3_stmt* statement, const std::vector<Stored>& values, const std::vector<std::uint32_t>& places,
                          const std::vector<std::string>& steps) {
  const int count = sqlite3_bind_parameter_count(statement);
  for (int at = 1; at <= count; ++at) {
    std::size_t number = static_cast<std::size_t>(at);
    if (number <= places.size()) number = places[number - 1];
    else if (const char* name = sqlite3_bind_parameter_name(statement, at); name != nullptr) {
      char* end = nullptr;
      if (constexpr std::string_view step = ":pg_step"; !steps.empty() && std::string_view(name).starts_with(step)) {
        const std::size_t which = std::strtoul(name + step.size(), &end, 10);
        if (which == 0 || which > steps.size()) throw PgException("XX000", "a part of WITH is used before it has run");
        const std::string& text = steps[which - 1];
        if (const int code = sqlite3_bind_text64(statement, at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8); code != SQLITE_OK)
          throw PgException(error_of(code, sqlite3_errstr(code)));
        continue;
      }
      number = std::strtoul(name + 1, &end, 10);
      if ((name[0] != '$' && name[0] != '?') || *end != '\0' || number == 0)
        throw PgException("42P02", std::string("there is no parameter ") + name);
    }
    if (number > values.size()) throw PgException("42P02", "there is no parameter $" + std::to_string(number));
    const int code = std::visit(
        [&](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, std::monostate>) return sqlite3_bind_null(statement, at);
          else if constexpr (std::is_same_v<Held, std::int64_t>) return sqlite3_bind_int64(statement, at, held);
          else if constexpr (std::is_same_v<Held, double>) return sqlite3_bind_double(statement, at, held);
          else if constexpr (std::is_same_v<Held, std::string>)
            return sqlite3_bind_text64(statement, at, held.data(), held.size(), SQLITE_STATIC, SQLITE_UTF8);
          else return sqlite3_bind_blob64(statement, at, held.bytes.data(), held.bytes.size(), SQLITE_STATIC);
        },
        values[number - 1]);
    if (code != SQLITE_OK) throw PgException(error_of(code, sqlite3_errstr(code)));
  }
}

const std::vector<std::uint32_t>& Session::places_of(const Plan& plan, std::size_t sql) {
  static const std::vector<std::uint32_t> in_order;
  return sql < plan.does.places.size() ? plan.does.places[sql] : in_order;
}

// The notice of what IF [NOT] EXISTS leaves undone, as on PostgreSQL.
void Session::notice_of(SqlConnection& on, const std::string& definition) {
  struct Form {
    std::string_view begins, type, before, after, sqlstate;
    bool where_there;
  };
  static constexpr Form forms[] = {{"DROP TABLE IF EXISTS ", "table", "table ", " does not exist, skipping", "00000", false},
                                   {"DROP VIEW IF EXISTS ", "view", "view ", " does not exist, skipping", "00000", false},
                                   {"DROP INDEX IF EXISTS ", "index", "index ", " does not exist, skipping", "00000", false},
                                   {"CREATE TABLE IF NOT EXISTS ", "", "relation ", " already exists, skipping", "42P07", true},
                                   {"CREATE TEMP TABLE IF NOT EXISTS ", "", "relation ", " already exists, skipping", "42P07", true},
                                   {"CREATE INDEX IF NOT EXISTS ", "", "relation ", " already exists, skipping", "42P07", true},
                                   {"CREATE UNIQUE INDEX IF NOT EXISTS ", "", "relation ", " already exists, skipping", "42P07", true}};
  for (const Form& form : forms) {
    if (!definition.starts_with(form.begins)) continue;
    std::string name;
    std::size_t at = form.begins.size();
    if (at < definition.size() && definition[at] == '"') {
      for (++at; at < definition.size(); ++at) {
        if (definition[at] == '"' && (++at == definition.size() || definition[at] != '"')) break;
        name += definition[at];
      }
    } else {
      while (at < definition.size() && definition[at] != ' ' && definition[at] != '(' && definition[at] != ';') name += definition[at++];
    }
    SqlConnection::Text text = on.prepare(
        "SELECT 1 FROM (SELECT name, type FROM main.sqlite_schema UNION ALL SELECT name, type FROM temp.sqlite_schema) WHERE name = ?1 "
        "COLLATE NOCASE AND ?2 IN ('', type)");
    sqlite3_bind_text(text.get(), 1, name.data(), static_cast<int>(name.size()), SQLITE_STATIC);
    sqlite3_bind_text(text.get(), 2, form.type.data(), static_cast<int>(form.type.size()), SQLITE_STATIC);
    if ((text.step() == SQLITE_ROW) == form.where_there) {
      pgwire::append_notice_response(
          out_, pgwire::report("NOTICE", form.sqlstate, std::string(form.before) + "\"" + name + "\"" + std::string(form.after)));
    }
    return;
  }
}

void Session::start_sql(Portal& portal) {
  for (int again = 0;; ++again) {
    try {
      return run_sql(portal);
    } catch (const SqlConnection::StalePlan&) {
      if (again == typed_again_max) throw PgException("40001", "the schema changed again and again while the statement was to run");
      freshen(portal);
    }
  }
}

int Session::step_text(Portal& portal) {
  for (int again = 0;; ++again) {
    try {
      return portal.text.step();
    } catch (const SqlConnection::StalePlan&) {
      if (again == typed_again_max) throw PgException("40001", "the schema changed again and again while the statement was to run");
      portal.text = {};
      portal.described = false;
      freshen(portal);
      start_sql(portal);
      if (!portal.text) return SQLITE_DONE;
    }
  }
}

void Session::run_sql(Portal& portal) {
  if (!portal.checked) freshen(portal, true);
  if (!portal.plan->does.alone.empty() && status_ == Status::block)
    throw PgException("25001", portal.plan->does.alone + " cannot run inside a transaction block");
  if (plan_writes(*portal.plan)) {
    if (tx_.read_only) throw PgException("25006", "cannot execute " + portal.plan->does.tag + " in a read-only transaction");
    const bool writer = tx_.writer;
    become_writer({});
    tx_.wrote = true;
    settle_portals(&portal);
    // Whoever had the lock before may have changed the schema.
    if (!writer) freshen(portal, true);
  }
  const Plan& plan = *portal.plan;
  if (!plan.literals.empty()) portal.values.assign(plan.literals.begin(), plan.literals.end());
  SqlConnection& on = sql_connection();
  tx_.queried = tx_.read = true;
  if (plan.does.effect == dialect::Effect::definition) {
    for (const std::string& text : plan.does.sql) notice_of(on, text);
  }
  const bool native_definition = plan.native && (plan.does.tag.starts_with("CREATE ") || plan.does.tag.starts_with("ALTER "));
  if (temporary_ && (plan.does.effect == dialect::Effect::definition || native_definition)) return define_temporary(portal, on);
  if (plan.does.rebuild) {
    rebuild_table(on, plan);
    portal.done = true;
    return;
  }
  if (!plan.does.steps.empty()) run_steps(portal, on);
  for (std::size_t i = 0; i + 1 < plan.does.sql.size(); ++i) {
    SqlConnection::Text text = on.prepare(plan.does.sql[i]);
    bind_values(text.get(), portal.values, places_of(plan, i), portal.steps);
    at_work(on, [&] {
      while (text.step() == SQLITE_ROW) {}
    });
    if (plan.does.effect != dialect::Effect::definition) portal.changed += sqlite3_changes64(on.handle());
  }
  if (plan.does.sql.empty()) {
    portal.done = true;
    return;
  }
  portal.text = on.prepare(plan.does.sql.back());
  if (is_one_text(plan) && !temporary_) portal.text.of_schema(plan.schema);
  bind_values(portal.text.get(), portal.values, places_of(plan, plan.does.sql.size() - 1), portal.steps);
}

// What the statements of WITH that write return is kept until the statement itself has run.
void Session::run_steps(Portal& portal, SqlConnection& on) {
  std::size_t bytes = 0;
  for (const dialect::Translated::Step& step : portal.plan->does.steps) {
    std::string rows = "[";
    for (const std::string& sql : step.sql) {
      SqlConnection::Text text = on.prepare(sql);
      bind_values(text.get(), portal.values, {}, portal.steps);
      at_work(on, [&] {
        while (text.step() == SQLITE_ROW) {
          if (!step.rows) continue;
          if (rows.size() > 1) rows += ',';
          rows.append(reinterpret_cast<const char*>(sqlite3_column_text(text.get(), 0)),
                      static_cast<std::size_t>(sqlite3_column_bytes(text.get(), 0)));
          if (bytes + rows.size() > options_.gathered_bytes_max)
            throw PgException("54000",
                              "what a statement within WITH returns may have " + std::to_string(options_.gathered_bytes_max) + " bytes");
        }
      });
    }
    bytes += rows.size();
    portal.steps.push_back(std::move(rows) + "]");
  }
}

// A definition of a session with temporary tables: nothing of the file's may come to have the name of one.
void Session::define_temporary(Portal& portal, SqlConnection& on) {
  const Plan& plan = *portal.plan;
  const dialect::Translated& does = plan.does;
  const auto list = on_commit_of(on);
  const bool listed = std::any_of(list.begin(), list.end(), [&](const auto& each) { return each.first == does.temporary_name; });
  if (does.tag == "ALTER TABLE" && listed) throw PgException("0A000", "ALTER TABLE of a temporary table with ON COMMIT is not supported");
  const auto before = on.catalog().relations();
  const dialect::Relations::Relation* there = before->find(does.temporary_name);
  const bool existed = there != nullptr && there->temporary;  // IF NOT EXISTS leaves it as it is
  if (does.rebuild) {
    rebuild_table(on, plan);
  } else {
    for (const std::string& sql : does.sql) {
      SqlConnection::Text text = on.prepare(sql);
      bind_values(text.get(), portal.values);
      at_work(on, [&] {
        while (text.step() == SQLITE_ROW) {}
      });
      portal.changed = sqlite3_changes64(on.handle());
    }
  }
  on.refuse_clashes();
  const bool made = !existed && (does.tag == "CREATE TABLE" || does.tag == "SELECT" || does.tag == "CREATE TABLE AS");
  if (made && (does.on_commit != 0 || listed)) {
    const auto own = [&](const char* sql, const std::vector<std::string>& values) {
      sqlite3_stmt* statement = nullptr;
      if (const int code = sqlite3_prepare_v2(on.handle(), sql, -1, &statement, nullptr); code != SQLITE_OK) on.fail(code);
      for (std::size_t i = 0; i < values.size(); ++i)
        sqlite3_bind_text(statement, static_cast<int>(i) + 1, values[i].data(), static_cast<int>(values[i].size()), SQLITE_TRANSIENT);
      sqlite3_step(statement);
      if (const int code = sqlite3_finalize(statement); code != SQLITE_OK) on.fail(code);
    };
    own("CREATE TABLE IF NOT EXISTS temp.termgate_on_commit (name TEXT PRIMARY KEY, what TEXT)", {});
    own("DELETE FROM temp.termgate_on_commit WHERE name = ?1", {does.temporary_name});
    if (does.on_commit != 0)
      own("INSERT INTO temp.termgate_on_commit VALUES (?1, ?2)", {does.temporary_name, std::string(1, does.on_commit)});
  }
  portal.done = true;
}

const std::vector<OutColumn>& Session::columns_of(const Plan& plan, SqlConnection::Text& text) const {
  if (text.described() != nullptr && text.described()->plan == plan.id) return text.described()->columns;
  sqlite3_stmt* statement = text.get();
  const auto count = static_cast<std::size_t>(sqlite3_column_count(statement));
  std::vector<OutColumn> columns(count);
  const std::vector<dialect::Column>& listed = plan.does.columns;
  const auto stars =
      static_cast<std::size_t>(std::count_if(listed.begin(), listed.end(), [](const dialect::Column& each) { return each.star; }));
  // Of several stars it is not known how far each goes: then SQLite's own names are used.
  const bool known = !listed.empty() && stars <= 1 && count + stars >= listed.size() && (stars == 1 || count == listed.size());
  std::vector<Origin> origins(count);
  bool from_tables = false;
  for (std::size_t i = 0; i < count; ++i) {
    const char* table = sqlite3_column_table_name(statement, static_cast<int>(i));
    const char* column = sqlite3_column_origin_name(statement, static_cast<int>(i));
    if (table == nullptr || column == nullptr) continue;
    origins[i].table_name = table;
    origins[i].column_name = column;
    from_tables = true;
  }
  if (from_tables) text.owner().catalog().find_origins(origins);
  std::size_t place = 0;
  for (std::size_t i = 0; i < count; ++i) {
    OutColumn& column = columns[i];
    column.table = static_cast<std::uint32_t>(origins[i].table);
    column.place = origins[i].place;
    bool from_star = true;
    if (known) {
      const std::size_t star_columns = count - (listed.size() - stars);
      if (listed[place].star) {
        std::size_t star_at = place;
        if (i >= star_at + star_columns) ++place;
      }
      if (place < listed.size() && !listed[place].star) {
        from_star = false;
        column.name = listed[place].name;
        column.type = listed[place].type;
        column.modifier = listed[place].typmod;
        ++place;
      }
    }
    if (from_star) {
      const char* name = sqlite3_column_name(statement, static_cast<int>(i));
      column.name = name != nullptr ? name : "?column?";
    }
    if (const char* declared = sqlite3_column_decltype(statement, static_cast<int>(i)); declared != nullptr && column.type == 0) {
      const DeclaredType declared_type = type_of_declaration(declared);
      column.type = declared_type.oid;
      column.modifier = declared_type.typmod;
    }
  }
  text.described() = std::make_shared<const Described>(Described{plan.id, std::move(columns)});
  return text.described()->columns;
}

void Session::know_columns(Portal& portal, bool peek) {
  if (portal.described || portal.plan == nullptr) return;
  if (is_looked_at_late(*portal.plan)) return;
  if (!portal.started && !portal.text && status_ != Status::failed) {
    // Of one that returns nothing nothing is said.
    const bool silent = is_one_text(*portal.plan) && !portal.plan->does.returns_rows;
    freshen(portal, silent || (peek && portal.plan->does.effect == dialect::Effect::read));
  }
  const Plan& plan = *portal.plan;
  if (plan.own) {
    const auto text = [](const char* name) { return OutColumn{name, oid::text}; };
    const auto number = [](const char* name) { return OutColumn{name, oid::int8}; };
    const std::string& name = plan.own->name;
    if (name == "check_claim" || name == "check_again" || name == "check_session" || name == "hold_session" || name == "hold_claim")
      portal.columns = {text("scope"), number("term"), number("fence")};
    else if (name == "seal") portal.columns = {number("fence"), number("previous"), number("evicted"), {"sealed_at", oid::timestamptz}};
    else if (name == "check_claim_text") portal.columns = {text("check_claim_text")};
    else if (name == "release_session") portal.columns = {{name, oid::boolean}};
    else portal.columns = {number(name.c_str())};
    portal.described = true;
    return;
  }
  if (plan.does.effect == dialect::Effect::utility) {
    if (const auto* wanted = plan.utility<dialect::ShowVariable>()) {
      if (wanted->name == "all") portal.columns = {{"name", oid::text}, {"setting", oid::text}, {"description", oid::text}};
      else portal.columns = {{shown_name(wanted->name), oid::text}};
    } else if (plan.utility<dialect::Explain>() != nullptr) {
      portal.columns = {{"QUERY PLAN", oid::text}};
    } else if (const auto* fetch = plan.utility<dialect::FetchCursor>(); fetch != nullptr && !fetch->move) {
      Portal& cursor = find_portal(fetch->name);
      know_columns(cursor, false);
      portal.columns = cursor.columns;
    } else if (const auto* execute = plan.utility<dialect::ExecuteStatement>()) {
      Portal inner;
      inner.statement = find_statement(execute->name);
      inner.plan = inner.statement->plan();
      know_columns(inner, false);
      portal.columns = inner.columns;
    }
    return;
  }
  if (!plan.does.returns_rows && !plan.native) return;
  check_allowed(plan);
  if (!portal.text && !portal.done) {
    if (peek && !portal.started && !plan_writes(plan)) {
      start(portal);
      return know_columns(portal, peek);
    } else {
      // Of one that writes only what it would answer is looked at.
      if (peek && plan.does.effect == dialect::Effect::read) freshen(portal);
      if (!portal.plan->does.typed) (void)sql_connection().catalog().relations();  // else freshen() has asked it
      SqlConnection::Text text = sql_connection().prepare(portal.plan->does.sql.back());
      portal.columns = columns_of(*portal.plan, text);
      portal.described = portal.started;
      return;
    }
  }
  if (!portal.text) return;
  portal.described = true;
  if (!peek) {
    portal.columns = columns_of(plan, portal.text);
    return;
  }
  // The first step: a schema that has changed is met by it, and what an expression is only its value tells.
  int code = SQLITE_DONE;
  at_work(portal.text.owner(), [&] { code = step_text(portal); });
  portal.described = true;
  if (!portal.text) {
    portal.done = true;
    return;
  }
  portal.columns = columns_of(*portal.plan, portal.text);
  if (code == SQLITE_ROW) {
    portal.peeked = true;
  } else {
    portal.done = true;
    portal.changed += sqlite3_changes64(portal.text.owner().handle());
    return;
  }
  for (std::size_t i = 0; i < portal.columns.size(); ++i) {
    if (portal.columns[i].type != 0) continue;
    switch (sqlite3_column_type(portal.text.get(), static_cast<int>(i))) {
      case SQLITE_INTEGER: portal.columns[i].type = oid::int8; break;
      case SQLITE_FLOAT: portal.columns[i].type = oid::float8; break;
      case SQLITE_BLOB: portal.columns[i].type = oid::bytea; break;
      default: portal.columns[i].type = oid::text; break;
    }
  }
}

void Session::make(Portal& portal, std::vector<OutColumn> columns, std::deque<std::vector<Stored>> rows) {
  portal.columns = std::move(columns);
  portal.made_rows = std::move(rows);
  portal.described = portal.made = portal.started = true;
}

void Session::append_field(std::string& out, SqlConnection* on, const Stored& value, Oid type, std::int32_t modifier, Format format) {
  if (format == Format::text && is_reg(type) && std::holds_alternative<std::int64_t>(value)) {
    out += (on != nullptr ? *on : sql_connection()).catalog().reg_text(std::get<std::int64_t>(value), type);
    return;
  }
  if (type == oid::numeric && modifier >= 4) return append_made(out, scaled(value, (modifier - 4) & 0xffff), type, format);
  if (type == oid::bpchar && modifier >= 5) return append_made(out, padded(value, modifier - 4), type, format);
  append_made(out, value, type, format);
}

// One DataRow; its length is written when it is known.
void Session::append_row(const Portal& portal) {
  const std::size_t begin = out_.size();
  out_ += backend::data_row;
  append_int(out_, 0, 4);
  append_int(out_, static_cast<std::uint32_t>(portal.columns.size()), 2);
  for (std::size_t i = 0; i < portal.columns.size(); ++i) {
    const auto column = static_cast<int>(i);
    sqlite3_stmt* statement = portal.text.get();
    const bool null = portal.made ? std::holds_alternative<std::monostate>(portal.made_rows.front()[i])
                                  : sqlite3_column_type(statement, column) == SQLITE_NULL;
    if (null) {
      append_int(out_, 0xffffffff, 4);
      continue;
    }
    const std::size_t at = out_.size();
    append_int(out_, 0, 4);
    const Oid type = portal.columns[i].type == 0 ? oid::text : portal.columns[i].type;
    const Format format = portal.formats.empty()       ? Format::text
                          : portal.formats.size() == 1 ? portal.formats[0]
                          : i < portal.formats.size()  ? portal.formats[i]
                                                       : Format::text;
    if (!portal.made && sqlite3_column_type(statement, column) == SQLITE_TEXT && (type == oid::text || type == oid::varchar)) {
      const std::string_view text(reinterpret_cast<const char*>(sqlite3_column_text(statement, column)),
                                  static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
      const bool long_for_it = portal.columns[i].modifier >= 5 && text.size() + 4 > static_cast<std::size_t>(portal.columns[i].modifier);
      if (long_for_it || !is_valid_text(text)) {
        Stored value{std::string(text)};
        check_stored(portal, column, value, begin);
      }
      out_.append(text);
    } else {
      try {
        if (portal.made) append_field(out_, nullptr, portal.made_rows.front()[i], type, portal.columns[i].modifier, format);
        else {
          Stored value = stored_of(statement, column);
          check_stored(portal, column, value, begin);
          append_field(out_, &portal.text.owner(), value, type, portal.columns[i].modifier, format);
        }
      } catch (...) {
        out_.resize(begin);
        throw;
      }
    }
    const auto size = static_cast<std::uint32_t>(out_.size() - at - 4);
    for (std::size_t byte = 0; byte < 4; ++byte) out_[at + byte] = static_cast<char>(size >> (24 - 8 * byte) & 0xff);
  }
  const auto size = static_cast<std::uint32_t>(out_.size() - begin - 1);
  for (std::size_t byte = 0; byte < 4; ++byte) out_[begin + 1 + byte] = static_cast<char>(size >> (24 - 8 * byte) & 0xff);
}

bool Session::give_rows(Portal& portal, std::uint64_t rows_max) {
  if (portal.made) {
    while (!portal.made_rows.empty()) {
      if (rows_max != 0 && portal.rows == rows_max) return false;
      append_row(portal);
      portal.made_rows.pop_front();
      ++portal.rows;
      if (out_.size() >= (32u << 10)) flush_out();
    }
    return true;
  }
  if (portal.done || !portal.text) return true;
  bool suspended = false;
  at_work(portal.text.owner(), [&] {
    for (;;) {
      if (rows_max != 0 && portal.rows == rows_max) {
        suspended = true;
        return;
      }
      if (!std::exchange(portal.peeked, false) && step_text(portal) == SQLITE_DONE) return;
      if (!portal.described) {
        portal.columns = columns_of(*portal.plan, portal.text);
        portal.described = true;
      }
      if (portal.columns.empty()) continue;
      if (portal.columns.size() != static_cast<std::size_t>(sqlite3_column_count(portal.text.get())))
        throw PgException("0A000", "cached plan must not change result type");
      append_row(portal);
      ++portal.rows;
      if (out_.size() >= (32u << 10)) {
        flush_out();
        if (control_.interrupted()) throw PgException("57014", "canceling statement due to user request");
      }
    }
  });
  if (suspended) return false;
  if (portal.text) portal.changed += sqlite3_changes64(portal.text.owner().handle());
  portal.done = true;
  portal.text = {};
  return true;
}

std::string Session::tag_of(const Portal& portal) const {
  const std::string& tag = portal.plan->does.tag;
  if (tag == "SELECT" && portal.plan->does.effect == dialect::Effect::definition) return "SELECT " + std::to_string(portal.changed);
  if (tag == "SELECT" || tag == "FETCH" || tag == "VALUES" || tag == "TABLE")
    return (tag == "FETCH" ? "FETCH " : "SELECT ") + std::to_string(portal.rows);
  if (tag == "INSERT") return "INSERT 0 " + std::to_string(portal.changed);
  if (tag == "UPDATE" || tag == "DELETE") return tag + " " + std::to_string(portal.changed);
  return tag;
}

}  // namespace termgate::sqlite_server
