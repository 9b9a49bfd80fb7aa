// storm: the proxies between leaders and server, each a `termgate proxy` of this program, and the
// faults that hit them.
//
//   leader ──▶ front relay ──▶ proxy, on a Unix socket in the storm's folder ──▶ back relay ──▶ server
//
// The relays live as long as the storm, so that the successor of a killed proxy has the same
// address. If the server requires TLS there is no back relay: the proxy connects directly.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "storm/faults.hpp"
#include "storm/relay.hpp"

namespace termgate::cli::storm {

// One thread, except for cut_one() and relays(). The processes die with the director, however it
// ends.
class Proxies {
 public:
  // Creates the relays and writes their ports to `plan.proxy_ports`, for the leaders. Throws
  // UsageError if the folder's path is too long for a Unix socket, Unavailable if the server does
  // not answer, Error if a relay gets no port or the folder cannot be written.
  explicit Proxies(Plan& plan);
  ~Proxies();
  Proxies(const Proxies&) = delete;
  Proxies& operator=(const Proxies&) = delete;

  // Starts the proxies that are not running and waits until each accepts clients. If one ends, or
  // does not within `patience`, throws Error that says why.
  void start_all(milliseconds patience);
  // Resumes and restarts proxies whose time has come; notices those that ended by themselves.
  void tick();
  bool stop_one(Choice& choice);
  bool kill_one(Choice& choice);
  // Cuts up to four connections of one proxy, on the leaders' side or on the server's; returns
  // false if there were none. Any thread.
  bool cut_one(Choice& choice, bool front);
  bool has_back() const { return !backs_.empty(); }
  std::vector<Relay*> relays() const;  // all of them, so that answers can be lost
  void resume_all();
  // Resumes all proxies and sends them SIGTERM; kills those that do not end within `patience`.
  void end_all(milliseconds patience);

  int ended_by_themselves() const { return ended_by_themselves_; }
  // The last line in the log of the proxy that ended by itself most recently.
  const std::string& last_words() const { return last_words_; }

 private:
  struct Proxy {
    pid_t pid = -1;
    int life = 0;
    bool stopped = false;
    std::chrono::steady_clock::time_point due;  // when to resume or restart it
  };
  void start(std::size_t index);
  std::string log_of(std::size_t index) const;
  std::vector<Proxy*> alive(bool stopped_too);

  const Plan& plan_;
  std::vector<Proxy> proxies_;
  std::vector<std::unique_ptr<Relay>> fronts_, backs_;
  int ended_by_themselves_ = 0;
  std::string last_words_;
};

}  // namespace termgate::cli::storm
