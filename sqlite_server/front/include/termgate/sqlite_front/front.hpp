// Front: an SQLite file served over libSQL's protocol (Hrana 1 to 3 in JSON, over HTTP and WebSocket), every write checked.
//
//   sqlite_front::Front front(options);   // opens the file, reads tokens and keys, listens
//   front.start();
//   …
//   front.drain();                        // SIGTERM; then wait for ended()
//   if (!front.stop(1s)) std::_Exit(0);   // a statement that cannot be stopped ends with the process
//
// Any thread may call it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/http/server.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::sqlite_front {

// A line of the log. Values come from clients in part. No value is a secret.
struct Event {
  bool warning = false;
  bool seldom = false;  // may come a thousand times a second
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string>> fields;
};

struct Options {
  std::string path;          // of the file, which must exist
  http::ServerOptions http;  // listeners, TLS, threads, connections
  std::string tokens_path;   // empty: none
  std::vector<std::string> jwt_key_paths;
  // For what no rule speaks of.
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  conversation::Authority* authority = nullptr;  // the operator's rules; nullptr: there are none. Outlives the front

  std::chrono::milliseconds transaction_idle{10'000};  // of a stream's silence in a transaction
  std::chrono::milliseconds idle_holder{3'000};        // the same where it holds the write lock and others wait
  std::chrono::milliseconds statement_time{0};         // 0: any
  std::chrono::milliseconds read_time{60'000};         // of a statement that reads and has no claim; 0: any
  std::chrono::milliseconds drain_timeout{30'000};
  std::size_t streams_max = 100'000;
  std::size_t transactions_max = 128;
  std::size_t request_bytes_max = std::size_t{64} << 20;
  std::size_t answer_bytes_max = std::size_t{64} << 20;
  std::size_t memory_bytes_max = std::size_t{1} << 30;  // of all requests and answers at work
  std::function<void(const Event&)> log;                // any thread; must not block
};

class Front {
 public:
  // Throws what storage/sqlite throws where the file cannot be opened; std::runtime_error for tokens, keys, certificates and addresses,
  // and where a rule speaks of databases, of which there is one.
  explicit Front(Options options);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  void start();
  // Tokens, keys and certificates anew, for requests to come. What was wrong, or empty; then nothing has changed.
  std::string reload(const http::ClientTls& tls);
  // The rules were read anew: every client is judged anew.
  void rules_changed();

  // Begins nothing new; open transactions end, or are lost at the drain timeout; then the connections end.
  void drain();
  bool ended() const;
  // False: some work is not done after `patience`; then only the end of the process ends it, and what is not committed is rolled back.
  bool stop(std::chrono::milliseconds patience);

  std::vector<std::string> addresses() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::sqlite_front
