#include "front/files.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::sqlite_front {

using hrana::Lost;
using sqlite_file::Engine;

// The port as a stream sees it. The inner session lives until the last task that ends its
// transaction is done.
class Files::Watched final : public hrana::FileSession {
  struct State : std::enable_shared_from_this<State> {
    State(Files& the_files, std::shared_ptr<Engine> engine)
        : files(the_files), session(std::move(engine), options()) {}
    ~State() { count(false); }

    sqlite_file::SessionOptions options() {
      auto given = files.settings_.session;
      // The engine holds mutexes here, so a worker does it.
      given.on_lost = [this](const Lost& why) { evicted(why); };
      return given;
    }
    void evicted(const Lost& why) {
      lost(why);
      auto self = weak_from_this().lock();
      // A stream that is being destroyed rolls back by itself.
      if (self == nullptr) return;
      // If the server is shutting down, its last step ends every session.
      (void)files.workers_.run(Lane::transactions, [self, why] {
        const std::lock_guard turn(self->calls);
        self->session.end(&why);
        self->count(false);
      });
    }
    void count(bool open) noexcept {
      if (std::exchange(counted, open) == open) return;
      if (open) ++files.transactions_;
      else --files.transactions_;
    }

    // Whether a transaction is open. A loss that the session reports here is kept in `untold` for
    // the stream's next call.
    bool is_open() noexcept {
      try {
        return !session.is_autocommit();
      } catch (const Lost& why) {
        untold = why;
        return false;
      }
    }
    // Reported once for each stream.
    void lost(const Lost& why) {
      if (is_lost.exchange(true)) return;
      files.counts_.lost.add(why.code);
      happened("evicted", why.code, why.what());
    }
    void called_by(const Whose& whose) {
      const std::lock_guard lock(whose_mutex);
      last = whose;
    }
    void happened(std::string_view event, std::string_view code, std::string_view message) {
      if (!files.settings_.happened) return;
      const std::lock_guard lock(whose_mutex);
      files.settings_.happened(event, last, code, message);
    }

    Files& files;
    // Makes threads take turns in `session`, which may call back from together(). Guards the next
    // three members.
    std::recursive_mutex calls;
    unsigned depth = 0;
    bool counted = false;  // it is counted among the open transactions
    std::optional<Lost> untold;
    std::atomic<bool> is_lost{false};
    std::mutex whose_mutex;  // guards `last`
    Whose last;              // the last caller
    sqlite_file::Session session;
  };

  // One call of the session: waits for calls of other threads, registers how to stop this one, and
  // counts afterwards. Inside together() the outer call does all of that.
  class Entered {
   public:
    explicit Entered(State& state)
        : state_(state), lock_(state.calls), outer_(state.depth == 0), running_(Running::here()) {
      if (outer_ && running_ != nullptr) refuse(*running_);
      ++state_.depth;
      if (!outer_ || running_ == nullptr) return;
      state_.called_by(running_->whose());
      running_->begins([&session = state_.session] { session.cancel(); });
    }
    ~Entered() {
      --state_.depth;
      if (!outer_) return;
      if (running_ != nullptr) running_->ends();
      state_.count(state_.is_open());
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    bool outer() const noexcept { return outer_; }

   private:
    void refuse(const Running& running) const {
      if (running.cancelled())
        throw Lost("CLIENT_GONE",
                   "the client's connection ended while its request was at work: its transaction "
                   "was rolled back");
      if (running.late() && !state_.is_open() && !state_.untold)
        throw hrana::Busy("this server is ending, and begins nothing new: connect again");
    }

    State& state_;
    const std::unique_lock<std::recursive_mutex> lock_;
    const bool outer_;
    Running* const running_;
  };

 public:
  Watched(Files& files, std::shared_ptr<Engine> engine)
      : state_(std::make_shared<State>(files, std::move(engine))) {}
  ~Watched() override { end(nullptr); }

  hrana::Outcome execute(const hrana::Statement& statement, const hrana::Permit& permit,
                         hrana::RowSink& rows) override {
    return guarded([&](const Entered& entered) {
      auto outcome = state_->session.execute(statement, permit, rows);
      if (entered.outer()) bound(permit, false);
      return outcome;
    });
  }
  void sequence(std::string_view sql, const hrana::Permit& permit) override {
    guarded([&](const Entered& entered) {
      state_->session.sequence(sql, permit);
      if (entered.outer()) bound(permit, state_->session.keeps_of_sequence());
    });
  }
  hrana::Description describe(std::string_view sql, const hrana::Permit& permit) override {
    return guarded([&](const Entered&) { return state_->session.describe(sql, permit); });
  }
  bool is_autocommit() const override {
    const std::lock_guard lock(state_->calls);
    if (state_->untold) throw Lost(*state_->untold);
    return state_->session.is_autocommit();
  }
  bool keeps_settings() const override {
    const std::lock_guard lock(state_->calls);
    return state_->session.keeps_settings();
  }
  bool together(std::span<const std::string_view> texts, const hrana::Permit& permit,
                const std::function<void()>& work) override {
    return guarded([&](const Entered&) { return state_->session.together(texts, permit, work); });
  }
  void end(const Lost* why) noexcept override {
    const std::lock_guard lock(state_->calls);
    if (why != nullptr && state_->is_open()) state_->lost(*why);
    state_->session.end(why);
    state_->count(false);
  }
  void answered() noexcept override {
    const std::lock_guard lock(state_->calls);
    state_->session.answered();
  }
  void heard() noexcept override {
    const std::lock_guard lock(state_->calls);
    state_->session.heard();
  }

 private:
  template <typename Work>
  auto guarded(const Work& work) -> decltype(work(std::declval<const Entered&>())) {
    try {
      const Entered entered(*state_);
      return work(entered);
    } catch (const hrana::Refused& refused) {
      note(refused);
      throw;
    } catch (const Lost& why) {
      state_->lost(why);
      throw;
    }
  }
  void note(const hrana::Refused& refused) {
    if (!refused.code.starts_with("TG00")) return;
    state_->files.counts_.refusals.add(refused.code);
    state_->happened("refused", refused.code, refused.what());
  }
  // Rolls back a transaction that exceeds the limit on open transactions. `kept`: the same call ran
  // something that is kept, so its client must not repeat it.
  void bound(const hrana::Permit& permit, bool kept) {
    class Nowhere final : public hrana::RowSink {
      void columns(std::span<const hrana::Column>) override {}
      void row(std::span<const hrana::ValueView>) override {}
    };
    if (state_->counted || !state_->is_open() ||
        state_->files.transactions_ < state_->files.settings_.transactions_max)
      return;
    Nowhere nowhere;
    state_->session.execute({.sql = "ROLLBACK", .positional = {}, .named = {}, .wants_rows = false},
                            permit, nowhere);
    const std::string why = fmt::format(
        "{} transactions are open, as many as there may be (--max-transactions): try again",
        state_->files.settings_.transactions_max);
    if (kept) throw hrana::Refused("SERVER_BUSY", why);
    throw hrana::Busy(why);
  }

  const std::shared_ptr<State> state_;
};

Files::Files(FileSettings settings, Workers& workers, Counts& counts)
    : settings_(std::move(settings)),
      workers_(workers),
      counts_(counts),
      memory_(std::make_shared<detail::FenceMemory>()),
      engine_(open()) {}

std::shared_ptr<Engine> Files::open() {
  sqlite_file::EngineOptions options;
  options.path = settings_.path;
  options.idle_holder_max = settings_.idle_holder_max;
  options.readers_max = settings_.transactions_max + 32;
  options.memory = memory_;
  options.on_moved = [this] { moved_ = true; };
  return std::make_shared<Engine>(std::move(options));
}

std::unique_ptr<hrana::FileSession> Files::make() {
  std::shared_ptr<Engine> engine;
  {
    const std::lock_guard lock(mutex_);
    if (engine_ == nullptr) throw hrana::Busy(obstacle_);
    engine = engine_;
  }
  return std::make_unique<Watched>(*this, std::move(engine));
}

bool Files::look() {
  const auto now = std::chrono::steady_clock::now();
  const bool moved = moved_.exchange(false);
  std::shared_ptr<Engine>
      gone;  // destroyed after the lock is released, because its own thread may wait for that lock
  {
    const std::lock_guard lock(mutex_);
    if (moved && engine_ != nullptr) {
      before_ += engine_->counters();
      gone.swap(engine_);
      obstacle_ = "the database file was moved or replaced";
      open_again_ = now;
    }
    if (engine_ != nullptr || now < open_again_) return moved;
  }
  open_again_ = now + std::chrono::seconds(1);
  std::shared_ptr<Engine> next;
  std::string problem;
  try {
    next = open();
  } catch (const std::exception& error) {
    problem = fmt::format("the database file cannot be opened: {}", error.what());
  }
  const std::lock_guard lock(mutex_);
  engine_ = std::move(next);
  obstacle_ = std::move(problem);
  return moved;
}

std::string Files::obstacle() const {
  if (draining_) return "this server is ending";
  const std::lock_guard lock(mutex_);
  return engine_ != nullptr && engine_->moved() ? "the database file was moved or replaced"
                                                : obstacle_;
}

sqlite_file::Counters Files::counters() const {
  const std::lock_guard lock(mutex_);
  auto sum = before_;
  if (engine_ != nullptr) sum += engine_->counters();
  return sum;
}

std::size_t Files::waiting() const {
  const std::lock_guard lock(mutex_);
  return engine_ == nullptr ? 0 : engine_->waiting();
}

}  // namespace termgate::sqlite_front
