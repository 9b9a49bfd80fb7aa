// storm: proxies between the leaders and a server, each a `termgate proxy` of this program, and what is done to them.
//
//   leader ──▶ front relay ──▶ proxy, on a Unix socket in the storm's folder ──▶ back relay ──▶ server
//
// The relays live as long as the storm, so that a leader finds a proxy's successor where its predecessor was. Where the server is reached
// by TLS there is no back relay, and the proxy goes there by itself.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "storm/faults.hpp"
#include "storm/relay.hpp"

namespace termgate::cli::storm {

// One thread, but for cut_one() and relays(). The processes die with the director, however it ends.
class Proxies {
 public:
  // Makes the relays and writes `plan.proxy_ports`, the leaders' way in. Throws UsageError for a folder whose path is too long for a
  // socket.
  explicit Proxies(Plan& plan);
  ~Proxies();
  Proxies(const Proxies&) = delete;
  Proxies& operator=(const Proxies&) = delete;

  // Starts those that do not run and waits until each lets clients in. Throws Error with a proxy's own last words where one does not within
  // `patience`.
  void start_all(milliseconds patience);
  // Resumes and starts again whose time has come; notices who ended by itself.
  void tick();
  bool stop_one(Choice& choice);
  bool kill_one(Choice& choice);
  // Any thread. Cuts up to four connections of one proxy, at its leaders' side or at the server's; false: there were none.
  bool cut_one(Choice& choice, bool front);
  bool has_back() const { return !backs_.empty(); }
  std::vector<Relay*> relays() const;  // all of them, for answers to be lost
  void resume_all();
  // Resumes all, asks them to end, and kills those that do not within `patience`.
  void end_all(milliseconds patience);

  int ended_by_themselves() const { return ended_by_themselves_; }
  const std::string& last_words() const { return last_words_; }  // of the one that did so last

 private:
  struct Proxy {
    pid_t pid = -1;
    int life = 0;
    bool stopped = false;
    std::chrono::steady_clock::time_point due;  // to resume, or to start again
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
