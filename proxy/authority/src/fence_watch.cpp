#include "fence_watch.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::authority {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// One flat JSON object of strings and numbers, which is all that a raise sends. Anything else is nobody's hint.
class Payload {
 public:
  explicit Payload(std::string_view text) : text_(text) {}

  bool read(std::map<std::string, std::string>& members) {
    skip();
    if (!take('{')) return false;
    do {
      std::string key, value;
      skip();
      if (!string(key)) return false;
      skip();
      if (!take(':')) return false;
      skip();
      if (!string(value) && !number(value)) return false;
      members[key] = value;
      skip();
    } while (take(','));
    if (!take('}')) return false;
    skip();
    return at_ == text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool number(std::string& value) {
    const auto start = at_;
    while (at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'))) ++at_;
    value = std::string(text_.substr(start, at_ - start));
    return at_ > start;
  }
  bool string(std::string& value) {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char character = text_[at_++];
      if (character == '"') return true;
      if (character != '\\') {
        value += character;
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char escape = text_[at_++];
      static constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      if (const auto known = names.find(escape); known != std::string_view::npos) {
        value += meanings[known];
      } else if (escape == 'u' && at_ + 4 <= text_.size()) {
        // The server writes control characters so, and nothing else.
        unsigned code = 0;
        const char* end = text_.data() + at_ + 4;
        const auto [stopped, error] = std::from_chars(text_.data() + at_, end, code, 16);
        if (error != std::errc() || stopped != end || code == 0 || code > 0x7f) return false;
        value += static_cast<char>(code);
        at_ += 4;
      } else {
        return false;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr int page = 1000;
constexpr milliseconds reconnect_pause{1000};
constexpr milliseconds doubt_pause{1000};
constexpr std::size_t doubts_max = 10'000;
constexpr std::size_t suspects_max = 50;  // beyond that the next reading of all will do

}  // namespace

std::optional<std::string> hinted_scope(std::string_view payload, std::string_view schema) {
  std::map<std::string, std::string> members;
  if (!Payload(payload).read(members) || members["schema"] != schema) return std::nullopt;
  std::string& scope = members["scope"];
  if (name_problem(scope) != nullptr) return std::nullopt;
  return std::move(scope);
}

FenceWatch::~FenceWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (feed_) feed_->wake();
  if (thread_.joinable()) thread_.join();
}

void FenceWatch::start(Database database, std::unique_ptr<detail::FenceFeed> feed, std::string schema, milliseconds pause, std::function<void(const std::string&)> log) {
  database_.emplace(std::move(database));
  feed_ = std::move(feed);
  schema_ = std::move(schema);
  log_ = std::move(log);
  thread_ = std::thread([this, pause] { run(pause); });
}

void FenceWatch::saw(const std::string& scope, std::int64_t fence) {
  const std::int64_t remembered = memory_.highest(scope);
  if (remembered == fence) return;
  // An answer that was overtaken by a raise, as a rule; or the database has forgotten one.
  if (remembered > fence) return suspect(scope);
  memory_.saw(scope, fence);
  rose_(scope, fence);
  const std::lock_guard lock(calling_);
  if (callback_) callback_(scope, fence);
}

void FenceWatch::suspect(const std::string& scope) {
  {
    const std::lock_guard lock(mutex_);
    if (!database_ || suspects_.size() >= suspects_max || !suspects_.insert(scope).second) return;
  }
  stopped_.notify_all();
  if (feed_) feed_->wake();
}

void FenceWatch::subscribe(Callback callback) {
  const std::lock_guard lock(calling_);
  callback_ = std::move(callback);
}

std::string FenceWatch::doubt(std::string_view scope) const {
  if (!doubtful_) return {};
  const std::lock_guard lock(doubts_mutex_);
  const auto found = scope.empty() ? doubts_.begin() : doubts_.find(scope);
  return found == doubts_.end() ? std::string() : found->second.message;
}

void FenceWatch::sleep(milliseconds time) {
  std::unique_lock lock(mutex_);
  stopped_.wait_for(lock, time, [this] { return stopping_; });
}

void FenceWatch::run(milliseconds pause) {
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  Clock::time_point read_again{};
  bool told = false;
  while (!stopping()) {
    try {
      detail::FenceFeed::Heard heard;
      auto left = std::clamp(std::chrono::ceil<milliseconds>(read_again - Clock::now()), milliseconds(0), pause);
      if (doubtful_) left = std::min(left, doubt_pause);
      std::set<std::string> scopes;
      if (feed_) heard = feed_->wait(left);
      {
        std::unique_lock lock(mutex_);
        if (!feed_) stopped_.wait_for(lock, left, [this] { return stopping_ || !suspects_.empty(); });
        scopes.swap(suspects_);
        if (stopping_) return;
      }
      if (std::exchange(told, false)) log_("the database is reached again: raised fences are heard of");
      // Whoever sends more hints than that, forged or not, makes us read them all, but not more often than each second.
      for (const auto& payload : heard.payloads) {
        if (auto scope = hinted_scope(payload, schema_)) scopes.insert(std::move(*scope));
      }
      if (doubtful_) {
        // What ends a doubt, an acquisition or an operator, is heard of soon where nothing notifies us; of very many doubts only the first, the rest when all fences are read.
        const std::lock_guard lock(doubts_mutex_);
        for (auto doubt = doubts_.begin(); doubt != doubts_.end() && scopes.size() < suspects_max; ++doubt) scopes.insert(doubt->first);
      }
      const bool flood = heard.missed || scopes.size() > 100;
      if (heard.connected_anew || flood || Clock::now() >= read_again) {
        read_all();
        read_again = Clock::now() + pause;
        if (flood) sleep(reconnect_pause);
      } else {
        for (const auto& scope : scopes) read_one(scope);
      }
    } catch (const std::exception& error) {
      if (!std::exchange(told, true)) log_(fmt::format("raised fences of other processes are not heard of for now: {}", error.what()));
      read_again = {};
      sleep(reconnect_pause);
    }
  }
}

void FenceWatch::read_one(const std::string& scope) {
  // Before it is read: what a session sees meanwhile must not look like a raise that the database forgot.
  const std::int64_t remembered = memory_.highest(scope);
  if (const auto info = database_->fence(Scope(scope))) took(*info, remembered);
}

void FenceWatch::read_all() {
  std::string after;
  // As many as the memory holds.
  for (std::size_t read = 0; read < detail::FenceMemory::scopes_max; read += page) {
    const auto fences = database_->fences(after, page);
    for (const auto& info : fences) {
      if (info.term < memory_.highest(info.scope))
        read_one(info.scope);
      else
        took(info, 0);
    }
    if (fences.size() < page) return;
    after = fences.back().scope;
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

void FenceWatch::took(const FenceInfo& info, std::int64_t remembered) {
  const auto reset_since_doubt = [&] {
    const std::lock_guard lock(doubts_mutex_);
    const auto found = doubts_.find(info.scope);
    return found != doubts_.end() && info.reset_from && info.reset_from != found->second.reset_from;
  };
  if (info.term >= remembered) {
    saw(info.scope, info.term);
  } else if ((info.reset_from && *info.reset_from >= remembered) || reset_since_doubt()) {
    // An audited reset took it down.
    memory_.forget(info.scope);
    memory_.saw(info.scope, info.term);
  } else {
    const std::lock_guard lock(doubts_mutex_);
    if (doubts_.size() < doubts_max) {
      const auto [doubt, added] = doubts_.try_emplace(info.scope, Doubt{{}, info.reset_from});
      doubt->second.message = fmt::format("TG004 fence in doubt for scope \"{}\": the database shows {}, this proxy has seen {}; was the database restored? "
                                          "Then: termgate fence declare-restored --scope '{}' --above N, the highest term that was ever issued for it",
                                          info.scope, info.term, remembered, info.scope);
      doubtful_ = true;
    }
    return;
  }
  const std::lock_guard lock(doubts_mutex_);
  if (doubts_.empty()) return;
  doubts_.erase(info.scope);
  doubtful_ = !doubts_.empty();
}

}  // namespace termgate::authority
