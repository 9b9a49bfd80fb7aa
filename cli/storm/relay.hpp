// storm: a relay between leaders and a PostgreSQL server, or on either side of a proxy, that on command loses answers, holds bytes back,
// swallows them, and cuts connections. Loopback only, plain text only. One thread relays all.
//
//   leader ──▶ [held back piece by piece · swallowed for good] ────────────────────────────────────────▶ server
//          ◀── [the same · lost: both ends are closed, or the leader's stays open and silent] ◀──────────
//
// Each direction of a connection is a queue of pieces: what one connection says may overtake what another one said before, never itself.
// What was read of an end that is gone by now is delivered all the same, as a network would. Where held_max bytes wait in a direction, no
// more is read from its sender.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/relay_socket.hpp"

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
    commit,            // the next answer to a COMMIT is lost, both ends are closed: the server has committed
    any,               // the same of whatever the server says next
    silent,            // likewise, and the client's end stays open for `pause` without a word
    client_swallowed,  // from the next thing that a client says on, its bytes are swallowed for good; both ends stay open for `pause`
    server_swallowed   // the same of what the server says
  };
  // Waits until it has come about, at most `patience`; false: it has not, and will not. Any thread, one at a time.
  bool lose(Loss loss, std::chrono::milliseconds pause, std::chrono::milliseconds patience);
  // Closes up to `most` connections, each in its turn, both ends; by RST where `reset`. How many: 0 where there was none, or `patience` was
  // over. Any thread, one at a time.
  int cut(int most, bool reset, std::chrono::milliseconds patience);

  // For `time` what comes in from the directions named is cut into pieces at any byte, and each of them held back for up to `most`.
  struct Delay {
    std::chrono::milliseconds time{0}, most{0};
    bool from_client = true, from_server = true;
    std::uint64_t seed = 0;
  };
  // Any thread; does not wait. One at a time: the next one takes its place.
  void delay(const Delay& delay);
  // All that is held back goes out at once, and connections that were silenced or swallowed are closed: nobody has to wait for them any
  // more.
  void calm();
  // So far: delays in which something was held back, pieces held back, and how many of them left after what had come later on another
  // connection.
  struct Delayed {
    int delays = 0;
    std::int64_t pieces = 0, overtaken = 0;
  };
  Delayed delayed() const { return {delays_, held_pieces_, overtaken_}; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Piece {
    std::string bytes;
    std::size_t sent = 0;
    Time due;
    std::int64_t arrival = 0;  // counted over all connections
    bool held = false;
  };
  struct Way {
    std::deque<Piece> pieces;
    std::size_t bytes = 0;   // of all of them
    bool swallowed = false;  // for good
    bool ended = false;      // its sender is gone; when all is delivered, both ends are closed
    bool full = false;       // its receiver takes no more for now
  };
  struct Pair {
    int client = -1, server = -1;
    Way to_server, to_client;
    bool silent = false;       // the server's end is closed
    Time until = Time::max();  // silent, or swallowed: when both ends are closed
    bool over = false;         // closed
    bool commits = false;      // the next answer of a server whose answers have no tag is to a COMMIT
  };
  void run(std::stop_token stop);
  void cut_now();
  bool take(Pair& pair, bool from_client, Time now);  // false: over
  void deliver(Pair& pair, bool to_server, Time now);
  void queue(Way& way, std::string_view bytes, bool from_client, Time now);
  static void close_both(Pair& pair, bool reset);

  const RelayTarget target_;
  const LoopbackListener listener_;
  const std::string url_;
  std::atomic<int> armed_{-1};  // a Loss, or -1
  std::atomic<std::int64_t> pause_ms_{0};
  std::atomic<int> to_cut_{0}, cut_{0};  // how many to cut, negative: by RST; how many were
  std::atomic<bool> calm_{false};
  std::atomic<int> delays_{0};
  std::atomic<std::int64_t> held_pieces_{0}, overtaken_{0};
  std::mutex mutex_;  // guards next_delay_ and has_next_
  Delay next_delay_;
  bool has_next_ = false;
  // The thread's own.
  Delay delay_;
  Time delay_until_{};
  bool delay_counted_ = false;
  std::mt19937_64 random_;
  std::int64_t arrivals_ = 0, latest_ = 0;  // latest_: of those that have left, the one that came last
  int latest_of_ = -1;                      // the server's end of its connection
  std::size_t cut_from_ = 0;                // whose turn it is
  std::vector<Pair> pairs_;
  std::jthread thread_;  // last: it uses all of it
};

}  // namespace termgate::cli::storm
