// A follower behind eight writers with takeovers, restarted again and again, and how soon it hears
// of a write.
//
//   live_followers [--writes N] [--url URL]
//
// 30,000 writes on SQLite, and on PostgreSQL where TERMGATE_TEST_POSTGRESQL names a server; a
// million with TERMGATE_TEST_LONG. With --url only there, on any database. Prints the lag's p50 and
// p99 with notifications, and by polling.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/follower.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

using namespace termgate;
using namespace std::chrono_literals;

namespace {

constexpr int writers = 8;
constexpr int batch = 25;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// The next number of each stream that is due; anything else is a failure.
class InOrder {
 public:
  void take(const Stream& stream, const StreamWrite& write) {
    const std::lock_guard lock(mutex_);
    std::int64_t& last = last_[stream.name()];
    if (write.sequence_no.value() != last + 1 && wrong_.empty())
      wrong_ =
          fmt::format("{} of {} came behind {}", write.sequence_no.value(), stream.name(), last);
    last = write.sequence_no.value();
    ++count_;
  }
  std::int64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::string wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }
  std::map<std::string, std::int64_t> last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> last_;
  std::int64_t count_ = 0;
  std::string wrong_;
};

// Every writer appends to all streams; each takes the lead from the others now and then.
void write_all(const std::string& url, const Scope& scope, const std::vector<Stream>& streams,
               std::atomic<std::int64_t>& term, std::atomic<std::int64_t>& left, int writer) {
  Database db = Database::open(url);
  const std::vector<std::string> payloads(batch, std::string(40, 'x'));
  // Where a write takes longer than the grace, a takeover ends the writer. A server that is gone
  // ends the test all the same.
  int ended = 0;
  const auto survives_eviction = [&] { return db.kind() == "sqlserver" && ++ended <= 1000; };
  for (int i = 0; left > 0; ++i) {
    try {
      if (i % 150 == 149) {
        const std::int64_t next = ++term;
        db.seal(scope, Term(next));
      }
      db.append_many(streams[static_cast<std::size_t>(writer + i) % streams.size()],
                     Term(term.load()), payloads);
      left -= batch;
    } catch (const StaleTerm&) {
    } catch (const Conflict&) {
    } catch (const Blocked&) {
    } catch (const OutcomeUnknown&) {
      if (!survives_eviction()) throw;
    } catch (const Unavailable&) {
      if (!survives_eviction()) throw;
    }
  }
}

void everything_in_order(const std::string& url, std::int64_t writes, const std::string& unique) {
  const Scope scope("followed " + unique);
  std::vector<Stream> streams;
  Database db = Database::open(url);
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(fmt::format("stream {} {}", i, unique));
    db.append(streams.back(), Term(1), "first", {.scope = scope});
  }
  std::atomic<std::int64_t> term{1}, left{writes};
  const auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < writers; ++i)
    threads.emplace_back([&, i] { write_all(url, scope, streams, term, left, i); });
  InOrder seen;
  int lives = 0;
  const auto apply = [&](const Stream& stream, const StreamWrite& write) {
    seen.take(stream, write);
  };
  while (left > 0) {
    Follower follower(db, "reader " + unique, scope, apply);
    std::this_thread::sleep_for(100ms);
    ++lives;
  }
  for (std::thread& thread : threads) thread.join();
  {
    Follower follower(db, "reader " + unique, scope, apply);
    require(follower.catch_up(300s), "the follower has not caught up");
  }
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  require(seen.wrong().empty(), seen.wrong());
  const auto last = seen.last();
  for (const Stream& stream : streams)
    require(last.at(stream.name()) == Info(db).stream(stream)->last_no,
            "not all of " + stream.name() + " was handled");
  fmt::print(
      "{}: {} writes by {} writers, {} takeovers, {} lives of the follower: all in order, none "
      "missed, {:.1f} s\n",
      db.kind(), seen.count(), writers, term.load() - 1, lives, took);
}

// From in front of the append's call to the follower's function, in one process.
std::int64_t lag_p99_us(const std::string& url, int writes, bool listen,
                        const std::string& unique) {
  Database db = Database::open(url);
  const Stream stream("lag " + unique);
  db.append(stream, Term(1), "0");
  std::vector<std::int64_t> lags;
  Follower follower(db, "lag " + unique, stream,
                    [&](const Stream&, const StreamWrite& write) {
                      lags.push_back(now_us() - std::stoll(write.payload));
                    },
                    {.from_end = true, .listen = listen});
  require(follower.catch_up(10s), "the follower has not caught up");
  for (int i = 0; i < writes; ++i) {
    db.append(stream, Term(1), std::to_string(now_us()));
    std::this_thread::sleep_for(5ms);
  }
  require(follower.catch_up(10s), "the follower has not caught up");
  follower.stop();
  require(lags.size() == static_cast<std::size_t>(writes),
          fmt::format("{} of {} writes were handled", lags.size(), writes));
  std::sort(lags.begin(), lags.end());
  const std::int64_t p99 = lags[lags.size() * 99 / 100];
  fmt::print("{}: lag of {} writes {}: p50 {:.1f} ms, p99 {:.1f} ms, most {:.1f} ms\n", db.kind(),
             writes, listen && db.kind() == "postgresql" ? "with notifications" : "by polling",
             static_cast<double>(lags[lags.size() / 2]) / 1000, static_cast<double>(p99) / 1000,
             static_cast<double>(lags.back()) / 1000);
  return p99;
}

void play(const std::string& url, std::int64_t writes) {
  const std::string unique = WriteId::random().text().substr(0, 8);
  Operator(Database::open(url)).install();
  everything_in_order(url, writes, unique);
  std::int64_t p99 = lag_p99_us(url, 300, true, unique + " notified");
  if (Database::open(url).kind() != "postgresql") return;
  // The goal is for a machine that does nothing else, as with --long; other tests run beside this
  // one. The best of three.
  const std::int64_t goal_us = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 50'000 : 500'000;
  for (int again = 2; again <= 3 && p99 >= 50'000; ++again)
    p99 = lag_p99_us(url, 300, true, fmt::format("{} notified {}", unique, again));
  require(p99 < goal_us, "the lag's p99 with notifications is too long");
  lag_p99_us(url, 100, false, unique + " polled");
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t writes = std::getenv("TERMGATE_TEST_LONG") != nullptr ? 1'000'000 : 30'000;
  std::string url;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--writes") writes = std::stoll(argv[i + 1]);
    if (std::string(argv[i]) == "--url") url = argv[i + 1];
  }
  try {
    if (!url.empty()) {
      play(url, writes);
      return 0;
    }
    const auto folder =
        std::filesystem::temp_directory_path() / fmt::format("termgate-followers.{}", getpid());
    std::filesystem::create_directory(folder);
    // A third there: its commits wait for the disk.
    play("sqlite:" + (folder / "f.db").string(), writes / 3);
    std::filesystem::remove_all(folder);
    const char* postgres = std::getenv("TERMGATE_TEST_POSTGRESQL");
    if (postgres == nullptr) return 77;
    play(postgres, writes);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "live_followers: {}\n", error.what());
    return 1;
  }
}
