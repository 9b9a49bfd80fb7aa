// The running proxy: listeners, threads, connections, drain. A process usually has one, and may
// have more.
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
  // Names that a Host header may contain besides the loopback names. "*": any.
  std::vector<std::string> hosts;
  std::string version;
};

struct HttpReply {
  unsigned status = 404;
  std::string body;
  std::string type = "text/plain; charset=utf-8";
};

class Server {
 public:
  // Reads the certificates and opens the listeners. Throws std::runtime_error with what failed and
  // why. `authority` and `log` must outlive the server. No connection is accepted before start().
  Server(const Options& options, conversation::Authority& authority, Log& log);
  ~Server();  // closes every connection that is left
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Opens the HTTP port; throws std::runtime_error if that fails. Call before start().
  void serve_http(const HttpOptions& options);

  // For a caller that serves HTTP itself: the answer that the HTTP port would give with these
  // options. nullopt: not a path of that port. Any thread; may block.
  std::optional<HttpReply> answer(std::string_view method, std::string_view target,
                                  std::string_view host, const HttpOptions& options);

  void start();

  // --- any thread (stop(): one at a time) ---
  // Admits no new clients. Open transactions end, or are cut at the drain timeout.
  void drain();
  void stop();         // closes every connection now, and waits for the threads to end
  bool ended() const;  // after drain() or stop(): no connection is left

  // Applies certificates, limits and timeouts to future sessions. `rest` reloads what is not the
  // server's own, and returns what was wrong with it, or an empty text. It is called when the
  // options have been found valid, before they are applied. reload() returns what was wrong with
  // the options or with the rest; then nothing of the server's has changed.
  std::string reload(const Options& options, const std::function<std::string()>& rest);
  // How many changed options take effect only with the next start, for the metrics.
  void needs_restart(std::size_t options);

  // The listening addresses as text, with the chosen port if 0 was given.
  std::vector<std::string> addresses() const;
  std::string http_address() const;     // empty: no HTTP
  std::string browser_address() const;  // empty: no Browser

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

// Reserves SIGTERM, SIGINT and SIGHUP for wait_for_signal() and ignores SIGPIPE. Call before any
// thread is started.
void take_signals();
// Returns the number of the signal, or 0 after `milliseconds`.
int wait_for_signal(int milliseconds);

// Raises the limit of open descriptors as far as this process may; returns the new limit.
std::uint64_t raise_descriptor_limit();

}  // namespace termgate::net
