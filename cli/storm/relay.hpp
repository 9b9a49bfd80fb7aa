// storm: a relay between leaders and a server (PostgreSQL or SQL Server), or on either side of a
// proxy. On command it loses answers, delays or swallows bytes, and cuts connections. Loopback
// only, plain text only. One thread serves all connections.
//
//   leader ──▶ [held back piece by piece · swallowed for good] ────────────────────────────────────────▶ server
//          ◀── [the same · lost: both ends are closed, or the leader's stays open and silent] ◀──────────
//
// Each direction of a connection is a queue of pieces. Bytes of one connection may overtake those
// of another, but never each other. Bytes that were read before their sender disconnected are still
// delivered, as in a network. While held_max bytes wait in a direction, no more are read from its
// sender.
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
  // A relay to the server of this URL; connects once to learn its address. Throws Unavailable if
  // there is no connection, and Error if it uses TLS, because then it cannot be relayed.
  explicit Relay(const std::string& url);
  // A relay to the host and port of `target`; whoever listens there when a client comes is the
  // server. url() becomes `url` with this relay's address.
  Relay(const std::string& url, RelayTarget target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The URL that leads through this relay.
  std::string url() const { return url_; }
  int port() const { return listener_.port; }

  enum class Loss {
    commit,  // the next answer to a COMMIT is lost, both ends are closed: the server has committed
    any,     // the same for any answer of the server
    // The same as `commit`, but the client's connection stays open and silent for `pause`.
    silent,
    // From the client's next message on, its bytes are swallowed for good; both connections stay
    // open for `pause`.
    client_swallowed,
    server_swallowed  // the same for the server's bytes
  };
  // Waits at most `patience` until the loss has happened; returns false if it has not, and then it
  // will not. Any thread, one at a time.
  bool lose(Loss loss, std::chrono::milliseconds pause, std::chrono::milliseconds patience);
  // Closes both ends of up to `most` connections, taking turns over all of them; with `reset` by
  // RST. Returns how many: 0 if there was none, or if `patience` ended first. Any thread, one at a
  // time.
  int cut(int most, bool reset, std::chrono::milliseconds patience);

  // For `time`, data from the chosen directions is cut into pieces at random bytes, and each piece
  // is delayed by up to `most`.
  struct Delay {
    std::chrono::milliseconds time{0}, most{0};
    bool from_client = true, from_server = true;
    std::uint64_t seed = 0;
  };
  // Does not wait. A new delay replaces the current one. Any thread.
  void delay(const Delay& delay);
  // Ends the delay, sends all delayed pieces at once, and closes connections that are silenced or
  // swallowed, so that nobody has to wait for them. Any thread.
  void calm();
  // Counts so far: delays that held something back, pieces that were delayed, and pieces that left
  // after a later piece of another connection.
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
    std::size_t bytes = 0;   // total size of the pieces
    bool swallowed = false;  // all further bytes are dropped
    // Its sender has disconnected; once everything is delivered, both ends are closed.
    bool ended = false;
    bool full = false;  // its receiver accepts no more for now
  };
  struct Pair {
    int client = -1, server = -1;
    Way to_server, to_client;
    bool silent = false;  // the server's end is closed
    // When to close both ends; set while silent or swallowed.
    Time until = Time::max();
    bool over = false;  // closed
    // For a server whose answers have no tag: its next answer is to a COMMIT.
    bool commits = false;
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
  // to_cut_: how many connections to cut; negative: by RST. cut_: how many were cut.
  std::atomic<int> to_cut_{0}, cut_{0};
  std::atomic<bool> calm_{false};
  std::atomic<int> delays_{0};
  std::atomic<std::int64_t> held_pieces_{0}, overtaken_{0};
  std::mutex mutex_;  // guards next_delay_ and has_next_
  Delay next_delay_;
  bool has_next_ = false;
  // The members below are for the relay's own thread.
  Delay delay_;
  Time delay_until_{};
  bool delay_counted_ = false;
  std::mt19937_64 random_;
  // latest_ is the highest arrival number of the pieces that have left.
  std::int64_t arrivals_ = 0, latest_ = 0;
  int latest_of_ = -1;        // the server's descriptor of the connection that piece belonged to
  std::size_t cut_from_ = 0;  // the connection whose turn it is
  std::vector<Pair> pairs_;
  std::jthread thread_;  // last, because it uses the other members
};

}  // namespace termgate::cli::storm
