// Each scope has one ephemeral node, PREFIX/SCOPE, whose data is the owner. The lease is the
// session that created it. The term is the node's czxid, the id of the transaction that created it:
// ZooKeeper numbers all its transactions in one order, (epoch << 32 | counter), so no two creations
// share a czxid, and a later one has a higher one.
//
// The usual recipe's sequential nodes are not needed: one create that succeeds or fails elects as
// well, candidates try again anyway, and no 32-bit counter can overflow. The order of ids restarts
// only with the data; then the fence refuses.
#include <termgate/sources/zookeeper.hpp>

#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/hex.hpp>

namespace termgate::sources {
namespace {

using std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

// The result of one request, which the library's thread fills in.
struct Reply {
  std::mutex mutex{};  // guards the members below
  std::condition_variable changed{};
  bool done = false;
  int code = ZOK;
  Stat stat{};
};
using Shared = std::shared_ptr<Reply>;

void complete(const void* data, int code, const Stat* stat) {
  const std::unique_ptr<const Shared> owned(static_cast<const Shared*>(data));
  Reply& reply = **owned;
  const std::lock_guard lock(reply.mutex);
  reply.code = code;
  if (stat != nullptr) reply.stat = *stat;
  reply.done = true;
  reply.changed.notify_all();
}
void on_void(int code, const void* data) { complete(data, code, nullptr); }
void on_stat(int code, const Stat* stat, const void* data) { complete(data, code, stat); }
void on_string(int code, const char*, const void* data) { complete(data, code, nullptr); }
void on_string_stat(int code, const char*, const Stat* stat, const void* data) {
  complete(data, code, stat);
}

struct Result {
  int code;
  Stat stat;
};

// One session; it is the lease of every ephemeral node that it creates.
class Session {
 public:
  Session(const std::string& hosts, milliseconds ttl, const std::string& credentials,
          Deadline deadline)
      : ttl_(ttl),
        handle_(zookeeper_init2(hosts.c_str(), watch, static_cast<int>(ttl.count()), nullptr, this,
                                0, [](const char*) {}),
                [](zhandle_t* handle) { zookeeper_close(handle); }) {
    if (!handle_)
      throw Unavailable("the ZooKeeper client could not be started; nothing was requested");
    if (!credentials.empty()) {
      auto reply = std::make_unique<Shared>(std::make_shared<Reply>());
      const int started = zoo_add_auth(handle_.get(), "digest", credentials.data(),
                                       static_cast<int>(credentials.size()), on_void, reply.get());
      if (started != ZOK)
        throw Unavailable(fmt::format(
            "the ZooKeeper client did not take the credentials: {}; nothing was requested",
            zerror(started)));
      static_cast<void>(reply.release());  // complete() owns it now
    }
    connected(deadline);
  }
  milliseconds ttl() const { return ttl_; }
  // Below ttl() if the server granted a shorter timeout than requested.
  milliseconds granted() const { return milliseconds(zoo_recv_timeout(handle_.get())); }
  std::int64_t id() const { return zoo_client_id(handle_.get())->client_id; }
  bool over() const {
    const int state = zoo_state(handle_.get());
    return state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE;
  }
  bool auth_failed() const { return zoo_state(handle_.get()) == ZOO_AUTH_FAILED_STATE; }
  bool connected(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] {
      return zoo_state(handle_.get()) == ZOO_CONNECTED_STATE || over();
    }) && !over();
  }

  // Starts a request and waits for its end. Throws OutcomeUnknown if it does not end in time.
  template <class Start>
  Result ask(const std::string& name, Deadline deadline, Start start) {
    const Shared reply = std::make_shared<Reply>();
    auto held = std::make_unique<Shared>(reply);
    const int started = start(handle_.get(), held.get());
    if (started != ZOK)
      throw Unavailable(fmt::format("{} was not asked: {}", name, zerror(started)));
    held.release();  // complete() owns it now
    std::unique_lock lock(reply->mutex);
    if (!reply->changed.wait_until(lock, deadline, [&] { return reply->done; }))
      throw OutcomeUnknown(fmt::format(
          "{} did not answer in time; whether it did what was requested is not known", name));
    return {reply->code, reply->stat};
  }

 private:
  static void watch(zhandle_t* handle, int type, int, const char*, void*) {
    if (type != ZOO_SESSION_EVENT) return;
    auto* self = static_cast<Session*>(const_cast<void*>(zoo_get_context(handle)));
    if (self == nullptr) return;
    const std::lock_guard lock(self->mutex_);
    self->changed_.notify_all();
  }
  const milliseconds ttl_;
  std::mutex mutex_{};
  std::condition_variable changed_{};  // signals changes of the library's state
  const std::unique_ptr<zhandle_t, void (*)(zhandle_t*)> handle_;
};

class ZooKeeper final : public LeaseSource {
 public:
  explicit ZooKeeper(const SourceUrl& url)
      : name_(url.name(2181)),
        timeout_(url.timeout()),
        root_("/" + url.option("prefix", "termgate")) {
    url.allow({"password-file", "prefix"});
    if (url.hosts.empty())
      throw InvalidInput("TG005 the URL of the term source: zookeeper needs a host");
    for (const HostPort& one : url.hosts) {
      const bool six = one.host.find(':') != std::string::npos;
      hosts_ += fmt::format("{}{}{}{}:{}", hosts_.empty() ? "" : ",", six ? "[" : "", one.host,
                            six ? "]" : "", one.port == 0 ? 2181 : one.port);
    }
    if (url.path.size() > 1)
      hosts_ += url.path.ends_with('/') ? url.path.substr(0, url.path.size() - 1) : url.path;
    if (root_.size() < 2 || root_.find_first_of("/.", 1) != std::string::npos)
      throw InvalidInput(
          "TG005 the URL of the term source: prefix is one name of a ZooKeeper node");
    const std::string password = url.password();
    if (url.user.empty() != password.empty())
      throw InvalidInput(
          "TG005 the URL of the term source: ZooKeeper's digest needs both a user and a password");
    if (!password.empty()) credentials_ = url.user + ":" + password;
  }

  std::string name() const override { return name_; }

  std::optional<SourceLease> try_acquire(const Scope& scope, const std::string& owner,
                                         milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    const std::string path = path_of(scope);
    Session& session = session_of(scope, ttl, deadline);
    const Result held = exists(session, path, deadline);
    if (held.code == ZOK) {
      if (held.stat.ephemeralOwner != session.id()) return std::nullopt;
      remove(session, path, deadline);
    }
    Result made = create(session, path, owner, ZOO_EPHEMERAL, deadline);
    if (made.code == ZNONODE) {
      make_roots(session, deadline);
      made = create(session, path, owner, ZOO_EPHEMERAL, deadline);
    }
    if (made.code == ZNODEEXISTS) return std::nullopt;
    expect(made, "create");
    if (made.stat.czxid < 1 || made.stat.czxid > Term::max_value)
      throw DatabaseError(fmt::format("{}: the transaction id {} is no term from 1 to 2^62", name_,
                                      made.stat.czxid));
    return SourceLease{Term(made.stat.czxid)};
  }

  bool renew(const Scope& scope, const SourceLease& lease, const std::string&,
             milliseconds ttl) override {
    const Deadline deadline = deadline_for(ttl);
    Session* session = found(scope);
    if (session == nullptr || session->over()) return false;
    if (!session->connected(deadline)) {
      if (session->over()) return false;
      throw unreachable();
    }
    // Syncs with the ensemble's leader: a server that is cut off from it does not know that the
    // session has ended.
    const std::string path = path_of(scope);
    const Result synced = session->ask(name_, deadline, [&](zhandle_t* handle, Shared* reply) {
      return zoo_async(handle, path.c_str(), on_string, reply);
    });
    if (synced.code == ZSESSIONEXPIRED) return false;
    expect(synced, "sync");
    const Result held = exists(*session, path, deadline);
    return held.code == ZOK && held.stat.czxid == lease.term.value();
  }

  bool release(const Scope& scope, const SourceLease& lease, const std::string&) override {
    const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
    Session* session = found(scope);
    if (session == nullptr || session->over()) return false;
    if (!session->connected(deadline)) {
      if (session->over()) return false;
      throw unreachable();
    }
    const std::string path = path_of(scope);
    const Result held = exists(*session, path, deadline);
    if (held.code != ZOK || held.stat.czxid != lease.term.value()) return false;
    // The node exists only as long as this session, so no other session's node is deleted here.
    return remove(*session, path, deadline);
  }

 private:
  Deadline deadline_for(milliseconds ttl) const {
    return std::chrono::steady_clock::now() + std::min(timeout_, ttl / 3);
  }
  Unavailable unreachable() const {
    return Unavailable(fmt::format("{} cannot be reached; nothing was requested of it", name_));
  }

  std::string path_of(const Scope& scope) const {
    return root_ + "/" + text::percent_encoded(scope.name(), "-_");
  }
  Session* found(const Scope& scope) {
    const auto at = sessions_.find(scope.name());
    return at == sessions_.end() ? nullptr : at->second.get();
  }
  Session& session_of(const Scope& scope, milliseconds ttl, Deadline deadline) {
    auto& session = sessions_[scope.name()];
    if (session && (session->over() || session->ttl() != ttl)) session.reset();
    if (!session) session = std::make_unique<Session>(hosts_, ttl, credentials_, deadline);
    if (!session->connected(deadline)) {
      const bool password = session->auth_failed();
      // A session that is still connecting is kept: the next call may find it connected.
      if (session->over()) session.reset();
      if (password) throw DatabaseError(fmt::format("{} refused the user or the password", name_));
      throw unreachable();
    }
    if (session->granted() < ttl) {
      const auto granted = session->granted();
      session.reset();
      throw InvalidInput(
          fmt::format("TG005 {} grants sessions of {} ms at most: choose a TTL that is not longer, "
                      "or raise its maxSessionTimeout",
                      name_, granted.count()));
    }
    return *session;
  }

  Result exists(Session& session, const std::string& path, Deadline deadline) {
    const Result result = session.ask(name_, deadline, [&](zhandle_t* handle, Shared* reply) {
      return zoo_aexists(handle, path.c_str(), 0, on_stat, reply);
    });
    if (result.code != ZNONODE) expect(result, "exists");
    return result;
  }
  Result create(Session& session, const std::string& path, const std::string& data, int mode,
                Deadline deadline) {
    const ACL_vector* rights = credentials_.empty() ? &ZOO_OPEN_ACL_UNSAFE : &ZOO_CREATOR_ALL_ACL;
    return session.ask(name_, deadline, [&](zhandle_t* handle, Shared* reply) {
      return zoo_acreate2(handle, path.c_str(), data.data(), static_cast<int>(data.size()), rights,
                          mode, on_string_stat, reply);
    });
  }
  bool remove(Session& session, const std::string& path, Deadline deadline) {
    const Result result = session.ask(name_, deadline, [&](zhandle_t* handle, Shared* reply) {
      return zoo_adelete(handle, path.c_str(), -1, on_void, reply);
    });
    if (result.code == ZNONODE) return false;
    expect(result, "delete");
    return true;
  }
  void make_roots(Session& session, Deadline deadline) {
    const Result made = create(session, root_, "", 0, deadline);
    if (made.code == ZNONODE)
      throw DatabaseError(
          fmt::format("{}: the path of the URL is not there; create that node first", name_));
    if (made.code != ZNODEEXISTS) expect(made, "create");
  }
  void expect(const Result& result, std::string_view what) const {
    if (result.code == ZOK) return;
    const std::string why =
        fmt::format("{} answered {} with: {}", name_, what, zerror(result.code));
    if (result.code == ZCONNECTIONLOSS || result.code == ZOPERATIONTIMEOUT ||
        result.code == ZSESSIONEXPIRED || result.code == ZCLOSING)
      throw OutcomeUnknown(why + "; whether it did what was requested is not known");
    throw DatabaseError(why);
  }

  const std::string name_;
  const milliseconds timeout_;
  const std::string root_;
  std::string hosts_, credentials_;
  std::map<std::string, std::unique_ptr<Session>> sessions_;
};

}  // namespace

std::unique_ptr<LeaseSource> open_zookeeper(const SourceUrl& url) {
  return std::make_unique<ZooKeeper>(url);
}

}  // namespace termgate::sources
