// What an Answer, its BodyWriter and a Socket are made of. Any thread may hold them; none keeps the
// connection alive.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include <termgate/http/handler.hpp>

#include "outlet.hpp"

namespace termgate::http {

class Connection;
class Loop;

class Answer::Owed : public std::enable_shared_from_this<Answer::Owed> {
 public:
  struct Form {
    bool head_only = false;  // the request's method is HEAD
    bool chunked = true;     // HTTP/1.0 has no chunks
  };
  Owed(std::shared_ptr<Loop> loop, std::weak_ptr<Connection> connection, Form form)
      : loop_(std::move(loop)), connection_(std::move(connection)), form_(form) {}

  // --- any thread ---
  void reply(Reply reply);
  std::unique_ptr<BodyWriter> stream(Reply head);
  void on_gone(std::function<void()> callback);
  bool gone() const;
  void dropped();

  // --- for the connection ---
  void client_gone();
  void complete();

 private:
  bool claim();
  void deliver(Reply reply);

  const std::shared_ptr<Loop> loop_;
  const std::weak_ptr<Connection> connection_;
  const Form form_;
  mutable std::mutex mutex_;  // guards the members below
  bool claimed_ = false, gone_ = false, complete_ = false;
  std::function<void()> callback_;
};

// An outlet that wakes the connection, if it still exists.
std::shared_ptr<Outlet> outlet_of(const std::shared_ptr<Loop>& loop,
                                  const std::weak_ptr<Connection>& connection);
std::shared_ptr<Socket> socket_of(const std::shared_ptr<Loop>& loop,
                                  const std::weak_ptr<Connection>& connection,
                                  const std::shared_ptr<Outlet>& outlet);

}  // namespace termgate::http
