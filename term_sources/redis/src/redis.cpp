// Two keys for each scope, in one slot of a cluster:
//
//   PREFIX:{SCOPE}:lease   "TERM OWNER", ends by itself after the TTL
//   PREFIX:{SCOPE}:term    the last term; never ends
//
// A term is an INCR of the counter, in the same script as the lease's SET. So no two acquisitions
// share a term, and every later one has a higher one, for as long as the server keeps what it has
// acknowledged. Redis can lose acknowledged writes with `appendfsync everysec`, in an asynchronous
// failover, and by FLUSHALL. Then it issues terms again, and the fence in the database refuses
// those (docs/use/term-sources.md).
#include <termgate/sources/redis.hpp>

#include <hiredis/hiredis.h>
#include <hiredis/sds.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/sources/connection.hpp>

#include "reply.hpp"

namespace termgate::sources {
namespace {

using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr const char* acquire_script = R"(
local held = redis.call('GET', KEYS[1])
if held then
  local owner = string.match(held, '^%d+ (.*)$')
  if not owner or redis.call('PTTL', KEYS[1]) < 0 then return {2, ''} end
  if owner ~= ARGV[1] then return {0, ''} end
  redis.call('DEL', KEYS[1])
end
redis.call('INCR', KEYS[2])
local term = redis.call('GET', KEYS[2])
redis.call('SET', KEYS[1], term .. ' ' .. ARGV[1], 'NX', 'PX', ARGV[2])
return {1, term}
)";
constexpr const char* renew_script =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('PEXPIRE', "
    "KEYS[1], ARGV[2])";
constexpr const char* release_script =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

class Redis final : public LeaseSource {
 public:
  explicit Redis(const SourceUrl& url)
      : name_(url.name(6379)),
        user_(url.user),
        password_(url.password()),
        prefix_(url.option("prefix", "termgate")),
        timeout_(url.timeout()),
        replicas_(number_of(url.option("replicas", "0"), 0, 100, "replicas")),
        database_(url.path.size() <= 1 ? 0
                                       : number_of(std::string_view(url.path).substr(1), 0, 10'000,
                                                   "the database's number")),
        connection_(name_, hosts_of(url), TlsSettings::of(url, url.scheme == "rediss")) {
    url.allow({"password-file", "ca-file", "cert-file", "key-file", "prefix", "replicas"});
    if (!user_.empty() && password_.empty())
      throw InvalidInput("TG005 the URL of the term source has a user, but no password was given");
  }

  std::string name() const override { return name_; }

  std::vector<std::string> warnings() override {
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    std::vector<std::string> found;
    const RedisReply persistence = call({"CONFIG", "GET", "append*"}, deadline, true);
    std::string only, sync;
    for (std::size_t i = 0; i + 1 < persistence.elements.size(); i += 2) {
      if (persistence.elements[i].text == "appendonly") only = persistence.elements[i + 1].text;
      if (persistence.elements[i].text == "appendfsync") sync = persistence.elements[i + 1].text;
    }
    if (persistence.kind == RedisReply::Kind::error)
      found.push_back(
          fmt::format("{} does not show how it keeps its data ({}): with anything but `appendonly "
                      "yes` and `appendfsync "
                      "always` a crash makes it issue terms again, which the fence then refuses",
                      name_, persistence.text));
    else if (only != "yes" || sync != "always")
      found.push_back(
          fmt::format("{} has `appendonly {}` and `appendfsync {}`: after a crash it issues terms "
                      "again, which the fence then "
                      "refuses. Set `appendonly yes` and `appendfsync always`",
                      name_, only, sync));
    const RedisReply memory = call({"CONFIG", "GET", "maxmemory*"}, deadline, true);
    std::string limit = "0", policy;
    for (std::size_t i = 0; i + 1 < memory.elements.size(); i += 2) {
      if (memory.elements[i].text == "maxmemory") limit = memory.elements[i + 1].text;
      if (memory.elements[i].text == "maxmemory-policy") policy = memory.elements[i + 1].text;
    }
    if (limit != "0" && policy != "noeviction")
      found.push_back(
          fmt::format("{} has `maxmemory {}` and `maxmemory-policy {}`: short of memory it deletes "
                      "leases or terms, so that two may hold a "
                      "lease, and the fence refuses the terms that it then issues again. Set "
                      "`maxmemory-policy noeviction`",
                      name_, limit, policy));
    return found;
  }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const RedisReply reply = call({"EVAL", acquire_script, "2", lease_key(scope), term_key(scope),
                                   owner, std::to_string(ttl.count())},
                                  deadline);
    if (reply.kind != RedisReply::Kind::array || reply.elements.size() != 2 ||
        reply.elements[0].kind != RedisReply::Kind::integer)
      throw OutcomeUnknown(fmt::format(
          "{} answered an acquisition with something else than its script returns", name_));
    if (reply.elements[0].number == 2)
      throw DatabaseError(
          fmt::format("{}: the key {} holds something else than a lease of Termgate's, or has no "
                      "time limit, so it would never end: see who "
                      "sets it, then DEL it, or choose another prefix=",
                      name_, lease_key(scope)));
    if (reply.elements[0].number != 1) return std::nullopt;
    const std::optional<Term> term = term_of(reply.elements[1].text);
    if (!term)
      throw DatabaseError(
          fmt::format("{}: the counter {} is not a term from 1 to 2^62; set it to the fence that "
                      "`termgate fence show` prints",
                      name_, term_key(scope)));
    SourceLease lease{*term};
    if (replicas_ > 0) confirm(scope, lease, owner, deadline);
    return lease;
  }

  bool renew(const Scope& scope, const SourceLease& lease, const std::string& owner,
             milliseconds ttl) override {
    return one(call({"EVAL", renew_script, "1", lease_key(scope), value_of(lease, owner),
                     std::to_string(ttl.count())},
                    deadline_for(ttl)));
  }

  bool release(const Scope& scope, const SourceLease& lease, const std::string& owner) override {
    return one(call({"EVAL", release_script, "1", lease_key(scope), value_of(lease, owner)},
                    std::chrono::steady_clock::now() + timeout_));
  }

 private:
  static int number_of(std::string_view text, int low, int high, std::string_view what) {
    int number = 0;
    const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stopped != text.data() + text.size() || number < low ||
        number > high)
      throw InvalidInput(fmt::format(
          "TG005 the URL of the term source: {} must be a number from {} to {}", what, low, high));
    return number;
  }
  static std::vector<HostPort> hosts_of(const SourceUrl& url) {
    if (url.hosts.size() != 1)
      throw InvalidInput(
          "TG005 the URL of the term source: redis has exactly one host, the primary; several "
          "servers would not know of each other's "
          "terms");
    HostPort host = url.hosts[0];
    if (host.port == 0) host.port = 6379;
    return {host};
  }
  static std::optional<Term> term_of(std::string_view text) {
    std::int64_t number = 0;
    const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || stopped != text.data() + text.size() || number < 1 ||
        number > Term::max_value)
      return std::nullopt;
    return Term(number);
  }
  static std::string value_of(const SourceLease& lease, const std::string& owner) {
    return fmt::format("{} {}", lease.term.value(), owner);
  }
  static bool one(const RedisReply& reply) {
    return reply.kind == RedisReply::Kind::integer && reply.number == 1;
  }

  std::string lease_key(const Scope& scope) const {
    return fmt::format("{}:{{{}}}:lease", prefix_, scope.name());
  }
  std::string term_key(const Scope& scope) const {
    return fmt::format("{}:{{{}}}:term", prefix_, scope.name());
  }
  Deadline deadline_for(milliseconds ttl) const {
    return std::chrono::steady_clock::now() + std::min(timeout_, ttl / 3);
  }

  // Waits until as many replicas know the term as the operator requires; otherwise the lease is
  // given back.
  void confirm(const Scope& scope, const SourceLease& lease, const std::string& owner,
               Deadline deadline) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    const RedisReply reply = call({"WAIT", std::to_string(replicas_),
                                   std::to_string(std::max<std::int64_t>(left.count() / 2, 1))},
                                  deadline);
    if (reply.kind == RedisReply::Kind::integer && reply.number >= replicas_) return;
    const auto have = reply.kind == RedisReply::Kind::integer ? reply.number : 0;
    release(scope, lease, owner);
    throw Unavailable(
        fmt::format("{}: {} of {} replicas acknowledged term {}, so it was given back", name_, have,
                    replicas_, lease.term.value()));
  }

  // `tolerant`: an error is returned like any other reply.
  RedisReply call(const Words& words, Deadline deadline, bool tolerant = false) {
    if (connection_.is_open()) connection_.set_deadline(deadline);
    else log_in(deadline);
    RedisReply reply = exchange(words);
    if (reply.kind == RedisReply::Kind::error && !tolerant)
      throw DatabaseError(refusal(reply.text));
    return reply;
  }

  std::string refusal(const std::string& text) const {
    if (text.starts_with("READONLY"))
      return fmt::format("{} is a replica ({}): name the primary in the URL", name_, text);
    if (text.starts_with("MOVED") || text.starts_with("ASK"))
      return fmt::format(
          "{} is one node of a cluster and sent the scope to another ({}): name a single server",
          name_, text);
    return fmt::format("{} refused: {}", name_, text);
  }

  void log_in(Deadline deadline) {
    connection_.open(deadline);
    reader_.reset();
    try {
      if (!password_.empty())
        need_ok(user_.empty() ? Words{"AUTH", password_} : Words{"AUTH", user_, password_},
                "the password");
      if (database_ != 0) need_ok({"SELECT", std::to_string(database_)}, "the database's number");
    } catch (const OutcomeUnknown&) {
      throw Unavailable(
          fmt::format("{} did not answer the login; nothing was requested of it", name_));
    }
  }
  void need_ok(const Words& words, std::string_view what) {
    const RedisReply reply = exchange(words);
    if (reply.kind != RedisReply::Kind::error) return;
    connection_.close();
    throw DatabaseError(fmt::format("{} refused {}: {}", name_, what, reply.text));
  }

  RedisReply exchange(const Words& words) {
    std::vector<const char*> pointers;
    std::vector<std::size_t> lengths;
    for (const std::string& word : words) {
      pointers.push_back(word.data());
      lengths.push_back(word.size());
    }
    sds text = nullptr;
    const int length = redisFormatSdsCommandArgv(&text, static_cast<int>(words.size()),
                                                 pointers.data(), lengths.data());
    if (length < 0) throw std::bad_alloc();
    boost::system::error_code error;
    boost::asio::write(connection_, boost::asio::buffer(text, static_cast<std::size_t>(length)),
                       error);
    redisFreeSdsCommand(text);
    const auto broken = [&](std::string_view why) {
      connection_.close();
      return OutcomeUnknown(fmt::format(
          "{} did not answer: {}; whether it did what was requested is not known", name_, why));
    };
    if (error) throw broken(error.message());
    char bytes[4096];
    for (;;) {
      const auto [state, reply] = reader_.next();
      if (state == RedisReader::State::complete) return reply;
      if (state == RedisReader::State::malformed)
        throw broken("its answer is not Redis's protocol");
      const std::size_t got = connection_.read_some(boost::asio::buffer(bytes), error);
      if (error) throw broken(error.message());
      if (!reader_.feed({bytes, got})) throw broken("its answer is too long");
    }
  }

  const std::string name_, user_, password_, prefix_;
  const milliseconds timeout_;
  const int replicas_, database_;
  Connection connection_;
  RedisReader reader_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_redis(const SourceUrl& url) {
  return std::make_unique<Redis>(url);
}

}  // namespace termgate::sources
