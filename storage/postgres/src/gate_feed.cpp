// One connection that calls seats_wanted(). After any error it is closed, and the next request
// opens another.
#include <termgate/detail/postgres_gate_feed.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include <termgate/detail/schema.hpp>
#include <termgate/text/hex.hpp>

#include "connection.hpp"
#include "conninfo.hpp"
#include "errors.hpp"
#include "seats.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto look_again = 5s;
constexpr int share_of_looks = 20;  // a look for code takes at most a twentieth of the time

// Finds code in the database that can do more than a client's text shows. `speaks`: code that may
// declare a scope and term, or raise: functions and procedures that name Termgate or call what
// layer 1 has, and parsed expressions (in views, defaults, constraints, triggers, policies) that
// call set_config() (funcid 2078). Layer 1's own code is not counted. `any_text`: code that runs
// its arguments as SQL, or may: a function in a language other than C, SQL and PL/pgSQL counts.
// Reading everything takes seconds in a database with 20,000 functions, so $2 can restrict it to
// code that is newer than a transaction: the `horizon` of the previous look.
constexpr std::string_view code_sql = R"(
WITH own AS (SELECT pg_catalog.to_regnamespace(pg_catalog.quote_ident($1)) AS oid,
                    coalesce(pg_catalog.age($2::pg_catalog.xid), 2147483647) AS new),
functions AS (
  SELECT p.oid, p.prolang, pg_catalog.lower(pg_catalog.concat_ws(' ', p.proname, p.prosrc, p.proconfig::pg_catalog.text,
                           pg_catalog.to_jsonb(p) OPERATOR(pg_catalog.->>) 'prosqlbody')) AS source FROM pg_catalog.pg_proc p, own
   WHERE p.pronamespace NOT IN ('pg_catalog'::pg_catalog.regnamespace, 'information_schema'::pg_catalog.regnamespace, own.oid)
     AND pg_catalog.age(p.xmin) <= own.new
), texts AS (
  SELECT r.ev_action::pg_catalog.text AS tree FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class, own
   WHERE c.oid >= 16384 AND c.relnamespace <> own.oid AND pg_catalog.age(r.xmin) <= own.new
  UNION ALL SELECT a.adbin::pg_catalog.text FROM pg_catalog.pg_attrdef a, own WHERE pg_catalog.age(a.xmin) <= own.new
  UNION ALL SELECT c.conbin::pg_catalog.text FROM pg_catalog.pg_constraint c, own WHERE pg_catalog.age(c.xmin) <= own.new
  UNION ALL SELECT t.tgqual::pg_catalog.text FROM pg_catalog.pg_trigger t, own WHERE pg_catalog.age(t.xmin) <= own.new
  UNION ALL SELECT pg_catalog.concat(p.polqual, p.polwithcheck) FROM pg_catalog.pg_policy p, own WHERE pg_catalog.age(p.xmin) <= own.new
)
SELECT EXISTS (SELECT FROM functions f WHERE f.source ~ 'termgate|:funcid 2078 ')
    OR EXISTS (SELECT FROM texts t WHERE pg_catalog.strpos(t.tree, ':funcid 2078 ') > 0)
    OR EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc f ON f.oid = d.refobjid, own
                WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND f.pronamespace = own.oid
                  AND (d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
                       OR d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
                          AND NOT EXISTS (SELECT FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
                                           WHERE r.oid = d.objid AND c.relnamespace = own.oid))) AS speaks,
       EXISTS (SELECT FROM functions f JOIN pg_catalog.pg_language l ON l.oid = f.prolang
                WHERE l.lanname NOT IN ('c', 'sql') AND (l.lanname <> 'plpgsql' OR f.source ~ '\mexecute\M|set_config')
                   OR f.source ~ 'set_config|query_to_xml|dblink') AS any_text,
       (pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.text::pg_catalog.int8 & 4294967295)::pg_catalog.text AS horizon)";

}  // namespace

struct PostgresGateFeed::Inside {
  std::string url, conninfo, sql, secret_text;
  Bytes secret;
  std::optional<Connection> connection;
  std::optional<std::int64_t> bell;
  std::string place;  // the server and database of the last answer; empty: none yet
  std::string schema;
  Clock::time_point look_at{};  // when to look for new code that mentions Termgate
  std::optional<Clock::time_point>
      read_all_at;  // when to read all code again, if that is useful; none: now
  Value horizon;
  // What code_sql has found since the last complete reading. `known`: since the last error, all
  // code was read at least once.
  std::atomic<bool> may_sit{false}, any_text{true}, known{false};
};

PostgresGateFeed::PostgresGateFeed(std::string url, std::string_view schema)
    : inside_(std::make_unique<Inside>()) {
  Inside& in = *inside_;
  in.conninfo = conninfo_of(url, ConninfoEnvironment::of_process()) +
                "&fallback_application_name=termgate%20seats";
  in.url = std::move(url);
  in.schema = schema;
  in.sql = with_schema(seats_wanted_sql, in.schema);
  in.secret = seat_secret();
  text::append_hex(in.secret_text, in.secret.data);
}

PostgresGateFeed::~PostgresGateFeed() = default;

std::string_view PostgresGateFeed::secret() const noexcept {
  return inside_->may_sit.load() ? std::string_view(inside_->secret_text) : std::string_view();
}

bool PostgresGateFeed::code_prevents_seats() const noexcept {
  return inside_->known.load() && !inside_->may_sit.load();
}

bool PostgresGateFeed::runs_any_text() const noexcept { return inside_->any_text.load(); }

PostgresGateFeed::Wanted PostgresGateFeed::wanted() {
  Inside& in = *inside_;
  try {
    if (!in.connection) {
      in.connection.emplace(in.conninfo);
      in.connection->run_script(
          "SET search_path = pg_catalog, pg_temp; SET statement_timeout = 60000; SET "
          "standard_conforming_strings = on");
      in.connection->prepare(in.sql);
      in.bell.reset();
      in.look_at = {};
      in.read_all_at.reset();
    }
    bool more_code = false;
    if (const auto now = Clock::now(); now >= in.look_at) {
      // The code that was found may have been removed. While it prevents seats, it is worth reading
      // everything again.
      const bool all = !in.read_all_at || (!in.may_sit.load() && now >= *in.read_all_at);
      const Value given[] = {Value(in.schema), all ? Value() : in.horizon};
      const Rows code = in.connection->run({std::string(code_sql), given});
      const Row& found = code.rows.front();
      in.may_sit.store(!found[0].as_bool() && (all || in.may_sit.load()));
      const bool any_text = found[1].as_bool() || (!all && in.any_text.load());
      more_code = !in.any_text.exchange(any_text) && any_text;
      in.horizon = Value(found[2].as_text());
      const auto after = Clock::now(), next = after + share_of_looks * (after - now);
      in.look_at = std::max(next, after + look_again);
      if (all) in.read_all_at = next;
      in.known.store(true);
    }
    const Value values[] = {Value(in.secret), in.bell ? Value(*in.bell) : Value()};
    const Rows rows = in.connection->run({in.sql, values});
    Wanted wanted;
    for (const Row& row : rows.rows) {
      if (!row[2].is_null()) wanted.scopes.push_back(row[2].as_text());
    }
    const Row& first = rows.rows.front();
    // Each raise moves the bell; a request with a bell that has not moved returns no scopes. While
    // a raise waits no bell is sent, so that the next answer shows whether it is over.
    if (wanted.scopes.empty()) in.bell = first[0].as_int();
    else in.bell.reset();
    const std::string place = std::exchange(in.place, first[1].as_text());
    wanted.all = !in.may_sit.load() || more_code || (!place.empty() && place != in.place);
    return wanted;
  } catch (...) {
    const bool open = in.connection && in.connection->is_open();
    in.connection.reset();
    in.known.store(false);
    in.may_sit.store(false);
    rethrow_as_ours(Phase::before_commit, in.url, open);
  }
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
