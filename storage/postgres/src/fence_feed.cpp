// LISTEN on a connection of its own, whose socket is polled together with an eventfd. One thread
// calls wait() and the readers; any thread may call wake(). After an error in wait() there is no
// connection; the next wait() connects and reports it, because notifications in between are lost.
#include <termgate/detail/postgres_fence_feed.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include <termgate/error.hpp>

#include <termgate/detail/schema.hpp>
#include <termgate/text/hex.hpp>
#include <termgate/text/quote.hpp>

#include "connection.hpp"
#include "conninfo.hpp"
#include "errors.hpp"
#include "sql/statements.hpp"

namespace termgate {
inline namespace v0 {
namespace detail {
namespace {

// The view that is read runs its owner's code with our rights. If it and its schema belong to a
// superuser, to the role that the feed logs in as, or to the owner of layer 1 in the database that
// the operator named, nobody else can have put it there or replace it.
constexpr std::string_view trusted_sql =
    "SELECT pg_catalog.count(*) = 2 AND pg_catalog.bool_and(r.rolsuper OR r.rolname = current_user "
    "OR r.rolname = $2) "
    "FROM (SELECT n.nspowner AS owner FROM pg_catalog.pg_namespace n WHERE n.nspname = $1 "
    "      UNION ALL SELECT c.relowner FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace "
    "                 WHERE n.nspname = $1 AND c.relname = 'fence_status') o "
    "JOIN pg_catalog.pg_roles r ON r.oid = o.owner";
constexpr std::string_view owner_sql =
    "SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = $1";

}  // namespace

struct PostgresFenceFeed::Inside {
  struct Listening {
    Listening(const std::string& conninfo, const std::string& of)
        : connection(conninfo), channel(of) {
      // Runs before any name is looked up, whatever defaults the database's owner has set. A feed
      // that only listens looks up no names; through a pooler in transaction mode these settings
      // would affect another client.
      if (channel == "termgate")
        connection.run_script(
            "SET search_path = pg_catalog, pg_temp; SET default_transaction_read_only = on; SET "
            "statement_timeout = 5000; SET "
            "standard_conforming_strings = on");
      listen();
    }
    // A standby does not accept LISTEN: until it is promoted, the feed polls. True: it listens from
    // now on, and did not before.
    bool listen() {
      if (listens ||
          connection.run_script("SELECT pg_catalog.pg_is_in_recovery()").one()[0].as_bool())
        return false;
      connection.run_script("LISTEN " + text::quoted(channel, '"'));
      listens = true;
      return true;
    }
    Connection connection;
    std::string channel;
    bool listens = false;
  };

  Rows read(std::string_view sql, std::initializer_list<Value> values) {
    if (!listening) throw Unavailable("the feed of raised fences is not connected");
    try {
      return listening->connection.run(
          {sql, std::span<const Value>(values.begin(), values.size())});
    } catch (...) { rethrow_as_ours(Phase::before_commit, url, listening->connection.is_open()); }
  }

  std::string url;
  std::string conninfo;
  std::string schema;
  std::string channel;
  std::string fences_sql, fence_sql;
  int wakeup = -1;
  std::optional<Listening> listening;
};

PostgresFenceFeed::PostgresFenceFeed(std::string url, std::string_view database, std::string schema,
                                     std::string channel)
    : inside_(std::make_unique<Inside>()) {
  inside_->channel = std::move(channel);
  inside_->url = std::move(url);
  inside_->conninfo = conninfo_of(inside_->url, ConninfoEnvironment::of_process());
  // If a parameter is given twice the later value counts; a database in the path is such a
  // parameter as well.
  inside_->conninfo += "&fallback_application_name=termgate%20watch";
  if (!database.empty()) inside_->conninfo += "&dbname=" + text::percent_encoded(database);
  inside_->schema = std::move(schema);
  inside_->fences_sql = with_schema(sql::postgres_calls()[sql::Call::fences], inside_->schema);
  inside_->fence_sql = with_schema(sql::postgres_calls()[sql::Call::fence], inside_->schema);
  inside_->wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (inside_->wakeup < 0) throw Unavailable("no descriptor is left for the feed of raised fences");
}

PostgresFenceFeed::~PostgresFenceFeed() { close(inside_->wakeup); }

std::size_t PostgresFenceFeed::wait(std::chrono::milliseconds at_most, std::size_t payloads_max,
                                    std::vector<std::string>& payloads, bool& connected_anew) {
  Inside& in = *inside_;
  try {
    connected_anew = !in.listening;
    if (!in.listening) {
      in.listening.emplace(in.conninfo, in.channel);
    } else {
      pollfd watched[] = {{in.listening->connection.socket(), POLLIN, 0}, {in.wakeup, POLLIN, 0}};
      poll(watched, 2, static_cast<int>(at_most.count()));
      // Fences that were raised before must be read again.
      connected_anew = in.listening->listen();
    }
    std::uint64_t count = 0;
    if (read(in.wakeup, &count, sizeof count) < 0) count = 0;  // wake() was not called
    payloads = in.listening->connection.notified();
    const std::size_t missed = payloads.size() > payloads_max ? payloads.size() - payloads_max : 0;
    payloads.resize(payloads.size() - missed);
    return missed;
  } catch (...) {
    const bool open = in.listening && in.listening->connection.is_open();
    in.listening.reset();
    rethrow_as_ours(Phase::before_commit, in.url, open);
  }
}

namespace {

PostgresFenceFeed::Fence fence_of(const Row& row) {
  return {row[0].as_text(), row[1].as_int(), row[6].as_optional_int()};
}

}  // namespace

std::vector<PostgresFenceFeed::Fence> PostgresFenceFeed::fences(std::string_view after, int limit) {
  std::vector<Fence> all;
  for (const Row& row : inside_->read(inside_->fences_sql, {Value(after), Value(limit)}).rows)
    all.push_back(fence_of(row));
  return all;
}

std::optional<PostgresFenceFeed::Fence> PostgresFenceFeed::fence(std::string_view scope) {
  const Rows rows = inside_->read(inside_->fence_sql, {Value(scope)});
  if (rows.empty()) return std::nullopt;
  return fence_of(rows.rows.front());
}

std::string PostgresFenceFeed::owner() {
  const Rows rows = inside_->read(owner_sql, {Value(inside_->schema)});
  return rows.empty() ? std::string() : rows.one()[0].as_text();
}

bool PostgresFenceFeed::owner_is_trusted(std::string_view owner) {
  const Rows rows = inside_->read(trusted_sql, {Value(inside_->schema), Value(owner)});
  return !rows.empty() && !rows.one()[0].is_null() && rows.one()[0].as_bool();
}

std::string PostgresFenceFeed::database() const {
  return std::string(inside_->listening ? inside_->listening->connection.database()
                                        : std::string_view{});
}

std::string PostgresFenceFeed::host() const {
  return std::string(inside_->listening ? inside_->listening->connection.host()
                                        : std::string_view{});
}

std::string PostgresFenceFeed::port() const {
  return std::string(inside_->listening ? inside_->listening->connection.port()
                                        : std::string_view{});
}

int PostgresFenceFeed::descriptor() const noexcept {
  return inside_->listening ? inside_->listening->connection.socket() : -1;
}

void PostgresFenceFeed::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only if a great many calls of wake() are already pending.
  if (write(inside_->wakeup, &one, sizeof one) < 0) return;
}

}  // namespace detail
}  // namespace v0
}  // namespace termgate
