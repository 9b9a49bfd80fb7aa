// What net/ asks of whoever knows the operator's rules and the fences. Every function may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/session/admission.hpp>
#include <termgate/session/surroundings.hpp>

namespace termgate::net {

// Whether a client still answers, as its kernel's acknowledgements show. Any thread, also after the connection has ended.
class Presence {
 public:
  virtual ~Presence() = default;
  virtual bool open() const = 0;
  // Since the peer's machine was last heard of. Huge once the connection has ended.
  virtual std::chrono::milliseconds silent_for() const = 0;
  // From now on a silent peer is asked so often that silent_for() stays below `bound` (1 s at the least) while it is there.
  virtual void ask_within(std::chrono::milliseconds bound) = 0;
};

struct Arrival {
  std::string listener;
  std::string client_host;  // "192.0.2.7"; "local" for a Unix socket
  session::Applicant applicant;
  std::shared_ptr<Presence> presence;
};

class Authority {
 public:
  virtual ~Authority() = default;

  // May take its time: called on a thread kept for that. `session` names this session in ended().
  virtual session::Admission admit(std::uint64_t session, const Arrival& arrival) = 0;
  // The server has let it in, so that it may hold a lease. Its statements are held back until `settled` is called, once, from wherever it
  // pleases. Must not block.
  virtual void established(std::uint64_t session, std::function<void()> settled) = 0;
  // An admitted session is over. Must not block.
  virtual void ended(std::uint64_t session) = 0;

  // As in session::Surroundings: they must not block.
  virtual std::int64_t highest_fence(std::string_view scope) const = 0;
  virtual void saw_fence(std::string_view scope, std::int64_t fence) = 0;
  virtual void happened(const session::Incident& incident) = 0;

  // `callback` is called for every fence that is seen to have risen, by whichever thread saw it, and must not block. Before the first
  // session only. nullptr: no more calls once this returns.
  virtual void subscribe(std::function<void(std::string_view scope, std::int64_t fence)> callback) = 0;

  // For HTTP: whether the scope's lease is held by a session of this proxy; how many are.
  virtual bool leads(std::string_view scope) = 0;
  virtual std::int64_t leases_held() const = 0;
  // SIGHUP. The error, empty where all went well; then the former rules stand.
  virtual std::string reload() = 0;
};

}  // namespace termgate::net
