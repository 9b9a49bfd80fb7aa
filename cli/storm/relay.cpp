// A relay that causes faults (relay.hpp has a diagram). One thread serves all connections. The
// director's threads request a loss or a cut through atomics and wait until it has happened; a
// delay is only stored for that thread.
#include "storm/relay.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <termgate/error.hpp>

#include "storm/sql.hpp"

namespace termgate::cli::storm {
namespace {

constexpr std::size_t pairs_max = 1000;
// Bytes held in one direction of a connection; one read may exceed the limit.
constexpr std::size_t held_max = 64 * 1024;
constexpr std::size_t read_max = 16 * 1024;
constexpr int pieces_of_a_read = 6;

// PostgreSQL's CommandComplete message with the tag COMMIT.
constexpr std::string_view commit_answer(
    "C\0\0\0\x0b"
    "COMMIT\0",
    12);

// Whether a batch of T-SQL contains COMMIT, in UTF-16. The client's batch is searched because the
// server's answer does not say what it answers.
bool has_tsql_commit(std::string_view chunk) {
  static const std::string wide = [] {
    std::string text;
    for (const char letter : std::string_view("COMMIT TRANSACTION")) text += {letter, '\0'};
    return text;
  }();
  return chunk.find(wide) != std::string_view::npos;
}

RelayTarget plain(RelayTarget target) {
  if (target.encrypted) throw Error("the connection is encrypted");
  return target;
}

}  // namespace

Relay::Relay(const std::string& url) : Relay(url, plain(locate(url))) {}

Relay::Relay(const std::string& url, RelayTarget target)
    : target_(std::move(target)),
      listener_(listen_on_loopback()),
      url_(through(url, listener_.port)) {
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

Relay::~Relay() {
  thread_.request_stop();
  thread_.join();
  for (Pair& pair : pairs_) close_both(pair, false);
  close(listener_.descriptor);
}

bool Relay::lose(Loss loss, std::chrono::milliseconds pause, std::chrono::milliseconds patience) {
  pause_ms_ = pause.count();
  armed_ = static_cast<int>(loss);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (armed_ != -1 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return armed_.exchange(-1) == -1;
}

int Relay::cut(int most, bool reset, std::chrono::milliseconds patience) {
  cut_ = 0;
  to_cut_ = reset ? -most : most;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (to_cut_ != 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return to_cut_.exchange(0) == 0 ? cut_.load() : 0;
}

void Relay::delay(const Delay& delay) {
  const std::lock_guard lock(mutex_);
  next_delay_ = delay;
  has_next_ = true;
}

void Relay::calm() {
  {
    const std::lock_guard lock(mutex_);
    has_next_ = false;
  }
  calm_ = true;
}

void Relay::close_both(Pair& pair, bool reset) {
  const linger at_once{1, 0};
  for (int* end : {&pair.client, &pair.server}) {
    if (*end < 0) continue;
    if (reset) setsockopt(*end, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(*end);
    *end = -1;
  }
  pair.over = true;
}

// Rotates through the connections, so that cuts do not always hit the first one.
void Relay::cut_now() {
  const int wanted = to_cut_;
  if (wanted == 0) return;
  int done = 0;
  for (std::size_t i = 0; i < pairs_.size() && done < std::abs(wanted); ++i) {
    Pair& pair = pairs_[cut_from_++ % pairs_.size()];
    if (pair.silent || pair.over) continue;
    close_both(pair, wanted < 0);
    ++done;
  }
  cut_ = done;
  to_cut_ = 0;
}

void Relay::queue(Way& way, std::string_view bytes, bool from_client, Time now) {
  way.bytes += bytes.size();
  ++arrivals_;
  const bool held = now < delay_until_ && (from_client ? delay_.from_client : delay_.from_server);
  if (!held) {
    way.pieces.push_back({std::string(bytes), 0, now, arrivals_, false});
    return;
  }
  if (!delay_counted_) ++delays_;
  delay_counted_ = true;
  for (int left = pieces_of_a_read; !bytes.empty(); --left) {
    // Half of the cuts are within the first bytes, in headers and small messages, where a reader
    // must reassemble most.
    const std::size_t most = random_() % 2 == 0 ? 16 : bytes.size();
    const std::size_t size =
        left <= 1 ? bytes.size() : std::min<std::size_t>(bytes.size(), 1 + random_() % most);
    const std::chrono::milliseconds pause(
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(delay_.most.count() + 1)));
    way.pieces.push_back({std::string(bytes.substr(0, size)), 0, now + pause, arrivals_, true});
    bytes.remove_prefix(size);
    ++held_pieces_;
  }
}

// Reads once from one end. Returns false if a requested loss hit this answer, so that both ends
// must be closed.
bool Relay::take(Pair& pair, bool from_client, Time now) {
  Way& way = from_client ? pair.to_server : pair.to_client;
  std::array<char, read_max> bytes;
  const ssize_t count =
      recv(from_client ? pair.client : pair.server, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
  if (count <= 0) {
    way.ended = true;
    return true;
  }
  const std::string_view chunk(bytes.data(), static_cast<std::size_t>(count));
  if (from_client && has_tsql_commit(chunk)) pair.commits = true;
  const bool commits = !from_client && (std::exchange(pair.commits, false) ||
                                        chunk.find(commit_answer) != std::string_view::npos);
  const auto until = [&] { return now + std::chrono::milliseconds(pause_ms_); };
  int armed = armed_;
  if (armed == static_cast<int>(from_client ? Loss::client_swallowed : Loss::server_swallowed)) {
    if (!way.swallowed && pair.until == Time::max() && armed_.compare_exchange_strong(armed, -1)) {
      way.swallowed = true;
      pair.until = until();
    }
  } else if (!from_client && armed != -1 && armed <= static_cast<int>(Loss::silent)) {
    const bool meets = armed == static_cast<int>(Loss::any);
    if ((meets || commits) && armed_.compare_exchange_strong(armed, -1)) {
      if (armed != static_cast<int>(Loss::silent)) return false;
      close(pair.server);
      pair.server = -1;
      pair.silent = true;
      pair.to_server = pair.to_client = Way{};
      pair.until = until();
      return true;
    }
  }
  if (!way.swallowed) queue(way, chunk, from_client, now);
  return true;
}

void Relay::deliver(Pair& pair, bool to_server, Time now) {
  Way& way = to_server ? pair.to_server : pair.to_client;
  while (!way.pieces.empty() && !way.full) {
    Piece& piece = way.pieces.front();
    // Pieces leave in order, so a delayed piece delays those after it.
    if (piece.due > now) return;
    const ssize_t sent =
        send(to_server ? pair.server : pair.client, piece.bytes.data() + piece.sent,
             piece.bytes.size() - piece.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      way.full = true;
      return;
    }
    if (sent <= 0) {
      // The receiver has gone, so its bytes are dropped. Bytes that it sent before are still
      // delivered.
      way.pieces.clear();
      way.bytes = 0;
      way.swallowed = true;
      return;
    }
    piece.sent += static_cast<std::size_t>(sent);
    way.bytes -= static_cast<std::size_t>(sent);
    if (piece.sent < piece.bytes.size()) continue;
    if (piece.arrival > latest_) {
      latest_ = piece.arrival;
      latest_of_ = pair.server;
    } else if (piece.held && piece.arrival < latest_ && latest_of_ != pair.server) {
      ++overtaken_;
    }
    way.pieces.pop_front();
  }
}

void Relay::run(std::stop_token stop) {
  std::vector<pollfd> waits;
  while (!stop.stop_requested()) {
    auto now = std::chrono::steady_clock::now();
    cut_now();
    {
      const std::lock_guard lock(mutex_);
      if (has_next_) {
        delay_ = next_delay_;
        delay_until_ = now + delay_.time;
        delay_counted_ = has_next_ = false;
        random_.seed(delay_.seed);
      }
    }
    if (calm_.exchange(false)) {
      delay_until_ = now;
      for (Pair& pair : pairs_) {
        for (Way* way : {&pair.to_server, &pair.to_client}) {
          for (Piece& piece : way->pieces) piece.due = now;
        }
        if (pair.until != Time::max()) pair.until = now;
      }
    }
    auto next = now + std::chrono::milliseconds(20);
    for (Pair& pair : pairs_) {
      if (pair.over) continue;
      if (!pair.silent) {
        deliver(pair, true, now);
        deliver(pair, false, now);
      }
      // A disconnect is passed on once all bytes before it are delivered; if an end's bytes are
      // swallowed, so is its disconnect.
      for (const Way* way : {&pair.to_server, &pair.to_client}) {
        if (way->ended && !way->swallowed && way->pieces.empty()) close_both(pair, false);
        if (!way->pieces.empty() && !way->full) next = std::min(next, way->pieces.front().due);
      }
      if (now >= pair.until) close_both(pair, false);
    }
    std::erase_if(pairs_, [](const Pair& pair) { return pair.over; });
    waits.assign(
        1, {listener_.descriptor, static_cast<short>(pairs_.size() < pairs_max ? POLLIN : 0), 0});
    for (const Pair& pair : pairs_) {
      const auto wanted = [](const Way& in, const Way& out) {
        return static_cast<short>((!in.ended && in.bytes < held_max ? POLLIN : 0) |
                                  (out.full ? POLLOUT : 0));
      };
      const short client = pair.silent ? short{0} : wanted(pair.to_server, pair.to_client),
                  server = pair.silent ? short{0} : wanted(pair.to_client, pair.to_server);
      // A socket that waits for no event is left out, because poll() would report its hang-up again
      // and again.
      waits.push_back({client == 0 ? -1 : pair.client, client, 0});
      waits.push_back({server == 0 ? -1 : pair.server, server, 0});
    }
    const auto pause =
        std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now())
            .count();
    if (poll(waits.data(), waits.size(),
             static_cast<int>(std::clamp<std::int64_t>(pause, 0, 20))) <= 0)
      continue;
    now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      Pair& pair = pairs_[i];
      const short client = waits[1 + 2 * i].revents, server = waits[2 + 2 * i].revents;
      if (client != 0) pair.to_client.full = false;
      if (server != 0) pair.to_server.full = false;
      bool goes_on = true;
      if ((client & ~POLLOUT) != 0 && !pair.to_server.ended) goes_on = take(pair, true, now);
      if (goes_on && !pair.silent && (server & ~POLLOUT) != 0 && !pair.to_client.ended)
        goes_on = take(pair, false, now);
      if (!goes_on) close_both(pair, false);
    }
    if (waits[0].revents == 0) continue;
    const int client = accept_client(listener_.descriptor);
    if (client < 0) continue;
    const int server = connect_to_server(target_.host, target_.port);
    if (server < 0) {
      close(client);
      continue;
    }
    Pair& pair = pairs_.emplace_back();
    pair.client = client;
    pair.server = server;
  }
}

}  // namespace termgate::cli::storm
