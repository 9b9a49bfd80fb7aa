// Creates tasks at a steady rate. Only the instance of the service that holds the lease "generator"
// does; the others report which one it is.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <boost/json.hpp>

#include <termgate/database.hpp>
#include <termgate/error.hpp>
#include <termgate/held_lease.hpp>
#include <termgate/info.hpp>

#include "../support/http.hpp"

namespace example {

class Generator {
 public:
  using Add = std::function<void(const termgate::Scope&, termgate::Term, const std::string& data)>;

  Generator(termgate::Database db, std::string endpoint, Add add)
      : db_(std::move(db)), endpoint_(std::move(endpoint)), add_(std::move(add)) {}

  // Starts the generator with {"per_second": N}. Answers 409 with its status if it is active
  // already, here or in another instance.
  Reply start(const boost::json::value& body) {
    const boost::json::value* rate =
        body.is_object() ? body.as_object().if_contains("per_second") : nullptr;
    if (rate == nullptr || !rate->is_int64() || rate->as_int64() < 1 || rate->as_int64() > 1000) {
      return {400, "\"per_second\" is from 1 to 1000"};
    }
    const std::lock_guard lock(mutex_);
    termgate::HoldOptions options;
    options.endpoint = endpoint_;
    options.ttl = std::chrono::seconds(2);
    auto lease = db_.try_hold(scope_, options);
    if (!lease) return {409, status().body};
    made_ = 0;
    thread_ = std::jthread(
        [this, held = std::move(*lease),
         every = std::chrono::microseconds(1'000'000 / rate->as_int64())](
            const std::stop_token& stop) mutable { work(stop, std::move(held), every); });
    return status();
  }

  // Stops the generator. Answers 409 if it is active in another instance.
  Reply stop() {
    const std::lock_guard lock(mutex_);
    const auto lease = termgate::Info(db_).lease(scope_);
    if (lease && lease->remaining_ms > 0 && lease->endpoint != endpoint_)
      return {409, status().body};
    thread_ = std::jthread();  // requests it to stop, and waits
    return status();
  }

  // Which instance is active; any instance can answer.
  Reply status() {
    const auto lease = termgate::Info(db_).lease(scope_);
    const bool active = lease && lease->remaining_ms > 0;
    boost::json::object answer{{"active", active},
                               {"here", active && lease->endpoint == endpoint_}};
    if (active) {
      answer["owner"] = lease->owner;
      answer["endpoint"] = lease->endpoint;
      answer["since_ms"] = lease->acquired_at_ms;
    }
    if (answer["here"].as_bool()) answer["made"] = made_.load();
    return {200, boost::json::serialize(answer)};
  }

 private:
  void work(const std::stop_token& stop, termgate::HeldLease lease,
            std::chrono::microseconds every) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    const std::stop_callback lost(lease.lost(), [&ended] { ended.notify_all(); });
    const std::stop_callback asked(lease.asked_to_leave(), [&ended] { ended.notify_all(); });
    const auto over = [&lease] {
      return !lease.still_held() || lease.asked_to_leave().stop_requested();
    };
    while (!stop.stop_requested() && !over()) {
      try {
        add_(scope_, lease.term(),
             boost::json::serialize(boost::json::object{{"made", made_ + 1}, {"by", endpoint_}}));
        ++made_;
      } catch (const termgate::StaleTerm&) { return; } catch (const termgate::Error&) {
      }  // the next one may succeed
      ended.wait_for(lock, stop, every, over);
    }
    try {
      lease.release();
    } catch (const termgate::Error&) {}  // the lease expires by itself
  }

  termgate::Database db_;
  const termgate::Scope scope_{"generator"};
  const std::string endpoint_;
  const Add add_;
  std::atomic<std::int64_t> made_{0};
  std::mutex mutex_;  // guards what follows
  std::jthread thread_;
};

}  // namespace example
