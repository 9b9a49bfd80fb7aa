#include "storm_relay.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <termgate/error.hpp>

#include "storm_sql.hpp"

namespace termgate::cli::storm {
namespace {

constexpr std::size_t pairs_max = 1000;

// CommandComplete with the tag COMMIT, as the protocol writes it.
constexpr std::string_view commit_answer("C\0\0\0\x0b" "COMMIT\0", 12);

// A batch of T-SQL: UTF-16 on the wire, and answered by a token that says nothing of what it answers.
bool has_tsql_commit(std::string_view chunk) {
  static const std::string wide = [] {
    std::string text;
    for (const char letter : std::string_view("COMMIT TRANSACTION")) text += {letter, '\0'};
    return text;
  }();
  return chunk.find(wide) != std::string_view::npos;
}

bool send_all(int to, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

RelayTarget plain(RelayTarget target) {
  if (target.encrypted) throw Error("the connection is encrypted");
  return target;
}

}  // namespace

Relay::Relay(const std::string& url) : Relay(url, plain(locate(url))) {}

Relay::Relay(const std::string& url, RelayTarget target) : target_(std::move(target)), listener_(listen_on_loopback()), url_(through(url, listener_.port)) {
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

Relay::~Relay() {
  thread_.request_stop();
  thread_.join();
  for (const Pair& pair : pairs_) {
    if (pair.client >= 0) close(pair.client);
    if (pair.server >= 0) close(pair.server);
  }
  close(listener_.descriptor);
}

bool Relay::lose(Loss loss, std::chrono::milliseconds pause, std::chrono::milliseconds patience) {
  pause_ms_ = pause.count();
  armed_ = static_cast<int>(loss);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (armed_ != -1 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return armed_.exchange(-1) == -1;
}

int Relay::cut(int most, bool reset, std::chrono::milliseconds patience) {
  cut_ = 0;
  to_cut_ = reset ? -most : most;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (to_cut_ != 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return to_cut_.exchange(0) == 0 ? cut_.load() : 0;
}

void Relay::cut_now() {
  const int asked = to_cut_;
  if (asked == 0) return;
  int done = 0;
  for (std::size_t i = 0; i < pairs_.size() && done < std::abs(asked); ++i) {
    Pair& pair = pairs_[cut_from_++ % pairs_.size()];
    if (pair.silent || pair.client < 0) continue;
    const linger at_once{1, 0};
    for (const int end : {pair.client, pair.server}) {
      if (asked < 0) setsockopt(end, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      close(end);
    }
    pair.client = pair.server = -1;
    ++done;
  }
  cut_ = done;
  to_cut_ = 0;
}

bool Relay::pass(Pair& pair, bool to_server) {
  std::array<char, 65536> bytes;
  const ssize_t count = recv(to_server ? pair.client : pair.server, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  const std::string_view chunk(bytes.data(), static_cast<std::size_t>(count));
  if (to_server && has_tsql_commit(chunk)) pair.commits = true;
  if (!to_server) {
    int armed = armed_;
    const bool commits = std::exchange(pair.commits, false) || chunk.find(commit_answer) != std::string_view::npos;
    const bool meets = armed == static_cast<int>(Loss::any) || (armed != -1 && commits);
    if (meets && armed_.compare_exchange_strong(armed, -1)) {
      if (armed != static_cast<int>(Loss::silent)) return false;
      close(pair.server);
      pair.server = -1;
      pair.silent = true;
      pair.until = std::chrono::steady_clock::now() + std::chrono::milliseconds(pause_ms_);
      return true;
    }
  }
  return send_all(to_server ? pair.server : pair.client, bytes.data(), static_cast<std::size_t>(count));
}

void Relay::run(std::stop_token stop) {
  std::vector<pollfd> waits;
  while (!stop.stop_requested()) {
    const auto now = std::chrono::steady_clock::now();
    cut_now();
    std::erase_if(pairs_, [&](const Pair& pair) {
      if (pair.silent && now >= pair.until) {
        close(pair.client);
        return true;
      }
      return pair.client < 0;
    });
    waits.assign(1, {listener_.descriptor, static_cast<short>(pairs_.size() < pairs_max ? POLLIN : 0), 0});
    for (const Pair& pair : pairs_) {
      waits.push_back({pair.silent ? -1 : pair.client, POLLIN, 0});
      waits.push_back({pair.silent ? -1 : pair.server, POLLIN, 0});
    }
    if (poll(waits.data(), waits.size(), 20) <= 0) continue;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = pairs_[i];
      const bool from_client = waits[1 + 2 * i].revents != 0, from_server = waits[2 + 2 * i].revents != 0;
      bool goes_on = true;
      if (from_client) goes_on = pass(pair, true);
      if (goes_on && from_server) goes_on = pass(pair, false);
      if (goes_on) continue;
      close(pair.client);
      close(pair.server);
      pair.client = pair.server = -1;
    }
    if (waits[0].revents == 0) continue;
    const int client = accept_client(listener_.descriptor);
    if (client < 0) continue;
    const int server = connect_to_server(target_.host, target_.port);
    if (server < 0) {
      close(client);
      continue;
    }
    pairs_.push_back({client, server, false, false, {}});
  }
}

}  // namespace termgate::cli::storm
