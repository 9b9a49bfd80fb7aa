// The server in this process that the proxy's sessions connect to (decision 0007).
//
// Threads: one accepts and ticks; each session has one of its own, which waits for its bytes and runs its statements;
// the proxy's workers call a session's Shortcut. `turn` says which thread has the session: its own while it works, a
// worker's during a shortcut, nobody's while it waits for bytes.
// Owner: Server. An Entry lives until its session's thread is done; Control, in it, is what other threads may call.
#include <termgate/sqlite_server/server.hpp>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <termgate/sqlite_server/users.hpp>
#include <termgate/pgwire/encode.hpp>

#include "session/session.hpp"

namespace termgate::sqlite_server {
namespace {

// libpg_query, bounded by proxy/statements and sqlite_server/dialect, and SQLite's parser are content with 2 MB; pages are taken when
// touched.
constexpr std::size_t stack_bytes = 4u << 20;
constexpr std::size_t read_bytes = 32u << 10;
constexpr int tick_ms = 250;
constexpr std::chrono::milliseconds quiet_max{100};  // after a message that waits for more

[[noreturn]] void refuse(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

class Server::Inside {
 public:
  explicit Inside(ServerOptions options) : options_(std::move(options)) {
    engine_ = open_file();
    if (!options_.users_path.empty()) (void)read_users(options_.users_path);
    wake_ = eventfd(0, EFD_CLOEXEC);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (wake_ < 0 || listener_ < 0) refuse("a socket for the sessions of the file");
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    // A family alone: the kernel chooses the name.
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof name.sun_family) != 0 || listen(listener_, 512) != 0)
      refuse("a socket for the sessions of the file");
    socklen_t size = sizeof name;
    if (getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size) != 0) refuse("a socket for the sessions of the file");
    address_ = "@" + std::string(name.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
    accepter_ = std::thread([this] { accept_all(); });
  }

  ~Inside() {
    while (!stop(std::chrono::hours(1))) {}
    engine_.reset();  // its holder watchdog may call end_sessions_of()
    close(listener_);
    close(wake_);
  }

  bool stop(std::chrono::milliseconds patience) noexcept {
    if (!stopping_.exchange(true)) {
      const std::uint64_t one = 1;
      (void)!write(wake_, &one, sizeof one);
      accepter_.join();
    }
    std::unique_lock lock(mutex_);
    for (auto& [pid, entry] : sessions_) entry->control.evict("terminating connection due to administrator command");
    return gone_.wait_for(lock, patience, [&] { return sessions_.empty(); });
  }

  const std::string& address() const noexcept { return address_; }

  Shortcut shortcut(std::uint32_t pid, std::string_view key) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(pid);
    if (found == sessions_.end() || found->second->key != key) return {};
    return [entry = found->second](std::uint64_t sent, std::uint64_t heard, std::string_view bytes, std::string& answer) {
      // Never waits: a worker's thread serves many clients. Bytes on their way in either direction would be
      // overtaken, so then the socket is used.
      const std::unique_lock turn(entry->turn, std::try_to_lock);
      if (!turn || entry->session == nullptr || sent != entry->received || heard != entry->answered) return false;
      if (!entry->session->feed_quickly(bytes, answer)) return false;
      if (entry->session->over()) entry->control.hang_up();
      return true;
    };
  }

 private:
  struct Entry {
    Inside* inside = nullptr;
    int descriptor = -1;
    std::uint32_t pid = 0;
    std::string key;
    std::optional<std::string> user;  // of one that has logged in; guarded by mutex_
    Control control;
    std::atomic<bool> sending{false};

    std::shared_ptr<Engine> engine;

    bool at_work() const { return control.idle_since.load() == std::chrono::steady_clock::time_point{}; }
    // Whether the other side has closed the connection.
    bool is_left() const {
      pollfd one{descriptor, POLLRDHUP, 0};
      return poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
    }

    std::mutex turn;                           // guards what follows: whose thread it is that has the session
    Session* session = nullptr;                // while there is one
    std::uint64_t received = 0, answered = 0;  // bytes, on the connection
  };

  void accept_all() {
    auto tick = std::chrono::steady_clock::now();
    for (;;) {
      pollfd both[2] = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
      if (poll(both, 2, tick_ms) < 0 && errno != EINTR) return;
      if (const auto now = std::chrono::steady_clock::now(); now >= tick) {
        tick = now + std::chrono::milliseconds(tick_ms);
        const std::lock_guard lock(mutex_);
        for (auto& [pid, entry] : sessions_) {
          entry->control.tick();
          // Nobody waits for what it computes. Said again at each look, as one that is not within SQLite just now does not hear it.
          if (entry->at_work() && entry->is_left()) entry->control.cancel();
        }
      }
      if (both[1].revents != 0) return;
      if ((both[0].revents & POLLIN) == 0) continue;
      const int descriptor = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) {
        // Without descriptors there is nothing to do but to try again.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      ucred peer{};
      socklen_t size = sizeof peer;
      // The socket's name can be found by any process of the machine. Only this process may connect, or the
      // proxy's checks could be gone around.
      if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != getpid()) {
        close(descriptor);
        continue;
      }
      begin(descriptor);
    }
  }

  std::shared_ptr<Engine> open_file() {
    const auto moved = std::make_shared<std::atomic<Engine*>>(nullptr);
    auto engine = std::make_shared<Engine>(EngineOptions{
        options_.path, std::max<std::size_t>(options_.sessions_max, 16), options_.idle_holder_max, {}, memory_, [this, moved] {
          end_sessions_of(*moved);
        }});
    *moved = engine.get();
    return engine;
  }

  // The one of the file that the path names now; nullptr where none can be opened. Not with mutex_ held.
  std::shared_ptr<Engine> engine() {
    using Clock = std::chrono::steady_clock;
    const std::lock_guard lock(engine_mutex_);
    if (!engine_->moved()) return engine_;
    if (Clock::now() < open_again_) return nullptr;
    try {
      engine_ = open_file();
      return engine_;
    } catch (const std::exception&) {
      open_again_ = Clock::now() + std::chrono::milliseconds(200);
      return nullptr;
    }
  }

  // On a thread of that engine's.
  void end_sessions_of(const Engine* engine) {
    const std::lock_guard lock(mutex_);
    for (auto& [pid, entry] : sessions_) {
      if (entry->engine.get() == engine)
        entry->control.evict("terminating connection: the database file was moved, removed or replaced, or its log was");
    }
  }

  void begin(int descriptor) {
    auto entry = std::make_shared<Entry>();
    entry->engine = engine();
    if (!entry->engine) {
      // At once, and not after the start-up message: who only asks whether we are ready hears it too.
      std::string report;
      pgwire::append_error_response(
          report,
          pgwire::report("FATAL", "57P03", "the database file was moved, removed or replaced, and no file at its path can be opened"));
      (void)!send(descriptor, report.data(), report.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      close(descriptor);
      return;
    }
    Entry* made = entry.get();
    made->inside = this;
    made->descriptor = descriptor;
    made->key.resize(4);
    const bool random = getrandom(made->key.data(), made->key.size(), 0) == static_cast<ssize_t>(made->key.size());
    // A session that is sending may hang in send(), which only a shutdown of both directions ends; otherwise
    // it can still send its last message.
    made->control.hang_up = [made] { shutdown(made->descriptor, made->sending ? SHUT_RDWR : SHUT_RD); };
    {
      const std::lock_guard lock(mutex_);
      if (!random || sessions_.size() >= options_.sessions_max) {
        std::string report;
        pgwire::append_error_response(report, pgwire::report("FATAL", "53300", "sorry, too many clients already"));
        (void)!send(descriptor, report.data(), report.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        close(descriptor);
        return;
      }
      do { made->pid = next_pid_ = next_pid_ % 0x7fffffff + 1; } while (sessions_.contains(made->pid));
      sessions_.emplace(made->pid, std::move(entry));
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int failure = pthread_create(
        &thread, &attributes,
        [](void* argument) -> void* {
          auto* one = static_cast<Entry*>(argument);
          one->inside->serve(*one);
          return nullptr;
        },
        made);
    pthread_attr_destroy(&attributes);
    // Too many threads: the client sees a closed connection.
    if (failure != 0) forget(*made);
  }

  void serve(Entry& entry) {
    using Clock = std::chrono::steady_clock;
    {
      bool lost = false;
      SessionOptions options;
      options.pid = entry.pid;
      options.key = entry.key;
      options.on_login = [&](const std::string& user) {
        const std::lock_guard lock(mutex_);
        entry.user = user;
      };
      options.signal = [&](std::uint32_t pid, bool terminate) { return signal(entry, pid, terminate); };
      if (!options_.users_path.empty()) {
        // Read at each login: an account that was taken away is not let in again.
        options.verifier_of = [this](std::string_view user) -> std::string {
          try {
            const Users users = read_users(options_.users_path);
            const auto found = users.find(user);
            return found != users.end() ? found->second : std::string();
          } catch (const std::runtime_error&) { throw PgException("58030", "the accounts of this server cannot be read"); }
        };
        std::uint8_t random[18];
        if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) return forget(entry);
        for (const std::uint8_t byte : random) {
          options.nonce += "0123456789abcdef"[byte >> 4];
          options.nonce += "0123456789abcdef"[byte & 15];
        }
      }
      Session session(*entry.engine, entry.control, std::move(options), [&](std::string_view bytes) {
        entry.sending = true;
        // Before the bytes are sent: a shortcut compares this count with what the proxy has received.
        entry.answered += bytes.size();
        while (!lost && !bytes.empty()) {
          const ssize_t sent = send(entry.descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (sent < 0 && errno == EINTR) continue;
          if (sent <= 0) lost = true;
          else bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        entry.sending = false;
      });
      std::string buffer(read_bytes, '\0');
      std::unique_lock turn(entry.turn);
      entry.session = &session;
      while (!session.over() && !lost) {
        entry.control.idle_since = Clock::now();
        const bool holds = session.waits_for_more();
        const auto limit = holds ? quiet_max : session.idle_limit();
        turn.unlock();
        // Nobody else begins or ends a block, or gives it messages, so the limit holds meanwhile.
        bool spoke = true;
        ssize_t got = 0;
        do {
          if (limit.count() != 0) {
            pollfd waited{entry.descriptor, POLLIN, 0};
            const int ready = poll(&waited, 1, static_cast<int>(limit.count()));
            spoke = ready != 0;
            got = -1;
            if (ready <= 0) continue;
          }
          got = recv(entry.descriptor, buffer.data(), buffer.size(), 0);
        } while (spoke && got < 0 && errno == EINTR);
        turn.lock();
        entry.control.idle_since = Clock::time_point{};
        if (!spoke && !holds) {
          session.end_idle();
          break;
        }
        if (entry.control.evicted()) {
          session.end_evicted();
          break;
        }
        if (!spoke) {
          session.go_on();
          continue;
        }
        if (got <= 0) break;
        entry.received += static_cast<std::uint64_t>(got);
        session.feed({buffer.data(), static_cast<std::size_t>(got)});
      }
      // Under `turn`: from here on no shortcut finds the session, which is about to be destroyed.
      entry.session = nullptr;
      turn.unlock();
      if (const auto request = session.cancel_request()) cancel(request->first, request->second);
    }
    forget(entry);
  }

  void cancel(std::uint32_t pid, const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(pid);
    if (found != sessions_.end() && found->second->key == key) found->second->control.cancel();
  }

  // As in PostgreSQL, of the same user's sessions.
  SessionOptions::Signalled signal(const Entry& from, std::uint32_t pid, bool terminate) {
    using Signalled = SessionOptions::Signalled;
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(pid);
    if (found == sessions_.end() || !found->second->user) return Signalled::nobody;
    if (found->second->user != from.user) return Signalled::not_allowed;
    if (terminate) found->second->control.evict("terminating connection due to administrator command");
    else found->second->control.cancel();
    return Signalled::heard;
  }

  void forget(Entry& entry) {
    const int descriptor = entry.descriptor;
    std::shared_ptr<Engine> engine;  // the last of an engine's goes without the lock, which its own thread may wait for
    const std::lock_guard lock(mutex_);
    engine.swap(entry.engine);
    sessions_.erase(entry.pid);
    close(descriptor);
    gone_.notify_all();
  }

  const ServerOptions options_;
  const std::shared_ptr<detail::FenceMemory> memory_ = std::make_shared<detail::FenceMemory>();
  std::mutex engine_mutex_;  // guards the next two; mutex_ may be taken while it is held
  std::shared_ptr<Engine> engine_;
  std::chrono::steady_clock::time_point open_again_{};
  int wake_ = -1;
  int listener_ = -1;
  std::string address_;
  std::thread accepter_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // guards the next three
  std::condition_variable gone_;
  std::map<std::uint32_t, std::shared_ptr<Entry>> sessions_;
  std::uint32_t next_pid_ = 0;
};

Server::Server(ServerOptions options) : inside_(std::make_unique<Inside>(std::move(options))) {}
Server::~Server() = default;
const std::string& Server::address() const noexcept { return inside_->address(); }
Server::Shortcut Server::shortcut(std::uint32_t pid, std::string_view key) const { return inside_->shortcut(pid, key); }
bool Server::stop(std::chrono::milliseconds patience) noexcept { return inside_->stop(patience); }

}  // namespace termgate::sqlite_server
