// A server on the loopback whose handler is a table of functions, and a client that sends bytes as
// they are.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include <termgate/http/server.hpp>

namespace termgate::http::testing {

// "hello" for GET /, the body again for POST /echo, and whatever a test puts in.
struct TestHandler : Handler {
  std::function<Decision(const Head&)> decides = [](const Head& head) -> Decision {
    return Take{head.path() == "/echo" ? 100'000u : 0u};
  };
  std::function<void(Request, Answer)> answers = [](Request request, Answer answer) {
    Reply reply;
    reply.type = "text/plain";
    reply.body = request.head.path() == "/echo" ? request.body : "hello";
    answer.reply(std::move(reply));
  };
  std::mutex mutex;
  std::string last_failure;

  Decision decide(const Head& head) override { return decides(head); }
  void request(Request request, Answer answer) override {
    answers(std::move(request), std::move(answer));
  }
  void failed(const Endpoint&, std::string_view why) override {
    const std::lock_guard lock(mutex);
    last_failure = why;
  }
};

// Takes every request, for answers that come when the test gives them.
class HeldAnswers {
 public:
  std::function<void(Request, Answer)> taker() {
    return [this](Request, Answer answer) { hold(std::move(answer)); };
  }
  void hold(Answer answer) {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(answer));
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  // Once no more come.
  std::vector<Answer>& all() { return held_; }

 private:
  std::mutex mutex_;
  std::vector<Answer> held_;
};

inline const std::string get = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

inline ServerOptions options_for_tests(unsigned threads = 2) {
  ServerOptions options;
  options.listeners.push_back(parse_listener("web=127.0.0.1:0"));
  options.threads = threads;
  return options;
}

struct Served {
  explicit Served(ServerOptions options = options_for_tests())
      : server(std::move(options), handler) {
    server.start();
  }
  std::uint16_t port() const {
    const std::string address = server.addresses().front();
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  TestHandler handler;
  Server server;
};

// Blocking, with 10 s for each read.
class Client {
 public:
  explicit Client(std::uint16_t port)
      : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const timeval patience{10, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~Client() { close(descriptor_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // False: the server has let go.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void finish() { shutdown(descriptor_, SHUT_WR); }
  void reset() {
    const linger hard{1, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  int descriptor() const { return descriptor_; }

  // Some bytes; empty: the end, or nothing for 10 s.
  std::string some() {
    char buffer[65536];
    const ssize_t got = recv(descriptor_, buffer, sizeof buffer, 0);
    return got <= 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(got));
  }
  std::string exactly(std::size_t bytes) {
    while (held_.size() < bytes) {
      const std::string more = some();
      if (more.empty()) return {};
      held_ += more;
    }
    std::string found = held_.substr(0, bytes);
    held_.erase(0, bytes);
    return found;
  }
  std::string until(std::string_view mark) {
    for (;;) {
      if (const auto at = held_.find(mark); at != std::string::npos)
        return exactly(at + mark.size());
      const std::string more = some();
      if (more.empty()) return std::exchange(held_, {});
      held_ += more;
    }
  }
  // A whole answer with a Content-Length, or of chunks, which come out joined.
  std::string answer() {
    std::string whole = until("\r\n\r\n");
    if (whole.find("Transfer-Encoding: chunked") != std::string::npos) {
      for (;;) {
        const std::string line = until("\r\n");
        if (line.empty()) return whole + "<cut off>";
        const auto size = std::stoul(line, nullptr, 16);
        const std::string chunk = exactly(size + 2);
        if (size == 0) return whole;
        whole += chunk.substr(0, size);
      }
    }
    const auto at = whole.find("Content-Length: ");
    return at == std::string::npos ? whole : whole + exactly(std::stoul(whole.substr(at + 16)));
  }
  std::string rest() {
    std::string all = std::exchange(held_, {});
    for (std::string more = some(); !more.empty(); more = some()) all += more;
    return all;
  }

 private:
  int descriptor_;
  std::string held_;
};

inline unsigned status_of(std::string_view answer) {
  return answer.starts_with("HTTP/1.1 ")
             ? static_cast<unsigned>(std::stoul(std::string(answer.substr(9, 3))))
             : 0;
}

template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace termgate::http::testing
