// The proxy as a running thing: listeners, threads, connections, drain. One a process is usual; nothing forbids more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/net/log.hpp>
#include <termgate/net/options.hpp>
#include <termgate/conversation/authority.hpp>

namespace termgate::net {

struct HttpOptions {
  HostPort address;
  std::vector<std::string> hosts;  // names that a Host header may have beside the loopback's; "*": any
  std::string version;
};

struct HttpReply {
  unsigned status = 404;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

class Server {
 public:
  // Opens the listeners and reads certificates. Throws std::runtime_error, which says what could not be opened and why.
  // `authority` and `log` must outlive it. No connection is taken before start().
  Server(const Options& options, conversation::Authority& authority, Log& log);
  ~Server();  // ends what is still there
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // As above; throws where its address cannot be had. Before start().
  void serve_http(const HttpOptions& options);

  // For who serves HTTP in its place: what the paths of serve_http answer, `options` as there. None: another path. Any thread.
  std::optional<HttpReply> answer(std::string_view method, std::string_view target, std::string_view host, const HttpOptions& options);

  void start();

  // Any thread, all of them at once.
  void drain();        // no new clients; transactions end or are cut at the drain timeout
  void stop();         // now
  bool ended() const;  // no connection is left, after drain() or stop()

  // Certificates, limits, time-outs for sessions to come. `rest` reloads what is not the server's, and is called once these are found right
  // and before they count. Returns what was wrong, with either; then nothing changed.
  std::string reload(const Options& options, const std::function<std::string()>& rest);
  // How many options were changed that come into force with the next start only: for the metrics. Any thread.
  void needs_restart(std::size_t options);

  // Where it listens, as text; with the port that was chosen if 0 was given.
  std::vector<std::string> addresses() const;
  std::string http_address() const;     // empty: no HTTP
  std::string browser_address() const;  // empty: no Browser

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

// SIGTERM, SIGINT and SIGHUP come to wait_for_signal() alone, SIGPIPE to nobody. Before any thread is started.
void take_signals();
// The number of the signal, or 0 after `milliseconds`.
int wait_for_signal(int milliseconds);

// As many descriptors as this process may have; returns how many that are.
std::uint64_t raise_descriptor_limit();

}  // namespace termgate::net
