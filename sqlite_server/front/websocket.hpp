// WebSocket: one client's WebSocket connection. Messages come in on the loop's thread; each
// stream's requests run on workers.
//
// Owner: the connection, and each job. The thread that holds mutex_ counts as the connection's
// thread (hrana/socket.hpp). No thread waits for a client or for the file while it holds mutex_; a
// `hello` under rules may wait for a lease.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include <termgate/http/handler.hpp>

#include "front/core.hpp"
#include "hrana/socket.hpp"

namespace termgate::sqlite_front {

class WebSocket final : public http::SocketEvents, public std::enable_shared_from_this<WebSocket> {
 public:
  // `head` is the upgrade request's. Its headers declare scope and term, and its token counts if
  // `hello` brings none.
  WebSocket(Core& core, const http::Head& head, hrana::Version version);

  void opened(std::shared_ptr<http::Socket> socket) override;
  bool message(std::string bytes, http::Kind kind) override;
  void closed(std::uint16_t code) override;

  // For the housekeeper.
  void tick();
  void lose(const hrana::Lost& why);

 private:
  std::variant<hrana::Identity, hrana::Refused> login(const std::optional<std::string>& token);
  bool take(const std::string& message);
  void send(hrana::Socket::Output output);
  void start(hrana::Socket::Job job);
  void run(hrana::Socket::Job& job);
  hrana::Socket::Job::Done run_once(hrana::Socket::Job& job);
  void close(std::uint16_t code, std::string_view reason);

  Core& core_;
  const http::Head head_;
  std::shared_ptr<http::Socket> socket_;  // set once, before the first message

  std::mutex mutex_;  // guards session_, expires_ and paused_
  hrana::Socket session_;
  std::optional<std::int64_t> expires_;  // of the token, in seconds since 1970
  bool paused_ = false;                  // no message may come until a job has ended
  std::atomic<bool> gone_{false};

  std::mutex running_mutex_;  // guards the next two members
  std::set<Running*> running_;
  Whose whose_;
};

}  // namespace termgate::sqlite_front
