// One thread and its connections (worker.hpp; docs/decisions/0017). Functions run on the worker's
// own thread, except those under "any thread" in worker.hpp.
#include "worker.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <termgate/pgwire/encode.hpp>

#include "cancel_task.hpp"
#include "connection.hpp"

namespace termgate::net {
namespace {

constexpr std::chrono::milliseconds sweep_every{100};
constexpr int events_at_once = 128;
constexpr int accepts_at_once = 64;
constexpr int queue_max = 4096;               // clients taken from a listener before it is closed
constexpr std::chrono::seconds cut_takes{2};  // for the last messages of sessions that are cut

constexpr std::string_view greeting_limit_met =
    "too many connections without a start-up message: the proxy's limit was reached "
    "(--max-greeting)";

// For a client that cannot be served: sends what fits into its socket's empty buffer, and closes.
void turn_away(int descriptor, Backend::Protocol protocol, std::string_view sqlstate,
               std::string_view message) {
  std::string report;
  // A TDS client that has not sent LOGIN7 yet understands no error: its connection is just closed.
  if (protocol == Backend::Protocol::postgresql)
    pgwire::append_error_response(report, pgwire::report("FATAL", sqlstate, message));
  (void)send(descriptor, report.data(), report.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(descriptor, SHUT_WR);
  // Reads what the client has sent already, because unread bytes would turn the close into a reset
  // that discards the message.
  std::array<char, 4096> scratch;
  (void)recv(descriptor, scratch.data(), scratch.size(), MSG_DONTWAIT);
  close(descriptor);
}

// Returns a descriptor, or -1 with errno.
int accept_one(const http::OpenListener& listener, Endpoint& peer) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const int descriptor = accept4(listener.descriptor, reinterpret_cast<sockaddr*>(&address), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor >= 0)
    peer = address.ss_family == AF_UNIX
               ? *Endpoint::unix_socket("")
               : Endpoint(reinterpret_cast<const sockaddr*>(&address), size);
  return descriptor;
}

}  // namespace

class Worker::Acceptor final : public Pollable {
 public:
  Acceptor(Worker& worker, const http::OpenListener& from) : listener(from), worker_(worker) {}
  void ready(std::uint32_t) override { worker_.accept_from(listener); }

  const http::OpenListener& listener;
  std::uint32_t watched = 0;

 private:
  Worker& worker_;
};

class Worker::Waker final : public Pollable {
 public:
  Waker() : descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Waker() override { close(descriptor); }
  void ready(std::uint32_t) override {
    std::uint64_t count = 0;
    (void)!read(descriptor, &count, sizeof count);
  }
  void wake() const {
    const std::uint64_t one = 1;
    (void)!write(descriptor, &one, sizeof one);
  }

  const int descriptor;
  std::uint32_t watched = 0;
};

Worker::Worker(Shared& shared, std::shared_ptr<Counters> counters)
    : shared_(shared),
      counters_(std::move(counters)),
      buffer_(new char[buffer_bytes]),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      waker_(std::make_unique<Waker>()) {
  spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  watch(waker_->descriptor, waker_.get(), EPOLLIN, waker_->watched);
}

Worker::~Worker() {
  stop();
  join();
  tasks_.clear();
  connections_.clear();
  close(epoll_);
  if (spare_ >= 0) close(spare_);
}

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
}

// While the worker has not taken earlier tasks yet, `awake_` saves the system call.
void Worker::post(std::function<void()> task) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(task));
    wake = !std::exchange(awake_, true);
  }
  if (wake) waker_->wake();
}

void Worker::fence_rose(std::uint64_t fences, std::string_view scope, std::int64_t fence) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    std::int64_t& highest = rose_[fences][std::string(scope)];
    highest = std::max(highest, fence);
    wake = !std::exchange(awake_, true);
  }
  if (wake) waker_->wake();
}

void Worker::gate_wanted(std::string_view scope, bool certain) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    (certain ? gates_wanted_ : gates_unwatched_).emplace(scope);
    wake = !std::exchange(awake_, true);
  }
  if (wake) waker_->wake();
}

void Worker::stop() {
  stopping_ = true;
  waker_->wake();
}

void Worker::drain(conversation::Instant cut_at) {
  post([this, cut_at] {
    cut_at_ = std::min(cut_at_, cut_at);
    if (std::exchange(draining_, true)) return;
    watch_listeners(false);
    acceptors_.clear();
    if (--shared_.listening == 0) {
      // Closing a queue resets the clients that wait in it. A service manager's socket stays open,
      // and its clients wait for the next process.
      for (const http::OpenListener& listener : shared_.listeners) {
        if (listener.options.inherited >= 0) continue;
        for (int taken = 0; taken < queue_max; ++taken) {
          Endpoint peer;
          const int descriptor = accept_one(listener, peer);
          if (descriptor < 0) break;
          take(descriptor, peer, &listener, false);
        }
      }
      http::close_all(shared_.listeners);
    }
    for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->drain();
  });
}

void Worker::hand_over(int descriptor, const Endpoint& peer, const http::OpenListener* listener,
                       bool room_is_here) {
  load_.fetch_add(1, std::memory_order_relaxed);
  post([this, descriptor, peer, listener, room_is_here] {
    load_.fetch_sub(1, std::memory_order_relaxed);
    take(descriptor, peer, listener, room_is_here);
  });
}

// If epoll_ctl fails (the kernel's limit of watches), the socket stays unwatched. Deadlines still
// hold for its connection.
void Worker::watch(int descriptor, Pollable* who, std::uint32_t wanted, std::uint32_t& current) {
  if (wanted == current) return;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = who;
  const int operation = current == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_, operation, descriptor, &event) != 0 && operation != EPOLL_CTL_DEL)
    shared_.log.say_seldom("epoll_ctl", LogLevel::error, "epoll_ctl_failed",
                           {{"reason", std::strerror(errno)}});
  current = wanted;
}

Connection* Worker::find(std::uint64_t id) {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

// Takes the connection out of the lists and keeps it until the current events are handled, because
// one of them may still name it.
void Worker::bury(Connection& connection) {
  by_id_.erase(connection.id());
  const std::size_t at = connection.place();
  assert(at < connections_.size() && connections_[at].get() == &connection &&
         "a connection knows its place");
  buried_.push_back(std::move(connections_[at]));
  if (at + 1 != connections_.size()) {
    connections_[at] = std::move(connections_.back());
    connections_[at]->set_place(at);
  }
  connections_.pop_back();
  load_.fetch_sub(1, std::memory_order_relaxed);
  if (!connections_.empty()) return;
  // The sweep updates these only while there are connections.
  in_transaction_.store(0, std::memory_order_relaxed);
  seated_.store(0, std::memory_order_relaxed);
  session_bytes_.store(0, std::memory_order_relaxed);
}

bool Worker::cancel(const CancelRegistry::Target& target, std::shared_ptr<const Settings> settings,
                    std::function<void()> done) {
  if (shared_.cancels_under_way.fetch_add(1) >=
      static_cast<std::int64_t>(settings->options.limits.cancels)) {
    --shared_.cancels_under_way;
    counters_->cancels_over_limit.add();
    shared_.log.say_seldom("cancels", LogLevel::warning, "cancel_dropped",
                           {{"limit", "--max-cancels"}});
    return false;
  }
  counters_->cancels.add();
  tasks_.push_back(
      std::make_unique<CancelTask>(*this, target, std::move(settings), std::move(done)));
  tasks_.back()->begin();
  return true;
}

void Worker::bury(CancelTask& task) {
  const auto found = std::find_if(tasks_.begin(), tasks_.end(),
                                  [&](const auto& one) { return one.get() == &task; });
  if (found == tasks_.end()) return;
  --shared_.cancels_under_way;
  buried_tasks_.push_back(std::move(*found));
  *found = std::move(tasks_.back());
  tasks_.pop_back();
}

void Worker::happened(const Connection& connection, const conversation::Incident& incident) {
  using Kind = conversation::Incident::Kind;
  counters_->note(incident);
  const conversation::LoginRequest* known = connection.who();
  const conversation::LoginRequest who =
      known != nullptr && incident.kind != Kind::transaction && incident.kind != Kind::fenced
          ? *known
          : conversation::LoginRequest();
  const auto id = connection.id();
  const auto client = [&] { return connection.peer().text(); };
  switch (incident.kind) {
    case Kind::transaction:
    case Kind::fenced: return;
    case Kind::refused:
    case Kind::would_refuse:
      // The client chooses its application name, so that is not part of the subject.
      shared_.log.say_seldom(fmt::format("{}/{}/{}", incident.code, incident.scope, who.user),
                             LogLevel::warning,
                             incident.kind == Kind::refused ? "refused" : "would_refuse",
                             {{"connection", id},
                              {"code", incident.code},
                              {"scope", incident.scope},
                              {incident.term != 0 ? "term" : "", incident.term},
                              {incident.fence != 0 ? "fence" : "", incident.fence},
                              {"from_memory", incident.from_memory},
                              {"user", who.user},
                              {"database", who.database},
                              {"application_name", who.application_name},
                              {"statement", statement_words(incident.statement)},
                              {"message", incident.message}});
      break;
    case Kind::evicted:
      shared_.log.say(LogLevel::warning, "evicted",
                      {{"connection", id},
                       {"scope", incident.scope},
                       {"term", incident.term},
                       {"fence", incident.fence},
                       {"user", who.user},
                       {"database", who.database},
                       {"application_name", who.application_name}});
      break;
    case Kind::login_refused:
      shared_.log.say_seldom(
          fmt::format("login/{}/{}/{}", connection.peer().host(), who.user, incident.code),
          LogLevel::warning, "login_refused",
          {{"connection", id},
           {"client", client()},
           {"user", who.user},
           {"database", who.database},
           {"application_name", who.application_name},
           {"code", incident.code},
           {"message", incident.message}});
      break;
    case Kind::no_seat:
      shared_.log.say_seldom(fmt::format("no_seat/{}/{}", who.user, incident.message),
                             LogLevel::info, "no_seat",
                             {{"connection", id},
                              {"scope", incident.scope},
                              {"term", incident.term},
                              {"user", who.user},
                              {"database", who.database},
                              {"code", incident.code},
                              {"message", incident.message}});
      break;
    case Kind::malformed:
      shared_.log.say_seldom("malformed/" + connection.peer().host(), LogLevel::warning,
                             "malformed",
                             {{"connection", id},
                              {"client", client()},
                              {"code", incident.code},
                              {"message", incident.message}});
      break;
  }
  if (incident.kind != Kind::refused) return shared_.authority.happened(who.database, incident);
  conversation::Incident known_client = incident;
  // For the audit, in printable ASCII only, because the client chooses parts of it.
  std::string text =
      fmt::format("{} {} {}", who.user, connection.peer().host(), who.application_name)
          .substr(0, 200);
  for (char& c : text) c = c >= 0x20 && c < 0x7f ? c : '?';
  known_client.client = text;
  shared_.authority.happened(who.database, known_client);
}

void Worker::watch_listeners(bool wanted) {
  for (const auto& acceptor : acceptors_) {
    // Exclusive: a new client does not wake every thread.
    watch(acceptor->listener.descriptor, acceptor.get(),
          wanted ? std::uint32_t{EPOLLIN} | EPOLLEXCLUSIVE : 0, acceptor->watched);
  }
}

void Worker::accept_from(const http::OpenListener& listener) {
  for (int i = 0; i < accepts_at_once; ++i) {
    Endpoint peer;
    const int descriptor = accept_one(listener, peer);
    if (descriptor < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        counters_->no_descriptors.add();
        shared_.log.say_seldom("descriptors", LogLevel::error, "accept_failed",
                               {{"reason", std::strerror(errno)}, {"limit", "RLIMIT_NOFILE"}});
        // Without a free descriptor nothing can be accepted, and the ready listener would make this
        // loop spin. The spare descriptor lets one client get an error; then the listeners rest
        // for a moment.
        if (spare_ >= 0) {
          close(spare_);
          const int last = accept4(listener.descriptor, nullptr, nullptr, SOCK_CLOEXEC);
          if (last >= 0)
            turn_away(
                last, shared_.backend.protocol, "53300",
                "too many connections: the proxy has no file descriptor left (RLIMIT_NOFILE)");
          spare_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        watch_listeners(false);
        accept_again_ = std::chrono::steady_clock::now() + sweep_every;
        return;
      }
      continue;  // most likely the client has gone, or its network has failed
    }
    counters_->accepted.add();
    // Connections stay on the thread where they begin, so the load is balanced here. The counts may
    // be slightly old.
    Worker* least = this;
    for (const auto& worker : shared_.workers) {
      if (worker->load() < least->load()) least = worker.get();
    }
    if (least == this) take(descriptor, peer, &listener, false);
    else least->hand_over(descriptor, peer, &listener, false);
  }
}

std::list<Connection*>::iterator Worker::greets(Connection& connection) {
  ++shared_.greeting;
  greeting_count_.fetch_add(1, std::memory_order_relaxed);
  return greeting_.insert(greeting_.end(), &connection);
}

void Worker::has_greeted(std::list<Connection*>::iterator place) {
  greeting_.erase(place);
  greeting_count_.fetch_sub(1, std::memory_order_relaxed);
  --shared_.greeting;
}

// Closes the oldest client that may be closed: one that has sent nothing, or has not finished its
// greeting within a second. False: there is none.
bool Worker::make_room() {
  const auto now = std::chrono::steady_clock::now();
  for (Connection* oldest : greeting_) {
    if (oldest->silent() || now - oldest->began() > std::chrono::seconds(1)) {
      oldest->give_up("53300", greeting_limit_met, "its place was needed for others");
      return true;
    }
  }
  return false;
}

void Worker::take(int descriptor, const Endpoint& peer, const http::OpenListener* listener,
                  bool room_is_here) {
  const auto settings = shared_.settings();
  if (shared_.greeting.load() >= static_cast<std::int64_t>(settings->options.limits.greeting)) {
    // The limit counts the clients of all workers, but this worker can close only its own.
    Worker* most = this;
    if (!room_is_here) {
      for (const auto& worker : shared_.workers) {
        if (worker->greeting_count() > most->greeting_count()) most = worker.get();
      }
    }
    if (most != this) return most->hand_over(descriptor, peer, listener, true);
    counters_->refused_limit_greeting.add();
    shared_.log.say_seldom(
        "greeting", LogLevel::warning, "limit_met",
        {{"limit", "--max-greeting"}, {"value", settings->options.limits.greeting}});
    if (!make_room())
      return turn_away(descriptor, shared_.backend.protocol, "53300", greeting_limit_met);
  }
  auto connection =
      std::make_unique<Connection>(*this, ++shared_.last_id, descriptor, peer, *listener, settings);
  Connection* one = connection.get();
  one->set_place(connections_.size());
  connections_.push_back(std::move(connection));
  by_id_.emplace(one->id(), one);
  load_.fetch_add(1, std::memory_order_relaxed);
  one->begin();
  // A client that comes during the drain is greeted first. If its socket were closed at once, the
  // bytes that it sends would cause a reset, which discards the answer.
  if (draining_) one->drain();
}

// The queues are swapped out under the mutex and run without it, because a task may post.
void Worker::run_posted() {
  std::vector<std::function<void()>> tasks;
  Risen rose;
  std::set<std::string, std::less<>> wanted, unwatched;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(posted_);
    rose.swap(rose_);
    wanted.swap(gates_wanted_);
    unwatched.swap(gates_unwatched_);
    awake_ = false;
  }
  for (auto& task : tasks) task();
  if (rose.empty() && wanted.empty() && unwatched.empty()) return;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (i < connections_.size()) connections_[i]->relay().fences_rose(rose);
    if (i < connections_.size()) connections_[i]->relay().gates_wanted(wanted, true);
    if (i < connections_.size()) connections_[i]->relay().gates_wanted(unwatched, false);
  }
}

// Called every 100 ms unless the worker is idle: deadlines, the drain, and once a second the
// gauges. Goes backwards, because a connection that ends is replaced by the last one.
void Worker::sweep(conversation::Instant now) {
  if (accept_again_ != conversation::Instant{} && now >= accept_again_) {
    accept_again_ = {};
    watch_listeners(true);
  }
  const bool count = now - counted_ >= std::chrono::seconds(1);
  std::int64_t in_transaction = 0;
  std::int64_t seated = 0;
  std::int64_t bytes = 0;
  const bool cut = now >= cut_at_ && !cut_;
  const bool kill = cut_ && now >= cut_at_ + cut_takes;
  if (cut) cut_ = true;
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (i >= connections_.size()) continue;  // other connections may have ended too
    Connection& connection = *connections_[i];
    if (kill) {
      connection.end("drain timeout");
      continue;
    }
    // No client waits for the result, and the transaction could delay the drain.
    if (draining_ && connection.hung_up()) {
      connection.end("the client is gone, and the proxy drains");
      continue;
    }
    if (cut)
      connection.cut("57P01",
                     "terminating connection: the proxy is shutting down, and its drain timeout is "
                     "over (--drain-timeout)");
    else connection.look_at_clock(now);
    if (!count || i >= connections_.size()) continue;
    const auto seen = connections_[i]->relay().seen();
    in_transaction += seen.in_transaction ? 1 : 0;
    seated += seen.seated ? 1 : 0;
    bytes += static_cast<std::int64_t>(seen.bytes);
  }
  for (std::size_t i = tasks_.size(); i-- > 0;) tasks_[i]->look_at_clock(now);
  if (count) {
    counted_ = now;
    in_transaction_.store(in_transaction, std::memory_order_relaxed);
    seated_.store(seated, std::memory_order_relaxed);
    session_bytes_.store(bytes, std::memory_order_relaxed);
  }
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "termgate-net");
  for (const http::OpenListener& listener : shared_.listeners)
    acceptors_.push_back(std::make_unique<Acceptor>(*this, listener));
  watch_listeners(true);
  std::array<epoll_event, events_at_once> events;
  auto swept = std::chrono::steady_clock::now();
  while (!stopping_) {
    const bool idle =
        connections_.empty() && tasks_.empty() && accept_again_ == conversation::Instant{};
    const int count = epoll_wait(epoll_, events.data(), events_at_once,
                                 idle ? -1 : static_cast<int>(sweep_every.count()));
    for (int i = 0; i < count; ++i)
      static_cast<Pollable*>(events[static_cast<std::size_t>(i)].data.ptr)
          ->ready(events[static_cast<std::size_t>(i)].events);
    run_posted();
    const auto now = std::chrono::steady_clock::now();
    if (now - swept >= sweep_every) {
      swept = now;
      sweep(now);
    }
    buried_.clear();
    buried_tasks_.clear();
  }
  watch_listeners(false);
  for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->end("the proxy ends");
  while (!tasks_.empty()) tasks_.back()->end();
  buried_.clear();
  buried_tasks_.clear();
}

}  // namespace termgate::net
