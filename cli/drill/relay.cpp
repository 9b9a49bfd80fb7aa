// The relay between the user's command and its server: passes on the bytes and records what the
// server refused, what it committed, and which sessions it ended. One thread serves all
// connections; take() may be called from another.
#include "drill/relay.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <iterator>

#include <fmt/format.h>

#include <termgate/text/hex.hpp>

namespace termgate::cli::drill {
namespace {

// Percent-encodes a part of a URL.
std::string encoded(std::string_view text) { return text::percent_encoded(text, "-_.~"); }

}  // namespace

Relay::Relay(RelayTarget target, Speaks speaks)
    : target_(std::move(target)), speaks_(speaks), listener_(listen_on_loopback()) {
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

Relay::~Relay() {
  thread_.request_stop();
  thread_.join();
  for (const Pair& pair : pairs_) {
    close(pair.client);
    close(pair.server);
  }
  close(listener_.descriptor);
}

// Environment variables for the command, so that every common way to name a database leads to the
// relay.
std::vector<std::string> Relay::settings() const {
  const std::string secret = target_.password.empty() ? "" : ":" + encoded(target_.password);
  std::string url =
      fmt::format("postgresql://{}{}@127.0.0.1:{}/{}?sslmode=disable", encoded(target_.user),
                  secret, listener_.port, encoded(target_.database));
  if (!target_.options.empty()) url += "&options=" + encoded(target_.options);
  if (!target_.application_name.empty())
    url += "&application_name=" + encoded(target_.application_name);
  std::vector<std::string> all = {"TERMGATE_DB=" + url,
                                  "DATABASE_URL=" + url,
                                  "PGHOST=127.0.0.1",
                                  "PGHOSTADDR=127.0.0.1",
                                  fmt::format("PGPORT={}", listener_.port),
                                  "PGUSER=" + target_.user,
                                  "PGDATABASE=" + target_.database,
                                  "PGSSLMODE=disable",
                                  "PGGSSENCMODE=disable"};
  if (!target_.password.empty()) all.push_back("PGPASSWORD=" + target_.password);
  if (!target_.options.empty()) all.push_back("PGOPTIONS=" + target_.options);
  if (!target_.application_name.empty()) all.push_back("PGAPPNAME=" + target_.application_name);
  return all;
}

Seen Relay::take() {
  const std::lock_guard lock(mutex_);
  Seen seen = std::move(seen_);
  seen_ = {};
  seen_.connections = seen.connections;
  return seen;
}

void Relay::accept_one() {
  const int client = accept_client(listener_.descriptor);
  if (client < 0) return;
  const int server = connect_to_server(target_.host, target_.port);
  if (server < 0) {
    close(client);
    return;
  }
  Pair& pair = pairs_.emplace_back();
  pair.client = client;
  pair.server = server;
  pair.greeting = speaks_ == Speaks::postgresql;
  const std::lock_guard lock(mutex_);
  ++seen_.connections;
}

// Refuses requests for encryption: length 8, code 80877103 (TLS) or 80877104 (GSSAPI). Anything
// else that comes first begins the conversation.
void Relay::take_greeting(Pair& pair, std::string_view bytes) {
  pair.greeted += bytes;
  while (pair.greeting && pair.greeted.size() >= 8) {
    const std::string_view tls("\0\0\0\x08\x04\xd2\x16\x2f", 8),
        gss("\0\0\0\x08\x04\xd2\x16\x30", 8);
    if (!pair.greeted.starts_with(tls) && !pair.greeted.starts_with(gss)) pair.greeting = false;
    else {
      pair.greeted.erase(0, 8);
      pair.to_client.bytes += 'N';
    }
  }
  if (pair.greeting) return;
  pair.conversation.from_client(pair.greeted, std::chrono::steady_clock::now());
  pair.to_server.bytes += pair.greeted;
  pair.greeted.clear();
}

void Relay::read_from(Pair& pair, bool from_client) {
  std::array<char, 65536> bytes;
  Way& way = from_client ? pair.to_server : pair.to_client;
  const ssize_t count =
      recv(from_client ? pair.client : pair.server, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    way.over = true;
    return;
  }
  const std::string_view chunk(bytes.data(), static_cast<std::size_t>(count));
  if (from_client && pair.greeting) {
    take_greeting(pair, chunk);
    return;
  }
  // Record first, then pass on: whoever acts on an answer must find it recorded.
  const auto hand_over = [&](auto& conversation) {
    if (from_client) conversation.from_client(chunk, std::chrono::steady_clock::now());
    else conversation.from_server(chunk);
  };
  if (speaks_ == Speaks::tds) hand_over(pair.tds);
  else hand_over(pair.conversation);
  gather(pair);
  way.bytes += chunk;
}

// Sends what is queued. If the receiver has gone, the bytes are dropped, but what the other end
// still sends is recorded as usual.
void Relay::write_to(int descriptor, Way& way) {
  while (way.sent < way.bytes.size()) {
    const ssize_t count = send(descriptor, way.bytes.data() + way.sent, way.bytes.size() - way.sent,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) break;
    way.sent += static_cast<std::size_t>(count);
  }
  way.bytes.clear();
  way.sent = 0;
  if (way.over && !way.closed) {
    shutdown(descriptor, SHUT_WR);
    way.closed = true;
  }
}

void Relay::gather(Pair& pair) {
  Conversation& talk = pair.conversation;
  std::move(pair.tds.refusals.begin(), pair.tds.refusals.end(), std::back_inserter(talk.refusals));
  pair.tds.refusals.clear();
  if (talk.refusals.empty() && talk.writes.empty() && talk.endings.empty()) return;
  // The drill fetches them many times a second, so few gather here. More than this are dropped.
  constexpr std::size_t facts_max = 10'000;
  const std::lock_guard lock(mutex_);
  const auto move_all = [](auto& from, auto& to) {
    for (auto& one : from) {
      if (to.size() < facts_max) to.push_back(std::move(one));
    }
    from.clear();
  };
  move_all(talk.refusals, seen_.refusals);
  move_all(talk.writes, seen_.writes);
  move_all(talk.endings, seen_.endings);
}

void Relay::run(std::stop_token stop) {
  std::vector<pollfd> waits;
  while (!stop.stop_requested()) {
    waits.assign(
        1, {listener_.descriptor, static_cast<short>(pairs_.size() < pairs_max ? POLLIN : 0), 0});
    for (const Pair& pair : pairs_) {
      const auto events = [](const Way& in, const Way& out) {
        const bool reads = !in.over && in.bytes.size() - in.sent < bytes_max;
        return static_cast<short>((reads ? POLLIN : 0) |
                                  (out.sent < out.bytes.size() ? POLLOUT : 0));
      };
      // A socket that waits for no event is left out, because poll() would report its hang-up again
      // and again.
      const short client = events(pair.to_server, pair.to_client),
                  server = events(pair.to_client, pair.to_server);
      waits.push_back({client == 0 ? -1 : pair.client, client, 0});
      waits.push_back({server == 0 ? -1 : pair.server, server, 0});
    }
    if (poll(waits.data(), waits.size(), 20) <= 0) continue;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = pairs_[i];
      const pollfd client = waits[1 + 2 * i], server = waits[2 + 2 * i];
      if ((client.events & POLLIN) && client.revents != 0) read_from(pair, true);
      if ((server.events & POLLIN) && server.revents != 0) read_from(pair, false);
      write_to(pair.server, pair.to_server);
      write_to(pair.client, pair.to_client);
      if (!pair.to_server.closed || !pair.to_client.closed) continue;
      close(pair.client);
      close(pair.server);
      pair.client = pair.server = -1;
    }
    std::erase_if(pairs_, [](const Pair& pair) { return pair.client < 0; });
    if (waits[0].revents != 0) accept_one();
  }
}

}  // namespace termgate::cli::drill
