// Long: one case for each message of the protocol.
#include "session/session.hpp"

#include <algorithm>
#include <chrono>

#include <termgate/detail/plant.hpp>
#include <termgate/error.hpp>
#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/encode.hpp>
#include <termgate/pgwire/types.hpp>

#include <termgate/detail/sqlite/errors.hpp>

namespace termgate::sqlite_server {

namespace backend = pgwire::backend;
namespace frontend = pgwire::frontend;

namespace {
constexpr std::size_t flush_at = 32u << 10;
constexpr std::size_t pending_bytes_max = 1u << 20;  // past this a batch is not waited for
constexpr std::size_t message_bytes_max = 256u << 20;

pgwire::Rules rules() {
  pgwire::Limits limits;
  limits.bind_whole_bytes_max = message_bytes_max;
  limits.message_bytes_max = message_bytes_max;
  return pgwire::Rules::frontend(limits);
}

// The function of PostgreSQL's that fails so. Drivers (postgres.js, JDBC) know by it that they have to prepare anew.
std::string_view routine_of(const PgError& fault) {
  if (fault.sqlstate == "0A000" && fault.message == "cached plan must not change result type") return "RevalidateCachedQuery";
  if (fault.sqlstate == "42804" && fault.message.find(" but expression is of type ") != std::string::npos) return "transformAssignedExpr";
  if (fault.sqlstate == "26000") return "FetchPreparedStatement";
  return {};
}
}  // namespace

std::int64_t Session::now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Session::Session(Engine& engine, Control& control, SessionOptions options, Sink sink)
    : engine_(engine), control_(control), options_(std::move(options)), sink_(std::move(sink)), rules_(rules()), reader_(rules_) {}

Session::~Session() {
  roll_back();
  drop_temporary();
}

void Session::feed(std::string_view bytes) {
  try {
    if (!started_) start_up(bytes);
    while (started_ && !over_) {
      const pgwire::Event event = reader_.next(bytes);
      bytes.remove_prefix(event.used);
      using Kind = pgwire::Event::Kind;
      if (event.kind == Kind::need_more) break;
      if (event.kind == Kind::announced) continue;
      if (event.kind == Kind::malformed) {
        PgError fault{event.problem.sqlstate, std::string(event.problem.reason())};
        fault.fatal = true;
        send_error(fault);
        break;
      }
      if (scram_) {
        if (event.kind != Kind::message || event.type != frontend::password) {
          PgError fault{"08P01", "expected SASL response"};
          fault.fatal = true;
          send_error(fault);
          break;
        }
        authenticate(event.body);
        continue;
      }
      if (event.kind == Kind::part) {
        if (event.type == frontend::copy_data) {
          pending_.push_back({event.type, std::string(event.body)});
          pending_bytes_ += event.body.size();
        } else {
          part_ += event.body;
          if (!event.last) continue;
          pending_bytes_ += part_.size();
          pending_.push_back({event.type, std::exchange(part_, {})});
        }
      } else {
        pending_bytes_ += event.body.size();
        pending_.push_back({event.type, std::string(event.body)});
      }
      if (copy_in_ || pending_bytes_ >= pending_bytes_max || event.type == frontend::sync || event.type == frontend::flush ||
          event.type == frontend::query || event.type == frontend::terminate || event.type == frontend::function_call) {
        work();
        // What is answered does not wait for what came with it.
        if (!bytes.empty()) flush_out();
      }
    }
  } catch (const std::exception& error) {
    PgError fault = error_of(error);
    fault.fatal = true;
    send_error(fault);
  }
  flush_out();
}

void Session::go_on() {
  try {
    work();
  } catch (const std::exception& error) {
    PgError fault = error_of(error);
    fault.fatal = true;
    send_error(fault);
  }
  flush_out();
}

void Session::start_clock() {
  const auto timeout = settings_.statement_timeout();
  control_.limit(timeout.count() == 0 ? Engine::Clock::time_point::max() : Engine::Clock::now() + timeout);
}

std::optional<std::chrono::milliseconds> Session::patience() const {
  using std::chrono::milliseconds;
  std::optional<milliseconds> result;
  if (const auto lock = settings_.lock_timeout(); lock.count() != 0) result = lock;
  if (control_.limit() != Engine::Clock::time_point::max()) {
    const auto rest = std::max(std::chrono::ceil<milliseconds>(control_.limit() - Engine::Clock::now()), milliseconds(0));
    result = result ? std::min(*result, rest) : rest;
  }
  return result;
}

void Session::report_waiting(Engine::Clock::time_point since) const {
  if (control_.evicted()) throw PgException("57P01", control_.why());
  if (control_.cancelled()) throw PgException("57014", "canceling statement due to user request");
  if (control_.timed_out()) throw PgException("57014", "canceling statement due to statement timeout");
  if (const auto lock = settings_.lock_timeout(); lock.count() != 0 && Engine::Clock::now() - since >= lock)
    throw PgException("55P03", "canceling statement due to lock timeout");
}

template <class Work>
void Session::with_patience(const Work& work) {
  const auto since = Engine::Clock::now();
  try {
    work();
  } catch (const sqlite::GaveUp&) {
    report_waiting(since);
    throw PgException("57014", "canceling statement due to user request");
  } catch (const Blocked&) {
    report_waiting(since);
    throw;
  }
}

// SQLite and its functions know only that the statement was to stop.
PgError Session::error_for_client(const std::exception& error) const {
  PgError fault = error_of(error);
  if (fault.file_moved) engine_.note_moved();
  if (fault.sqlstate == "57014" && !control_.cancelled() && control_.timed_out())
    fault.message = "canceling statement due to statement timeout";
  return fault;
}

void Session::end_idle() {
  roll_back();
  PgError fault{"25P03", "terminating connection due to idle-in-transaction timeout"};
  fault.fatal = true;
  send_error(fault);
  flush_out();
}

void Session::end_evicted() {
  roll_back();
  if (over_) return;
  PgError fault{"57P01", control_.why().empty() ? "terminating connection due to administrator command" : control_.why()};
  fault.fatal = true;
  send_error(fault);
  flush_out();
}

// --- the beginning

void Session::start_up(std::string_view& bytes) {
  using Kind = pgwire::StartupEvent::Kind;
  while (!started_ && !over_) {
    const pgwire::StartupEvent event = startup_.next(bytes);
    bytes.remove_prefix(event.used);
    switch (event.kind) {
      case Kind::need_more: return;
      case Kind::ssl_request:
      case Kind::gssenc_request: out_ += 'N'; break;
      case Kind::cancel_request:
        cancel_request_ = {event.pid, std::string(event.key)};
        over_ = true;
        return;
      case Kind::startup: log_in(event.startup); break;
      case Kind::direct_tls:
      case Kind::malformed: over_ = true; return;
    }
  }
}

void Session::log_in(const pgwire::StartupMessage& startup) {
  started_ = true;
  user_ = startup.find("user").value_or("");
  if (options_.database.empty()) options_.database = startup.find("database").value_or(user_);
  try {
    settings_.start("session_authorization", user_);
    const auto from_client = [&](std::string_view name, std::string_view value) {
      // Times are kept and shown in UTC, and ParameterStatus says so to a client that asked for another zone.
      constexpr std::string_view zone = "timezone";
      if (std::equal(name.begin(), name.end(), zone.begin(), zone.end(), [](char a, char b) { return (a | 0x20) == b; })) return;
      settings_.start(name, value);
    };
    // options: -c name=value and --name=value, with \ before a space.
    std::string word;
    bool value_follows = false;
    const auto take = [&] {
      if (word.empty()) return;
      std::string_view one = word;
      if (!value_follows && one == "-c") {
        value_follows = true;
        word.clear();
        return;
      }
      if (!value_follows) {
        if (one.starts_with("-c") || one.starts_with("--")) one.remove_prefix(2);
        else throw PgException("22023", "invalid command-line argument for server process: " + word);
      }
      value_follows = false;
      const auto equals = one.find('=');
      if (equals == std::string_view::npos) throw PgException("42601", "-c " + std::string(one) + " requires a value");
      std::string name(one.substr(0, equals));
      std::replace(name.begin(), name.end(), '-', '_');
      from_client(name, one.substr(equals + 1));
      word.clear();
    };
    const std::string_view options = startup.find("options").value_or("");
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (options[i] == '\\' && i + 1 < options.size()) word += options[++i];
      else if (options[i] == ' ' || options[i] == '\t' || options[i] == '\n') take();
      else word += options[i];
    }
    take();
    for (const auto& [name, value] : startup.parameters) {
      if (name == "user" || name == "database" || name == "options" || name == "replication") continue;
      from_client(name, value);
    }
    if (const auto replication = startup.find("replication");
        replication && *replication != "false" && *replication != "off" && *replication != "0" && !replication->empty()) {
      throw PgException("0A000", "there is no replication from an SQLite file");
    }
  } catch (const PgException& failed) {
    PgError fault = failed.fault();
    fault.fatal = true;
    return send_error(fault);
  }
  if (startup.must_negotiate()) pgwire::append_negotiate_protocol_version(out_, startup.spoken_minor(), {});
  if (!options_.verifier_of) return welcome();
  scram_.emplace(user_, options_.verifier_of(user_), options_.nonce);
  const std::string_view mechanism = "SCRAM-SHA-256";
  pgwire::append_authentication_sasl(out_, {&mechanism, 1});
}

// SASLInitialResponse is mechanism, NUL, length, data; SASLResponse is data.
void Session::authenticate(std::string_view body) {
  std::optional<std::string> answer;
  if (!sasl_begun_) {
    sasl_begun_ = true;
    const auto nul = body.find('\0');
    if (nul != std::string_view::npos && body.substr(0, nul) == "SCRAM-SHA-256" && body.size() >= nul + 5)
      answer = scram_->first(body.substr(nul + 5));
    if (answer) return pgwire::append_authentication(out_, pgwire::Authentication::Type::sasl_continue, *answer);
  } else {
    answer = scram_->final(body);
    if (answer) {
      pgwire::append_authentication(out_, pgwire::Authentication::Type::sasl_final, *answer);
      scram_.reset();
      return welcome();
    }
  }
  PgError fault{"28P01", "password authentication failed for user \"" + user_ + "\""};
  fault.fatal = true;
  send_error(fault);
}

void Session::welcome() {
  if (options_.on_login) options_.on_login(user_);
  pgwire::append_authentication(out_, pgwire::Authentication::Type::ok);
  for (const auto& [name, value] : settings_.take_reports()) pgwire::append_parameter_status(out_, name, value);
  pgwire::append_backend_key_data(out_, options_.pid, options_.key);
  ready();
}

// --- messages

bool Session::whole_batch() {
  for (const Message& message : pending_) {
    if (message.type == frontend::sync) return true;
    if (message.type == frontend::flush || message.type == frontend::query) return false;
    // What begins or ends a block, or asks the client for more, has no place among other sessions' writes.
    if (message.type != frontend::parse && message.type != frontend::bind) continue;
    std::shared_ptr<const Prepared> held;
    Plans plans;
    if (message.type == frontend::parse) {
      const auto parsed = pgwire::decode_parse(message.body);
      if (!parsed) return false;
      try {
        plans = planned(std::string(parsed->sql), parse_types(*parsed, message.body));
      } catch (const PgException&) { continue; }
    } else {
      const auto bound = pgwire::decode_bind(message.body);
      if (!bound) return false;
      const auto found = statements_.find(bound->statement);
      if (found == statements_.end()) continue;
      plans = found->second->plans;
    }
    for (const Plan& plan : *plans) {
      const auto* copy = plan.utility<dialect::Copy>();
      if (plan.utility<dialect::TransactionControl>() != nullptr || (copy != nullptr && copy->from) || plan.does.temporary ||
          plan.utility<dialect::Vacuum>() != nullptr)
        return false;
    }
  }
  return false;
}

// Whether what waits up to the Sync writes anything itself; checks do not count. What cannot be known counts as a write.
bool Session::batch_writes() {
  std::map<std::string, bool, std::less<>> parsed, bound;  // by name: whether it writes
  const auto writes = [&](const Plans& plans) {
    return std::any_of(plans->begin(), plans->end(), [&](const Plan& plan) { return !only_checks(plan) && plan_writes(plan); });
  };
  for (const Message& message : pending_) {
    if (message.type == frontend::sync) return false;
    if (message.type == frontend::parse) {
      const auto each = pgwire::decode_parse(message.body);
      if (!each) return true;
      try {
        parsed.insert_or_assign(std::string(each->statement), writes(planned(std::string(each->sql), parse_types(*each, message.body))));
      } catch (const PgException&) { parsed.insert_or_assign(std::string(each->statement), true); }
    } else if (message.type == frontend::bind) {
      const auto each = pgwire::decode_bind(message.body);
      if (!each) return true;
      bool known = true;
      if (const auto found = parsed.find(each->statement); found != parsed.end()) known = found->second;
      else if (const auto held = statements_.find(each->statement); held != statements_.end()) known = writes(held->second->plans);
      bound.insert_or_assign(std::string(each->portal), known);
    } else if (message.type == frontend::execute) {
      const auto each = pgwire::decode_execute(message.body);
      if (!each) return true;
      if (const auto found = bound.find(each->portal); found != bound.end()) {
        if (found->second) return true;
      } else if (const auto held = portals_.find(each->portal); held == portals_.end() || held->second->plan == nullptr ||
                                                                (!only_checks(*held->second->plan) && plan_writes(*held->second->plan))) {
        return true;
      }
    } else if (message.type != frontend::describe && message.type != frontend::close) {
      return true;
    }
  }
  return true;
}

// The plans of a text of this batch: a long one is not kept by the engine, and is asked for several times.
Plans Session::planned(const std::string& sql, const std::vector<Oid>& types) {
  for (const Recent& each : recent_) {
    if (each.sql == sql && each.types == types) return each.plans;
  }
  Plans plans = plans_of(sql, types);
  if (sql.size() > long_text_bytes) {
    if (recent_.size() >= recent_max) recent_.erase(recent_.begin());
    recent_.push_back({sql, types, plans});
  }
  return plans;
}

std::vector<Oid> Session::parse_types(const pgwire::Parse& parse, std::string_view body) {
  std::vector<Oid> types(parse.parameter_types);
  const std::size_t at = parse.statement.size() + 1 + parse.sql.size() + 1 + 2;
  for (std::size_t i = 0; i < types.size(); ++i) {
    for (std::size_t byte = 0; byte < 4; ++byte) types[i] = types[i] << 8 | static_cast<unsigned char>(body[at + 4 * i + byte]);
  }
  return types;
}

bool Session::wants_group(const Message& message) {
  if (status_ != Status::idle || skipping_ || tx_.writer || copy_in_ || temporary_) return false;
  try {
    if (message.type == frontend::query) {
      const auto query = pgwire::decode_query(message.body);
      if (!query) return false;
      const Plans plans = planned(std::string(query->sql), {});
      bool writes = false;
      for (const Plan& plan : *plans) {
        const auto* copy = plan.utility<dialect::Copy>();
        if (plan.does.temporary || plan.utility<dialect::TransactionControl>() != nullptr || (copy != nullptr && copy->from) ||
            plan.utility<dialect::Vacuum>() != nullptr)
          return false;
        const auto* modes = plan.utility<dialect::SetVariable>();
        if (modes != nullptr && plans->size() > 1) return false;  // it may make the rest writable, or not
      }
      begin_if_needed();
      if (tx_.read_only) return false;
      for (const Plan& plan : *plans) writes = writes || plan_writes(plan);
      return writes;
    }
    if (message.type != frontend::execute) return false;
    const auto execute = pgwire::decode_execute(message.body);
    if (!execute) return false;
    const auto portal = portals_.find(execute->portal);
    if (portal == portals_.end() || portal->second->plan == nullptr || portal->second->started) return false;
    if (portal->second->plan->does.temporary) return false;  // takes a connection of its own
    begin_if_needed();
    if (tx_.read_only || !plan_writes(*portal->second->plan) || !whole_batch()) return false;
    // A check alone is no reason to hold the lock while something reads: check_or_defer().
    if (only_checks(*portal->second->plan) && !batch_writes()) return false;
    // A portal that is on a row keeps its own connection.
    return !stands_on_row();
  } catch (const std::exception&) {
    return false;  // reported when it is run
  }
}

void Session::run_group() {
  const bool query = pending_.front().type == frontend::query;
  Want want;
  if (query) {
    const Plans plans = planned(std::string(pgwire::decode_query(pending_.front().body)->sql), {});  // wants_group() has read it
    for (auto plan = plans->begin(); plan != plans->end() && want.term == 0; ++plan) {
      Portal portal;
      portal.plan = &*plan;
      want = want_of(portal);
    }
  } else if (const auto execute = pgwire::decode_execute(pending_.front().body)) {
    if (const auto portal = portals_.find(execute->portal); portal != portals_.end()) want = want_of(*portal->second);
  }
  for (auto& [name, portal] : portals_) portal->text = {};
  release_lane();
  start_clock();
  gathering_ = true;
  std::optional<PgError> fault;
  try {
    const auto wait = patience();
    const auto in_group = [&](SqlConnection& connection, bool shared) {
      struct Leave {
        Session& session;
        ~Leave() {
          for (auto& [name, portal] : session.portals_) portal->text = {};
          session.tx_.connection->serve(nullptr);
          session.tx_.connection = nullptr;
          session.tx_.writer = session.tx_.grouped = session.tx_.began = false;
        }
      };
      tx_.grouped = tx_.writer = tx_.began = true;
      use_connection(connection, shared);
      Leave leave{*this};
      connection.catalog().writing();
      declare_to_law();
      if (held_) check(held_->scope, held_->term);
      // Checks of this batch that were made without the lock (check_or_defer).
      for (const Want& pass : tx_.passes) check(pass.scope, pass.term);
      if (query) {
        dispatch(pending_.front());
      } else {
        while (pending_.front().type != frontend::sync) {
          dispatch(pending_.front());
          pending_bytes_ -= std::min(pending_bytes_, pending_.front().body.size());
          pending_.pop_front();
        }
      }
      if (control_.evicted()) throw PgException("57P01", control_.why());
    };
    with_patience([&] { engine_.group(control_, want, wait, in_group); });
    engine_.committed(tx_.checks);
  } catch (const std::exception& error) { fault = error_for_client(error); }
  gathering_ = false;
  if (query) {
    pending_bytes_ -= std::min(pending_bytes_, pending_.front().body.size());
    pending_.pop_front();
  }
  if (fault && control_.evicted()) {
    end_evicted();
  } else if (fault) {
    fail(*fault, !query);
  } else if (query) {
    end_query();
  }
}

void Session::work() {
  while (!pending_.empty() && !over_) {
    if (wants_group(pending_.front())) {
      if (quick_) throw NotQuick{};
      run_group();
    } else {
      const Message message = std::move(pending_.front());
      pending_.pop_front();
      pending_bytes_ -= std::min(pending_bytes_, message.body.size());
      step(message);
    }
    if (out_.size() >= flush_at) flush_out();
  }
  if (pending_.empty()) recent_.clear();
  if (status_ == Status::idle || !tx_.began) release_idle_lane();
}

void Session::step(const Message& message) {
  if (skipping_ && message.type != frontend::sync && message.type != frontend::terminate) return;
  const bool query = message.type == frontend::query;
  const bool extended = copy_in_ ? copy_in_->extended : !query;
  try {
    if (copy_in_) {
      switch (message.type) {
        case frontend::copy_data: return copy_bytes(message.body);
        case frontend::copy_done: {
          end_copy_in();
          if (!extended) end_query();
          return;
        }
        case frontend::copy_fail: {
          const auto failed = pgwire::decode_copy_fail(message.body);
          throw PgException("57014", "COPY from stdin failed: " + std::string(failed ? failed->message : std::string_view("?")));
        }
        case frontend::flush:
        case frontend::sync: return;
        case frontend::terminate: break;
        default: throw PgException("08P01", "unexpected message type during COPY from stdin");
      }
    }
    dispatch(message);
    if (query && !copy_in_) end_query();
    if (control_.evicted()) end_evicted();
  } catch (const std::exception& error) {
    abandon_copy();
    if (control_.evicted()) return end_evicted();
    fail(error_for_client(error), extended && message.type != frontend::sync && message.type != frontend::function_call);
  }
}

void Session::dispatch(const Message& message) {
  const auto decoded = [](const auto& result) -> const auto& {
    if (!result) throw PgException("08P01", result.problem().reason());
    return *result;
  };
  switch (message.type) {
    case frontend::query: {
      const auto query = pgwire::decode_query(message.body);
      statements_.erase(std::string());
      portals_.erase(std::string());
      bool responded = false;
      if (!gathering_) start_clock();
      simple(planned(std::string(decoded(query).sql), {}), responded);
      last_plans_ = {};
      return;
    }
    case frontend::parse: {
      const auto message_parse = pgwire::decode_parse(message.body);
      const pgwire::Parse& each = decoded(message_parse);
      parse(each.statement, std::string(each.sql), parse_types(each, message.body));
      return pgwire::append_bare(out_, backend::parse_complete);
    }
    case frontend::bind: return bind(message.body);
    case frontend::describe: return describe(message.body);
    case frontend::execute:
      if (!gathering_) start_clock();
      return execute(message.body);
    case frontend::close: return close(message.body);
    case frontend::flush: return;
    case frontend::sync:
      skipping_ = false;
      end_implicit();
      return ready();
    case frontend::terminate:
      roll_back();
      over_ = true;
      return;
    case frontend::function_call: throw PgException("0A000", "the fast path is not spoken here: call the function in a SELECT");
    case frontend::copy_data:
    case frontend::copy_done:
    case frontend::copy_fail: return;  // of a COPY that has failed
    default: throw PgException("08P01", "unexpected message type");
  }
}

void Session::fail(const PgError& fault, bool extended) {
  if (fault.fatal || over_) {
    roll_back();
    return send_error(fault);
  }
  send_error(fault);
  if (status_ != Status::idle && fault.sqlstate == "0A000" && fault.message.starts_with(ends_the_block)) {
    roll_back();
  } else if (status_ == Status::block) {
    status_ = Status::failed;
    close_portals(false);
    if (tx_.savepoints.empty()) {
      // Nothing of it can be saved, so it must not hold up others any longer.
      release_lane();
    }
  } else if (status_ == Status::idle) {
    roll_back();
  }
  if (extended) skipping_ = true;
  else ready();
}

void Session::send_error(const PgError& given) {
  last_.clear();
  PgError fault = given;
  if (fault.position == 0 && at_plan_.text) fault.position = place_of(fault, *at_plan_.text, at_plan_.offset, at_plan_.length);
  pgwire::ReportFields fields = pgwire::report(fault.fatal ? "FATAL" : "ERROR", fault.sqlstate, fault.message);
  const std::string position = std::to_string(fault.position);
  if (!fault.detail.empty()) fields.set('D', fault.detail);
  if (!fault.hint.empty()) fields.set('H', fault.hint);
  if (fault.position != 0) fields.set('P', position);
  if (const std::string_view routine = routine_of(fault); !routine.empty()) fields.set('R', routine);
  if (!fault.table.empty()) {
    fields.set('s', "public");
    fields.set('t', fault.table);
  }
  if (!fault.column.empty()) fields.set('c', fault.column);
  if (!fault.constraint.empty()) fields.set('n', fault.constraint);
  pgwire::append_error_response(out_, fields);
  if (fault.fatal) over_ = true;
}

void Session::ready() {
  if (over_) return;
  for (const auto& [name, value] : settings_.take_reports()) pgwire::append_parameter_status(out_, name, value);
  pgwire::append_ready_for_query(out_, static_cast<pgwire::TransactionStatus>(status_));
}

void Session::flush_out() {
  if (out_.empty()) return;
  if (quick_) {
    if (out_.size() > flush_at) throw NotQuick{};
    return;
  }
  if (gathering_) {
    if (out_.size() > options_.gathered_bytes_max)
      throw PgException("54000", "the answers of one transaction that writes may have " + std::to_string(options_.gathered_bytes_max) +
                                     " bytes, for they wait for its commit; use BEGIN");
    return;
  }
  sink_(out_);
  out_.clear();
}

// --- the transaction

void Session::begin_if_needed() {
  if (tx_.started) return;
  tx_.started = true;
  tx_.read_only = settings_.default_read_only();
  tx_.deferrable = settings_.default_deferrable();
  tx_.isolation = settings_.default_isolation();
  tx_.snapshot = tx_.isolation == "repeatable read" || tx_.isolation == "serializable";
  tx_.began_us = now_us();
}

void Session::use_connection(SqlConnection& connection, bool shared) {
  tx_.connection = &connection;
  tx_.shared = shared;
  connection.serve(this);
}

SqlConnection& Session::sql_connection() {
  if (tx_.connection != nullptr) return *tx_.connection;
  if (temporary_) {
    use_connection(*temporary_, false);
  } else {
    tx_.own = engine_.borrow();
    use_connection(*tx_.own, false);
  }
  if (status_ == Status::block && tx_.snapshot) {
    if (const int code = tx_.connection->sqlite().control("BEGIN"); code != SQLITE_OK) tx_.connection->fail(code);
    tx_.began = true;
  }
  return *tx_.connection;
}

// Sessions share connections, and what is temporary belongs to one connection: a session that makes something temporary reads and writes on
// its own from then on. It cannot take a transaction along that has written, or has a snapshot that it has read from. One that has only
// passed its checks begins again, and passes them again.
void Session::use_own_connection() {
  if (temporary_) return;
  if (quick_) throw NotQuick{};
  const bool only_checked = tx_.writer && !tx_.wrote && !tx_.grouped && tx_.savepoints.empty() && !(tx_.snapshot && tx_.read);
  const std::vector<Want> checks = only_checked ? tx_.checks : std::vector<Want>();
  if (tx_.connection != nullptr) {
    if (tx_.grouped || (tx_.writer && !only_checked) || (!tx_.writer && tx_.began && (tx_.read || !tx_.savepoints.empty())))
      throw PgException("0A000",
                        "the first temporary table of a session has to be created at the start of its transaction, before it writes");
    for (auto& [name, portal] : portals_) {
      if (portal->started && !portal->done && !portal->made && portal->text)
        read_rest(*portal, "a cursor that is open while a temporary table is created");
    }
    release_lane();
  }
  temporary_ = engine_.open_temporary();
  last_plans_ = {};
  if (!only_checked) return;
  tx_.checks.clear();
  become_writer(checks.empty() ? Want{} : checks.front());
  for (const Want& each : checks) check(each.scope, each.term);
}

void Session::drop_temporary() noexcept {
  own_plans_.clear();
  last_plans_ = {};
  engine_.close_temporary(std::move(temporary_));
}

std::vector<std::pair<std::string, std::string>> Session::on_commit_of(SqlConnection& on) {
  std::vector<std::pair<std::string, std::string>> all;
  sqlite3_stmt* statement = nullptr;
  // Without the list there is none.
  if (sqlite3_prepare_v2(on.handle(), "SELECT name, what FROM temp.termgate_on_commit", -1, &statement, nullptr) != SQLITE_OK) return all;
  const auto text = [&](int i) { return std::string(reinterpret_cast<const char*>(sqlite3_column_text(statement, i))); };
  while (sqlite3_step(statement) == SQLITE_ROW) all.emplace_back(text(0), text(1));
  if (const int code = sqlite3_finalize(statement); code != SQLITE_OK) on.fail(code);
  return all;
}

void Session::end_temporary() {
  if (!temporary_ || !tx_.writer) return;
  SqlConnection& on = *tx_.connection;
  const auto run = [&](const std::string& sql) {
    if (const int code = sqlite3_exec(on.handle(), sql.c_str(), nullptr, nullptr, nullptr); code != SQLITE_OK) on.fail(code);
  };
  for (const auto& [name, what] : on_commit_of(on)) {
    const auto relations = on.catalog().relations();
    const dialect::Relations::Relation* found = relations->find(name);
    if (found == nullptr || !found->temporary) continue;  // dropped
    std::string quoted = "\"";
    for (const char c : name) quoted += c == '"' ? std::string(2, c) : std::string(1, c);
    run((what == "d" ? "DROP TABLE temp." : "DELETE FROM temp.") + quoted + "\"");
  }
}

// Parsed once for all who ask while a query is answered. A schema that has changed meanwhile is found by freshen().
Plans Session::plans_of(const std::string& text, const std::vector<Oid>& types, std::shared_ptr<const FileRelations> relations) {
  constexpr std::size_t own_plans_max = 200;
  const bool plain = types.empty() && relations == nullptr;
  if (plain && last_plans_.second && last_plans_.first == text) return last_plans_.second;
  Plans plans;
  if (temporary_) {
    if (relations == nullptr) relations = sql_connection().catalog().relations();
    std::string key = text;
    for (const Oid type : types) key += '\0' + std::to_string(type);
    const auto found = own_plans_.find(key);
    const auto stale = [&](const Plan& plan) { return plan.does.typed && plan.schema != relations->id(); };
    if (found != own_plans_.end() && std::none_of(found->second->begin(), found->second->end(), stale)) {
      plans = found->second;
    } else {
      plans = plan_text(text, relations.get(), types);
      if (own_plans_.size() >= own_plans_max) own_plans_.clear();
      own_plans_.insert_or_assign(std::move(key), plans);
    }
  } else {
    plans = engine_.plan(text, types, std::move(relations));
  }
  if (plain) last_plans_ = {text, plans};
  return plans;
}

// What a trigger of protect() passes by itself is what the session has declared.
void Session::declare_to_law() {
  std::optional<Scope> scope;
  std::optional<Term> term;
  try {
    if (const auto text = settings_.get("termgate.scope"); text && !text->empty()) scope.emplace(*text);
    if (const auto text = settings_.get("termgate.term"); text && !text->empty()) term.emplace(declared({}, *text).second);
  } catch (const std::exception&) {
    scope.reset();  // malformed: check_session() reports it
    term.reset();
  }
  tx_.connection->sqlite().layer1().declare(scope, term);
}

void Session::become_writer(const Want& want) {
  if (tx_.writer) return;
  if (quick_) throw NotQuick{};
  const Want& wanted = want.term == 0 && !tx_.passes.empty() ? tx_.passes.front() : want;
  with_patience([&] { engine_.take_turn(control_, wanted, patience()); });
  tx_.turn = true;
  if (!tx_.began && temporary_) {
    // A statement that is on a row would keep the transaction at what it began to read.
    settle_portals(nullptr);
    use_connection(*temporary_, false);
  } else if (!tx_.began) {
    // The connection whose cache knows the newest pages is the better one. A portal that is on a row goes on reading on its own, and
    // sees nothing of what is written from now on, as on PostgreSQL.
    if (!stands_on_row()) {
      for (auto& [name, portal] : portals_) portal->text = {};
      if (tx_.own) engine_.put_back(std::move(tx_.own));
    }
    use_connection(engine_.writer(), false);
  }
  sql_connection();
  sqlite::Connection& connection = tx_.connection->sqlite();
  // Who fails on the way is no writer: the next write begins here again, with every check, a savepoint that is rolled back to or not.
  struct Undo {
    Session& session;
    bool armed = true;
    ~Undo() {
      if (!armed) return;
      session.tx_.lost = session.tx_.snapshot;
      session.release_lane();
    }
  } undo{*this};
  tx_.connection->writable = true;
  const bool had_read = tx_.began;
  if (!tx_.began) {
    // Not by SQLite's own waiting, which tries every 100 ms and tells nobody. Only where another process has the lock it matters what the
    // setting says by now.
    const auto since = Engine::Clock::now();
    connection.wait_for_locks(std::chrono::milliseconds(0));
    int code = connection.begin(false, std::chrono::milliseconds(0), {}, 0);
    auto wait = OpenAs::default_wait;
    if ((code & 0xff) == SQLITE_BUSY) {
      wait = connection.layer1().check_wait();
      code = connection.begin(false, std::min(patience().value_or(wait), wait), wanted.scope, wanted.term);
    }
    connection.wait_for_locks(code == SQLITE_OK ? connection.layer1().check_wait() : wait);
    if (code != SQLITE_OK) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Engine::Clock::now() - since);
      if ((code & 0xff) != SQLITE_BUSY) tx_.connection->fail(code);
      report_waiting(since);
      throw PgException("TG006", "TG006 blocked for " + std::to_string(waited.count()) +
                                     " ms: " + sqlite::lock_holder(tx_.connection->handle()) + " holds the database; nothing was written");
    }
    tx_.began = true;
  } else {
    connection.layer1().require_file();  // begun as a reader
  }
  tx_.connection->catalog().writing();
  if (temporary_) tx_.connection->refuse_clashes();
  tx_.writer = true;
  connection.layer1().begin_transaction();
  for (const Savepoint& each : tx_.savepoints) {
    if (sqlite3_exec(tx_.connection->handle(), ("SAVEPOINT " + each.inner).c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
      tx_.connection->fail(SQLITE_ERROR);
  }
  declare_to_law();
  try {
    if (held_) check(held_->scope, held_->term);
    if (!TERMGATE_PLANTED(served_first_write))
      for (const Want& pass : tx_.passes) check(pass.scope, pass.term);
  } catch (const Blocked&) {
    // Its snapshot will be stale when the lock is free, so there is nothing to wait for.
    if (had_read)
      throw PgException("40001", "could not serialize access: another transaction holds the write lock, and this one has read already");
    throw;
  }
  undo.armed = false;
}

// What a portal has not given yet is read now.
void Session::read_rest(Portal& portal, std::string_view what) {
  std::deque<std::vector<Stored>> rows;
  std::size_t bytes = 0;
  know_columns(portal, true);
  if (portal.text)
    at_work(portal.text.owner(), [&] {
      while (!portal.done && (std::exchange(portal.peeked, false) || step_text(portal) == SQLITE_ROW)) {
        std::vector<Stored> row;
        sqlite3_stmt* statement = portal.text.get();
        for (int i = 0; i < sqlite3_column_count(statement); ++i) {
          const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, i));
          const auto held = [&](const void* data) { return std::string(data != nullptr ? static_cast<const char*>(data) : "", size); };
          switch (sqlite3_column_type(statement, i)) {
            case SQLITE_INTEGER: row.emplace_back(static_cast<std::int64_t>(sqlite3_column_int64(statement, i))); break;
            case SQLITE_FLOAT: row.emplace_back(sqlite3_column_double(statement, i)); break;
            case SQLITE_TEXT: row.emplace_back(held(sqlite3_column_text(statement, i))); break;
            case SQLITE_BLOB: row.emplace_back(Blob{held(sqlite3_column_blob(statement, i))}); break;
            default: row.emplace_back(); break;
          }
          bytes += 16 + size;
        }
        if (bytes > options_.gathered_bytes_max)
          throw PgException("54000", std::string(what) + " may keep " + std::to_string(options_.gathered_bytes_max) + " bytes");
        rows.push_back(std::move(row));
      }
    });
  portal.text = {};
  make(portal, portal.columns, std::move(rows));
}

// Before a write: SQLite's statements see what their own connection writes later, PostgreSQL's cursors do not.
void Session::settle_portals(const Portal* but) {
  for (auto& [name, portal] : portals_) {
    if (portal.get() == but || !portal->started || portal->done || portal->made || !portal->text || &portal->text.owner() != tx_.connection)
      continue;
    read_rest(*portal, "a cursor that is open while its own transaction writes");
  }
}

// Whatever is open on the connection is rolled back.
void Session::release_lane() noexcept {
  for (auto& [name, portal] : portals_) portal->text = {};
  if (tx_.grouped || tx_.connection == nullptr) return;
  SqlConnection& connection = *tx_.connection;
  if (connection.sqlite().in_transaction()) {
    connection.sqlite().control("ROLLBACK");
    connection.sqlite().layer1().transaction_undone();
  }
  connection.serve(nullptr);
  connection.writable = &connection == &engine_.writer();
  tx_.connection = nullptr;
  tx_.began = tx_.writer = false;
  if (std::exchange(tx_.turn, false)) engine_.give_turn();
  if (tx_.own) engine_.put_back(std::move(tx_.own));
}

// A connection without a transaction is kept only for a portal that is on a row.
void Session::release_idle_lane() noexcept {
  if (tx_.grouped || tx_.connection == nullptr || tx_.began || copy_in_) return;
  if (!stands_on_row()) release_lane();
}

bool Session::stands_on_row() const noexcept {
  return std::any_of(portals_.begin(), portals_.end(),
                     [](const auto& one) { return one.second->started && !one.second->done && one.second->text; });
}

void Session::commit_lane() {
  if (tx_.connection == nullptr || tx_.grouped) return;
  if (!tx_.writer) return release_lane();
  for (auto& [name, portal] : portals_) {
    if (!portal->hold) portal->text = {};
  }
  end_temporary();
  sqlite::Connection& connection = tx_.connection->sqlite();
  int extended = SQLITE_OK;
  if (connection.commit(extended) == SQLITE_OK) {
    connection.layer1().transaction_committed();
    engine_.committed(tx_.checks);
    return release_lane();
  }
  PgError fault = error_of(extended, sqlite3_errmsg(tx_.connection->handle()));
  if (sqlite::commit_outcome_unknown(extended)) fault.fatal = true;
  release_lane();
  throw PgException(fault);
}

void Session::roll_back() noexcept {
  abandon_copy();
  close_portals(false);
  release_lane();
  settings_.rollback();
  tx_ = Transaction();
  status_ = Status::idle;
}

void Session::close_portals(bool all) noexcept {
  std::erase_if(portals_, [all](const auto& one) { return all || !one.second->kept; });
}

// The end of an implicit transaction: at Sync, or of a simple query.
void Session::end_implicit() {
  if (status_ == Status::idle && !tx_.grouped) commit();
}

// Whoever reads "INSERT 0 1" of a query without BEGIN takes it for committed.
void Session::end_query() {
  end_implicit();
  out_ += std::exchange(last_, {});
  ready();
}

void Session::commit() {
  try {
    commit_lane();
  } catch (...) {
    roll_back();
    throw;
  }
  close_portals(false);
  settings_.commit();
  status_ = Status::idle;
  tx_ = Transaction();
}

}  // namespace termgate::sqlite_server
