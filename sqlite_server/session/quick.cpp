// What reads a little, answered at once on a thread that has other sessions to serve: what may be tried, and how it is undone.
#include <algorithm>
#include <chrono>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/types.hpp>

#include "session/session.hpp"

namespace termgate::sqlite_server {

namespace frontend = pgwire::frontend;

namespace {
constexpr std::size_t quick_bytes_max = 8u << 10;
constexpr int quick_questions = 3;  // of SqlConnection's progress handler: 10,000 to 15,000 instructions
constexpr std::chrono::microseconds quick_time{500};
constexpr int skips_by_work = 64, lates_max = 3;
constexpr std::int64_t skips_by_time = 32, skips_max = 10'000;
}  // namespace

// Into `pending_`, where all of it may be tried; `plans`: what it would run.
bool Session::quick_batch(std::string_view bytes, std::vector<Plans>& plans) {
  std::optional<Plans> parsed;
  const auto skip = [](const Plan& plan) {
    const int left = *plan.skips;
    if (left > 0) *plan.skips = left - 1;
    return left > 0;
  };
  const auto may_try = [&](const Plans& all) {
    if (all->size() != 1) return false;
    const Plan& plan = all->front();
    return plan.does.effect == dialect::Effect::read && !plan.own && !plan.native && plan.does.sql.size() == 1 && !skip(plan);
  };
  for (bool over = false; !bytes.empty();) {
    if (over || bytes.size() < 5) return false;
    std::size_t size = 0;
    for (std::size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(bytes[i]);
    if (size < 4 || size + 1 > bytes.size()) return false;
    const char type = bytes.front();
    const std::string_view body = bytes.substr(5, size - 4);
    bytes.remove_prefix(size + 1);
    switch (type) {
      case frontend::query: {
        const auto query = pgwire::decode_query(body);
        if (!query || !pending_.empty()) return false;
        plans.push_back(plans_of(std::string(query->sql)));
        if (!may_try(plans.back())) return false;
        over = true;
        break;
      }
      case frontend::parse: {
        // One that has a name cannot be sent twice.
        const auto parse = pgwire::decode_parse(body);
        if (!parse || !parse->statement.empty()) return false;
        parsed = plans_of(std::string(parse->sql));
        if (!may_try(*parsed)) return false;
        break;
      }
      case frontend::bind: {
        const auto bound = pgwire::decode_bind(body);
        if (!bound || !bound->portal.empty()) return false;
        if (bound->statement.empty() && parsed) {
          plans.push_back(*parsed);
        } else {
          const auto found = statements_.find(bound->statement);
          if (found == statements_.end()) return false;
          plans.push_back(found->second->plans);
        }
        if (!may_try(plans.back())) return false;
        break;
      }
      case frontend::describe:
      case frontend::execute: break;
      case frontend::sync: over = true; break;
      default: return false;
    }
    pending_.push_back({type, std::string(body)});
    if (over && bytes.empty()) return true;
  }
  return false;
}

bool Session::feed_quickly(std::string_view bytes, std::string& answer) {
  const bool fresh = started_ && !scram_ && !over_ && !skipping_ && !copy_in_ && status_ == Status::idle && !tx_.started &&
                     portals_.empty() && pending_.empty() && out_.empty();
  if (!fresh || bytes.size() > quick_bytes_max || !reader_.between_messages() || control_.evicted()) return false;
  std::vector<Plans> plans;
  bool tried = false;
  try {
    tried = quick_batch(bytes, plans);
  } catch (const PgException&) {}
  if (!tried) {
    pending_.clear();
    return false;
  }
  quick_ = true;
  too_slow_ = false;
  control_.allow(quick_questions);
  const auto began = Engine::Clock::now();
  struct Over {
    Session& session;
    ~Over() {
      session.quick_ = false;
      session.control_.allow(0);
    }
  };
  bool undo = false;
  {
    const Over over{*this};
    try {
      work();
    } catch (const NotQuick&) { too_slow_ = true; }
    undo = too_slow_ || control_.overran();
  }
  // What cannot be known before, such as how large a row is or how long a virtual table takes, is learnt. A thread that had to wait for its
  // processor looks the same, but seldom again and again, and nothing is forever.
  const std::int64_t late = (Engine::Clock::now() - began) / quick_time;
  for (const Plans& each : plans) {
    std::atomic<int>& skips = *each->front().skips;
    const int before = skips;
    const int after = undo                  ? skips_by_work
                      : late == 0           ? 0
                      : before > -lates_max ? before - 1
                                            : static_cast<int>(std::min(skips_max, skips_by_time * late));
    if (after != before) skips = after;
  }
  if (!undo) {
    answer += std::exchange(out_, {});
    return true;
  }
  out_.clear();
  last_.clear();
  pending_.clear();
  pending_bytes_ = 0;
  skipping_ = over_ = false;
  at_plan_ = {};
  roll_back();
  return false;
}

std::variant<bool, SqlError> Session::signal(std::int32_t process_id, bool terminate) {
  // Once: what was tried may be run again.
  if (quick_) too_slow_ = true;
  if (quick_ || !options_.signal || process_id <= 0) return false;
  const auto heard = options_.signal(static_cast<std::uint32_t>(process_id), terminate);
  if (heard == SessionOptions::Signalled::not_allowed)
    return SqlError{"42501", terminate ? "must be a member of the role whose process is being terminated or member of pg_signal_backend"
                                       : "must be a member of the role whose query is being canceled or member of pg_signal_backend"};
  return heard == SessionOptions::Signalled::heard;
}

// Asked for by functions that may take long.
bool Session::cancelled() const {
  if (quick_) too_slow_ = true;
  return quick_ || control_.interrupted();
}

}  // namespace termgate::sqlite_server
