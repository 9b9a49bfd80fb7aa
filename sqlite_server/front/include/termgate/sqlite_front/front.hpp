// Front: serves an SQLite file over libSQL's protocol (Hrana 1 to 3 in JSON, over HTTP and
// WebSocket), and checks every write.
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

// A line of the log. Some values come from clients. No value is a secret.
struct Event {
  bool warning = false;
  bool seldom = false;  // it may come a thousand times a second, so the log writes it seldom
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string>> fields;
};

struct Options {
  std::string path;          // the file, which must exist
  http::ServerOptions http;  // listeners, TLS, threads, connections
  std::string tokens_path;   // empty: no file of tokens
  std::vector<std::string> jwt_key_paths;
  // Applies where no rule does.
  conversation::WithoutTerm without_term = conversation::WithoutTerm::read_only;
  conversation::Enforce enforce = conversation::Enforce::on;
  // The operator's rules; nullptr: there are none. It must outlive the front.
  conversation::Authority* authority = nullptr;

  std::chrono::milliseconds transaction_idle{
      10'000};  // how long a stream may be silent in a transaction
  std::chrono::milliseconds idle_holder{
      3'000};  // the same while it holds the write lock and others wait
  std::chrono::milliseconds statement_time{0};  // 0: no limit
  std::chrono::milliseconds read_time{
      60'000};  // for a statement that reads and has no claim; 0: no limit
  std::chrono::milliseconds drain_timeout{30'000};
  std::size_t streams_max = 100'000;
  std::size_t transactions_max = 128;
  std::size_t request_bytes_max = std::size_t{64} << 20;
  std::size_t answer_bytes_max = std::size_t{64} << 20;
  std::size_t memory_bytes_max = std::size_t{1} << 30;  // for all requests and answers in progress
  std::function<void(const Event&)> log;                // any thread; must not block
};

class Front {
 public:
  // Throws what storage/sqlite throws if the file cannot be opened, and std::runtime_error for
  // tokens, keys, certificates and addresses.
  explicit Front(Options options);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  void start();
  // Reloads tokens, keys and certificates for future requests. Once these are known to be valid,
  // `rest` reloads the rules; then they are applied to every client anew. `rest` and reload()
  // return what was wrong, or an empty text; if anything was wrong, the front has changed nothing.
  std::string reload(const http::ClientTls& tls, const std::function<std::string()>& rest);

  // Begins nothing new; open transactions end, or are lost at the drain timeout; then the
  // connections end.
  void drain();
  bool ended() const;
  // Closes all connections and waits for work under way. False: some is still not done after
  // `patience`. Only the end of the process stops it then, and what is not committed is rolled
  // back. Afterwards nothing but the destructor may be called.
  bool stop(std::chrono::milliseconds patience);

  std::vector<std::string> addresses() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::sqlite_front
