// storm: a relay between leaders and a PostgreSQL server, or on either side of a proxy, that loses answers and cuts connections on command. Loopback only,
// plain text only. One thread relays all.
//
//   leader ──▶ [always sent on] ──▶ server
//          ◀── [lost: both ends are closed, or stay open and silent] ◀──
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "relay_socket.hpp"

namespace termgate::cli::storm {

class Relay {
 public:
  // To where a session of this URL is: asks the server. Throws Error where that cannot be relayed in plain text (it uses TLS).
  explicit Relay(const std::string& url);
  // To the host and port of `target`, whoever listens there when a client comes; url() is `url` by way of here.
  Relay(const std::string& url, RelayTarget target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The URL by way of here.
  std::string url() const { return url_; }
  int port() const { return listener_.port; }

  enum class Loss {
    commit,  // the next answer to a COMMIT is lost, both ends are closed: the server has committed
    any,     // the same of whatever the server says next
    silent   // likewise, and the client's end stays open for `pause` without a word
  };
  // Waits until it has come about, at most `patience`; false: it has not, and will not. Any thread, one at a time.
  bool lose(Loss loss, std::chrono::milliseconds pause, std::chrono::milliseconds patience);
  // Closes up to `most` connections, each in its turn, both ends; by RST where `reset`. How many: 0 where there was none, or `patience` was over.
  // Any thread, one at a time.
  int cut(int most, bool reset, std::chrono::milliseconds patience);

 private:
  struct Pair {
    int client = -1, server = -1;
    bool silent = false;
    bool commits = false;  // what is said next by a server whose answers have no tag answers a COMMIT
    std::chrono::steady_clock::time_point until;  // silent: when the client's end is closed
  };
  void run(std::stop_token stop);
  void cut_now();
  bool pass(Pair& pair, bool to_server);  // false: over

  const RelayTarget target_;
  const LoopbackListener listener_;
  const std::string url_;
  std::atomic<int> armed_{-1};  // a Loss, or -1
  std::atomic<std::int64_t> pause_ms_{0};
  std::atomic<int> to_cut_{0}, cut_{0};  // asked for, negative by RST; done
  std::size_t cut_from_ = 0;             // whose turn it is
  std::vector<Pair> pairs_;
  std::jthread thread_;  // last: it uses all of it
};

}  // namespace termgate::cli::storm
