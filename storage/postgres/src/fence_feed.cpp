// LISTEN on a connection of its own. libpqxx's await_notification() cannot be woken, so the socket is polled
// beside an eventfd.
// One thread calls wait() and the readers; wake() may be called from any. After an error there is no
// connection, and the next wait() makes one and says so: what was notified in between is lost.
#include <termgate/detail/postgres_fence_feed.hpp>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include <pqxx/pqxx>

#include <termgate/error.hpp>

#include <termgate/detail/schema.hpp>

#include "conninfo.hpp"
#include "errors.hpp"
#include "pqxx_versions.hpp"
#include "sql/statements.hpp"

namespace termgate::inline v0::detail {
namespace {

// The view that is read is code of its owner's and runs with our rights. Where it and its schema belong to a superuser, to the role that
// the feed logs in as, or to the owner of layer 1 in the database that the operator named, nobody else can have put it there, nor can put
// another in its place.
constexpr std::string_view trusted_sql =
    "SELECT pg_catalog.count(*) = 2 AND pg_catalog.bool_and(r.rolsuper OR r.rolname = current_user OR r.rolname = $2) "
    "FROM (SELECT n.nspowner AS owner FROM pg_catalog.pg_namespace n WHERE n.nspname = $1 "
    "      UNION ALL SELECT c.relowner FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "                 WHERE n.nspname = $1 AND c.relname = 'fence_status') o "
    "JOIN pg_catalog.pg_roles r ON r.oid = o.owner";
constexpr std::string_view owner_sql = "SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = $1";

// For the value of a parameter in a URI.
std::string encoded(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string result;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if ((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')) {
      result += letter;
    } else {
      result += '%';
      result += digits[byte >> 4];
      result += digits[byte & 15];
    }
  }
  return result;
}

}  // namespace

struct PostgresFenceFeed::Inside {
  // The members' order is that of construction: LISTEN comes last.
  struct Listening {
    Listening(const std::string& conninfo, const std::string& channel) : quiet(conninfo) {
      // Before anything of ours is looked up by name, and whatever the database's owner has set for it.
      pqxx::nontransaction(connection)
          .exec(
              "SET search_path = pg_catalog, pg_temp; SET default_transaction_read_only = on; SET statement_timeout = 5000; SET "
              "standard_conforming_strings = on");
      listen(channel);
    }
    // A standby takes no LISTEN: until it is promoted, who waits reads. True: it listens from now on.
    bool listen(const std::string& channel) {
      if (listener || pqxx::nontransaction(connection).exec1("SELECT pg_catalog.pg_is_in_recovery()")[0].as<bool>()) return false;
      listener.emplace(connection, channel, [this](std::string payload) {
        if (payloads.size() < payloads_max) payloads.push_back(std::move(payload));
        else ++missed;
      });
      return true;
    }
    std::vector<std::string> payloads;
    std::size_t payloads_max = 0;
    std::size_t missed = 0;
    QuietConnection quiet;
    pqxx::connection& connection = quiet.connection;
    std::optional<Listener> listener;
  };

  template <class... Arguments>
  pqxx::result read(std::string_view sql, const Arguments&... arguments) {
    if (!listening) throw Unavailable("the feed of raised fences is not connected");
    try {
      pqxx::nontransaction transaction(listening->connection);
      const std::array<std::string, sizeof...(arguments)> texts{std::string(arguments)...};
      Parameters values;
      for (const std::string& text : texts) values.add_text(text);
      return values.run(transaction, std::string(sql));
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

PostgresFenceFeed::PostgresFenceFeed(std::string url, std::string_view database, std::string schema, std::string channel)
    : inside_(std::make_unique<Inside>()) {
  inside_->channel = std::move(channel);
  inside_->url = std::move(url);
  inside_->conninfo = conninfo_of(inside_->url, std::getenv("PGCONNECT_TIMEOUT") != nullptr);
  // Of a parameter that is given twice the later one counts, and a database in the path is one as well.
  inside_->conninfo += "&fallback_application_name=termgate%20watch";
  if (!database.empty()) inside_->conninfo += "&dbname=" + encoded(database);
  inside_->schema = std::move(schema);
  inside_->fences_sql = with_schema(sql::postgres_calls()[sql::Call::fences], inside_->schema);
  inside_->fence_sql = with_schema(sql::postgres_calls()[sql::Call::fence], inside_->schema);
  inside_->wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (inside_->wakeup < 0) throw Unavailable("no descriptor is left for the feed of raised fences");
}

PostgresFenceFeed::~PostgresFenceFeed() { close(inside_->wakeup); }

std::size_t PostgresFenceFeed::wait(std::chrono::milliseconds at_most, std::size_t payloads_max, std::vector<std::string>& payloads,
                                    bool& connected_anew) {
  Inside& in = *inside_;
  try {
    connected_anew = !in.listening;
    if (!in.listening) {
      in.listening.emplace(in.conninfo, in.channel);
    } else {
      pollfd watched[] = {{in.listening->connection.sock(), POLLIN, 0}, {in.wakeup, POLLIN, 0}};
      poll(watched, 2, static_cast<int>(at_most.count()));
      // What was raised before is read anew.
      connected_anew = in.listening->listen(in.channel);
    }
    std::uint64_t count = 0;
    if (read(in.wakeup, &count, sizeof count) < 0) count = 0;  // nobody called wake()
    Inside::Listening& listening = *in.listening;
    listening.payloads_max = payloads_max;
    listening.missed = 0;
    listening.connection.get_notifs();
    if (!listening.connection.is_open()) throw pqxx::broken_connection("the server ended the session");
    payloads = std::exchange(listening.payloads, {});
    return listening.missed;
  } catch (...) {
    const bool open = in.listening && in.listening->connection.is_open();
    in.listening.reset();
    rethrow_as_ours(Phase::before_commit, in.url, open);
  }
}

std::vector<PostgresFenceFeed::Fence> PostgresFenceFeed::fences(std::string_view after, int limit) {
  std::vector<Fence> all;
  for (const auto& row : inside_->read(inside_->fences_sql, after, std::to_string(limit))) {
    Fence fence{row[0].as<std::string>(), row[1].as<std::int64_t>(), std::nullopt};
    if (!row[6].is_null()) fence.reset_from = row[6].as<std::int64_t>();
    all.push_back(std::move(fence));
  }
  return all;
}

std::optional<PostgresFenceFeed::Fence> PostgresFenceFeed::fence(std::string_view scope) {
  const auto rows = inside_->read(inside_->fence_sql, scope);
  if (rows.empty()) return std::nullopt;
  Fence fence{rows[0][0].as<std::string>(), rows[0][1].as<std::int64_t>(), std::nullopt};
  if (!rows[0][6].is_null()) fence.reset_from = rows[0][6].as<std::int64_t>();
  return fence;
}

std::string PostgresFenceFeed::owner() {
  const auto rows = inside_->read(owner_sql, inside_->schema);
  return rows.empty() ? std::string() : rows[0][0].as<std::string>();
}

bool PostgresFenceFeed::owner_is_trusted(std::string_view owner) {
  const auto rows = inside_->read(trusted_sql, inside_->schema, owner);
  return !rows.empty() && !rows[0][0].is_null() && rows[0][0].as<bool>();
}

std::string PostgresFenceFeed::database() const {
  return inside_->listening ? std::string(inside_->listening->connection.dbname()) : std::string();
}

std::string PostgresFenceFeed::host() const {
  const char* host = inside_->listening ? inside_->listening->connection.hostname() : nullptr;
  return host != nullptr ? host : "";
}

std::string PostgresFenceFeed::port() const {
  const char* port = inside_->listening ? inside_->listening->connection.port() : nullptr;
  return port != nullptr ? port : "";
}

int PostgresFenceFeed::descriptor() const noexcept { return inside_->listening ? inside_->listening->connection.sock() : -1; }

void PostgresFenceFeed::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when it is awake a great many times already.
  if (write(inside_->wakeup, &one, sizeof one) < 0) return;
}

}  // namespace termgate::inline v0::detail
