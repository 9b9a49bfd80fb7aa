// drill: a relay between one instance of the user's command and its PostgreSQL or SQL Server. It
// changes only one thing: it refuses a PostgreSQL client's request for encryption. It reads the
// conversation to see what is refused and committed (wire.hpp, tds.hpp). It listens on loopback
// only and has a thread of its own.
//
//   instance ──▶ [read along] ──▶ server or proxy
//            ◀── [read along] ◀──
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "drill/tds.hpp"
#include "drill/wire.hpp"
#include "support/relay_socket.hpp"

namespace termgate::cli::drill {

struct Seen {
  std::vector<Refusal> refusals;
  std::vector<Write> writes;
  std::vector<std::string> endings;
  std::size_t connections = 0;  // accepted since the relay began
};

// The public calls may come from any thread.
class Relay {
 public:
  enum class Speaks { postgresql, tds };
  // Throws Error if it can get no port.
  explicit Relay(RelayTarget target, Speaks speaks = Speaks::postgresql);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Environment variables that lead a program to this relay: TERMGATE_DB, DATABASE_URL, and those
  // of libpq.
  std::vector<std::string> settings() const;
  int port() const { return listener_.port; }
  Seen take();  // what was seen since the last call; `connections` counts on

 private:
  static constexpr std::size_t pairs_max = 1000;
  // For one direction: while so many bytes wait to be sent, no more are read.
  static constexpr std::size_t bytes_max = 1 << 20;

  struct Way {  // one direction
    std::string bytes;
    std::size_t sent = 0;
    bool over = false;    // nothing more will be read
    bool closed = false;  // the receiver's socket is shut down for writing
  };
  struct Pair {
    int client = -1, server = -1;
    // The client has sent nothing yet but requests for encryption.
    bool greeting = true;
    std::string greeted;  // the part of such a request that has arrived
    Way to_server, to_client;
    Conversation conversation;
    // Only the one of these two that matches the server's protocol is used.
    TdsConversation tds;
  };
  void run(std::stop_token stop);
  void accept_one();
  void read_from(Pair& pair, bool from_client);
  void take_greeting(Pair& pair, std::string_view bytes);
  static void write_to(int descriptor, Way& way);
  void gather(Pair& pair);

  const RelayTarget target_;
  const Speaks speaks_;
  const LoopbackListener listener_;
  std::vector<Pair> pairs_;
  std::mutex mutex_;  // guards seen_
  Seen seen_;
  std::jthread thread_;  // last, because it uses the other members
};

}  // namespace termgate::cli::drill
