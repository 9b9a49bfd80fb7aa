// A TCP proxy in this process, between a PostgreSQL client and its server, that fails on command:
// at the one round trip that a test names, not at a random moment. Loopback only, plain text only
// (sslmode=disable).
//
//   client ──▶ [a whole request: everything up to Query or Sync] ── fault? ──▶ server
//          ◀── [answers, up to ReadyForQuery]                    ── fault? ◀──
//
// One thread accepts, one relays each connection. Any thread may arm and read the counters.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace termgate::test {

enum class Fault {
  none,
  cut_before,   // the request never reaches the server; both connections are closed
  cut_after,    // the server has carried out the request; its answer is lost, both connections are
                // closed
  cut_at_once,  // the request is sent on and both connections are closed without waiting for
                // anything
  drop_answer,  // the answer is lost and the client's connection stays open, silent, for `pause`;
                // then it is closed
  freeze,  // the request is neither sent on nor answered for `pause`; then both connections are
           // closed
};

class FaultProxy {
 public:
  // Relays to this port of 127.0.0.1.
  explicit FaultProxy(std::uint16_t server_port);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::uint16_t port() const { return port_; }
  // The server's URL (postgresql://user@127.0.0.1:PORT/db) with this proxy's port, and without TLS.
  std::string url(const std::string& server_url) const;

  // The next request whose bytes hold `text` meets the fault, once. An empty text: any request.
  void arm(Fault fault, std::string text,
           std::chrono::milliseconds pause = std::chrono::milliseconds(0));
  // Until thawed, connections are accepted and nothing is relayed: a server that is there and never
  // answers.
  void mute(bool muted) { muted_ = muted; }

  int fired() const { return fired_; }        // faults met so far
  int accepted() const { return accepted_; }  // connections so far
  int relaying() const { return relaying_; }  // connections whose client's end is open
  // How many requests whose bytes hold `text` came from clients, faulty ones included.
  int requests(const std::string& text) const;
  // Waits until a fault has been met, at most 10 s; false: none was.
  bool wait_fired(int count) const;

 private:
  struct Armed {
    Fault fault = Fault::none;
    std::string text;
    std::chrono::milliseconds pause{0};
  };

  void accept_all();
  void relay(int client);
  Armed meet(std::string_view request);
  bool sleep(std::chrono::milliseconds pause);  // false: the proxy is being destroyed

  std::uint16_t server_port_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  int stop_pipe_[2] = {-1, -1};  // readable once the proxy is being destroyed
  std::atomic<bool> muted_{false};
  std::atomic<int> relaying_{0};
  std::atomic<int> accepted_{0};
  std::atomic<int> fired_{0};

  mutable std::mutex mutex_;  // guards armed_ and seen_
  mutable std::condition_variable changed_;
  Armed armed_;
  std::vector<std::string> seen_;

  std::mutex threads_mutex_;  // guards threads_
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace termgate::test
