#include "owed.hpp"

#include <utility>

#include <fmt/format.h>

#include "connection.hpp"
#include "loop.hpp"

namespace termgate::http {
namespace {

constexpr std::size_t copied_bytes_max =
    16u << 10;  // smaller pieces are copied, to go out together with what surrounds them

std::deque<Piece> framed(std::string head, Piece body, std::string_view tail) {
  if (body->size() <= copied_bytes_max)
    return {std::make_shared<const std::string>(fmt::format("{}{}{}", head, *body, tail))};
  std::deque<Piece> pieces{std::make_shared<const std::string>(std::move(head)), std::move(body)};
  if (!tail.empty()) pieces.push_back(std::make_shared<const std::string>(tail));
  return pieces;
}

class Writer : public BodyWriter {
 public:
  Writer(std::shared_ptr<Outlet> outlet, Answer::Owed::Form form)
      : outlet_(std::move(outlet)), form_(form) {}
  ~Writer() override { outlet_->finish(false); }

  bool write(std::string_view bytes) override {
    if (bytes.empty() || form_.head_only) return !outlet_->gone();
    return outlet_->push_when_room(chunk(std::make_shared<const std::string>(bytes)),
                                   waiting_bytes_max);
  }
  bool latest(std::shared_ptr<const std::string> bytes) override {
    if (bytes->empty() || form_.head_only) return !outlet_->gone();
    return outlet_->replace(chunk(std::move(bytes)));
  }
  void end() override {
    if (form_.chunked && !form_.head_only)
      outlet_->push({std::make_shared<const std::string>("0\r\n\r\n")});
    outlet_->finish(true);
  }
  bool gone() const override { return outlet_->gone(); }

 private:
  std::deque<Piece> chunk(Piece bytes) const {
    if (!form_.chunked) return {std::move(bytes)};
    return framed(fmt::format("{:x}\r\n", bytes->size()), bytes, "\r\n");
  }

  const std::shared_ptr<Outlet> outlet_;
  const Answer::Owed::Form form_;
};

class SocketSide : public Socket {
 public:
  SocketSide(std::shared_ptr<Loop> loop, std::weak_ptr<Connection> connection,
             std::shared_ptr<Outlet> outlet)
      : loop_(std::move(loop)), connection_(std::move(connection)), outlet_(std::move(outlet)) {}

  bool send(std::string message, Kind kind, std::shared_ptr<void> keeps) override {
    return outlet_->push_when_room(frame(std::move(message), kind, std::move(keeps)),
                                   waiting_bytes_max);
  }
  bool post(std::string message, Kind kind) override {
    return outlet_->push(frame(std::move(message), kind, {}));
  }
  std::size_t waiting() const override { return outlet_->waiting_bytes(); }
  void resume() override {
    loop_->post([weak = connection_] {
      if (const auto connection = weak.lock()) connection->resume_socket();
    });
  }
  void close(std::uint16_t code, std::string_view reason) override {
    loop_->post([weak = connection_, code, why = std::string(reason)] {
      if (const auto connection = weak.lock()) connection->close_socket(code, why);
    });
  }

 private:
  static std::deque<Piece> frame(std::string message, Kind kind, std::shared_ptr<void> keeps) {
    std::string head =
        frame_head(kind == Kind::text ? Opcode::text : Opcode::binary, message.size());
    const auto kept = std::make_shared<const std::pair<std::string, std::shared_ptr<void>>>(
        std::move(message), std::move(keeps));
    return framed(std::move(head), Piece(kept, &kept->first), "");
  }

  const std::shared_ptr<Loop> loop_;
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Outlet> outlet_;
};

}  // namespace

std::shared_ptr<Outlet> outlet_of(const std::shared_ptr<Loop>& loop,
                                  const std::weak_ptr<Connection>& connection) {
  auto place = std::make_shared<std::weak_ptr<Outlet>>();
  auto outlet = std::make_shared<Outlet>([loop, connection, place] {
    loop->post([connection, place] {
      const auto there = connection.lock();
      const auto which = place->lock();
      if (there && which) there->pump(*which);
    });
  });
  *place = outlet;
  return outlet;
}

std::shared_ptr<Socket> socket_of(const std::shared_ptr<Loop>& loop,
                                  const std::weak_ptr<Connection>& connection,
                                  const std::shared_ptr<Outlet>& outlet) {
  return std::make_shared<SocketSide>(loop, connection, outlet);
}

Answer::Answer(std::shared_ptr<Owed> owed) noexcept : owed_(std::move(owed)) {}
Answer::~Answer() {
  if (owed_) owed_->dropped();
}
Answer& Answer::operator=(Answer&& other) noexcept {
  if (this != &other) {
    if (owed_) owed_->dropped();
    owed_ = std::move(other.owed_);
  }
  return *this;
}
void Answer::reply(Reply reply) { owed_->reply(std::move(reply)); }
std::unique_ptr<BodyWriter> Answer::stream(Reply head) { return owed_->stream(std::move(head)); }
void Answer::on_gone(std::function<void()> callback) { owed_->on_gone(std::move(callback)); }
bool Answer::gone() const { return owed_->gone(); }

// Only the first call wins. A second answer is the owner's mistake: the client would take it for
// the answer to its next request.
bool Answer::Owed::claim() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

void Answer::Owed::reply(Reply reply) {
  if (claim()) deliver(std::move(reply));
}

void Answer::Owed::deliver(Reply reply) {
  auto task = [self = shared_from_this(), reply = std::move(reply)]() mutable {
    if (const auto connection = self->connection_.lock())
      connection->reply(*self, std::move(reply));
  };
  if (loop_->here()) return task();
  loop_->post(std::move(task));
}

std::unique_ptr<BodyWriter> Answer::Owed::stream(Reply head) {
  auto outlet = outlet_of(loop_, connection_);
  if (!claim()) {
    outlet->end();
    return std::make_unique<Writer>(std::move(outlet), form_);
  }
  loop_->post([self = shared_from_this(), outlet, head = std::move(head)]() mutable {
    const auto connection = self->connection_.lock();
    if (!connection) return outlet->end();
    connection->stream(*self, std::move(head), outlet);
  });
  return std::make_unique<Writer>(std::move(outlet), form_);
}

void Answer::Owed::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (complete_) return;
    if (!gone_) {
      callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Answer::Owed::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

void Answer::Owed::dropped() {
  if (!claim()) return;
  Reply reply;
  reply.status = 500;
  reply.type = "text/plain; charset=utf-8";
  reply.body = "the request has had no answer\n";
  deliver(std::move(reply));
}

void Answer::Owed::client_gone() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (complete_ || gone_) return;
    gone_ = true;
    callback = std::exchange(callback_, nullptr);
  }
  if (callback) callback();
}

void Answer::Owed::complete() {
  std::function<void()> dropped;  // destroys the callback's captures after the lock is released
  const std::lock_guard lock(mutex_);
  complete_ = true;
  dropped = std::exchange(callback_, nullptr);
}

}  // namespace termgate::http
