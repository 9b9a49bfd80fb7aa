// drill: a relay between one instance of the user's command and its PostgreSQL server. It changes nothing but one answer (a client that
// asks for encryption gets the answer that there is none) and reads along what is refused and what is committed (wire.hpp). Loopback
// only. A thread of its own.
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
  std::size_t connections = 0;  // so far
};

// Any thread.
class Relay {
 public:
  enum class Speaks { postgresql, tds };
  explicit Relay(RelayTarget target, Speaks speaks = Speaks::postgresql);  // throws Error where no port can be had
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // What leads a program here: TERMGATE_DB, DATABASE_URL, and what libpq reads of the environment.
  std::vector<std::string> settings() const;
  int port() const { return listener_.port; }
  Seen take();  // what has been seen since the last call

 private:
  static constexpr std::size_t pairs_max = 1000;
  static constexpr std::size_t bytes_max = 1 << 20;  // on their way in one direction; more is not read before they are gone

  struct Way {  // one direction
    std::string bytes;
    std::size_t sent = 0;
    bool over = false;    // nothing more will be read
    bool closed = false;  // and the other end knows
  };
  struct Pair {
    int client = -1, server = -1;
    bool greeting = true;  // nothing but requests for encryption has come
    std::string greeted;   // what has come of one
    Way to_server, to_client;
    Conversation conversation;
    TdsConversation tds;  // the one of the two that the server speaks
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
  std::jthread thread_;  // last: it uses all of it
};

}  // namespace termgate::cli::drill
