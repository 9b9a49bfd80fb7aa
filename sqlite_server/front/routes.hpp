// Routes: the answers of all paths. It takes requests on the loops' threads and passes work that
// may block to workers.
//
// Owner: Front. Threads: the loops', and the workers' for work that it has given them.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <termgate/http/handler.hpp>

#include "front/core.hpp"
#include "hrana/endpoints.hpp"
#include "hrana/socket.hpp"

namespace termgate::sqlite_front {

class WebSocket;

class Routes final : public http::Handler {
 public:
  explicit Routes(Core& core) : core_(core) {}

  http::Decision decide(const http::Head& head) override;
  void request(http::Request request, http::Answer answer) override;
  void failed(const http::Endpoint& from, std::string_view why) override;

  // For the housekeeper: timeouts and expired tokens.
  void tick();
  void lose(const hrana::Lost& why);
  std::size_t sockets() const;

 private:
  struct Work;
  void begin(const std::shared_ptr<Work>& work,
             const std::variant<hrana::Permit, claim::Refusal>& permit);
  void run(Work& work);
  http::Decision decide_socket(const http::Head& head);
  http::Reply look(const http::Head& head);
  http::Reply leader(const http::Head& head) const;
  std::vector<std::shared_ptr<WebSocket>> open_sockets() const;

  Core& core_;
  mutable std::mutex mutex_;  // guards sockets_
  std::vector<std::weak_ptr<WebSocket>> sockets_;
};

// The text of /metrics.
std::string metrics_text(Core& core, std::size_t sockets);

}  // namespace termgate::sqlite_front
