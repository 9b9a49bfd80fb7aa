// What all threads of a server share.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <termgate/detail/fence_memory.hpp>
#include <termgate/net/cancel_registry.hpp>
#include <termgate/net/limit_book.hpp>
#include <termgate/net/log.hpp>
#include <termgate/net/metrics.hpp>
#include <termgate/net/options.hpp>
#include <termgate/conversation/authority.hpp>

#include "blocking_pool.hpp"
#include "guarded_logins.hpp"
#include <termgate/http/listen.hpp>
#include "resolver.hpp"
#include "tls.hpp"
#include "writing_texts.hpp"

namespace termgate::net {

class Worker;

// The settings of connections that began while they were in force. A reload creates new ones.
struct Settings {
  Options options;
  TlsContext client_tls;
  TlsContext server_tls;
};

struct Shared {
  Shared(const Options& options, conversation::Authority& the_authority, Log& the_log)
      : authority(the_authority),
        log(the_log),
        backend(options.backend),
        limits(options.limits),
        resolver(backend),
        enforcing(options.enforcing),
        blocking_pool(8) {}

  conversation::Authority& authority;
  Log& log;
  const Backend backend;
  CancelRegistry cancels;
  LimitBook limits;
  // The highest terms that observed sessions have written under. Used only to judge such sessions.
  detail::FenceMemory observed;
  WritingTexts writing_texts;
  GuardedLogins guarded_logins;
  Resolver resolver;
  const bool enforcing;
  std::vector<http::OpenListener> listeners;
  std::vector<std::unique_ptr<Worker>> workers;

  std::atomic<std::uint64_t> last_id{0};
  std::atomic<std::int64_t> greeting{0};
  std::atomic<std::int64_t> cancels_under_way{0};
  // How many threads listen. The last one to stop closes the listeners, so that clients are refused
  // instead of waiting (not those of a service manager's socket).
  std::atomic<unsigned> listening{0};
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> needs_restart{0};  // number of options

  bool speaks_tds() const noexcept { return backend.protocol == Backend::Protocol::tds; }
  std::shared_ptr<const Settings> settings() const {
    const std::lock_guard lock(mutex_);
    return settings_;
  }
  void set(std::shared_ptr<const Settings> settings) {
    const std::lock_guard lock(mutex_);
    settings_ = std::move(settings);
  }

  // Its threads use the other members, so the server ends it before it destroys them.
  BlockingPool blocking_pool;

 private:
  mutable std::mutex mutex_;  // guards settings_
  std::shared_ptr<const Settings> settings_;
};

}  // namespace termgate::net
