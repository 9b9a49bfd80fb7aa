// Followers as every backend must keep them: every write of a stream in order, none left out and
// none twice within one follower's life, at least once over restarts, one follower of a name at a
// time, nothing passed over.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <termgate/database.hpp>
#include <termgate/follower.hpp>
#include <termgate/followers.hpp>
#include <termgate/info.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::Fresh;
using conformance::shared;
using conformance::unique;

namespace {

// What a follower was handed, as "stream/number payload".
class Seen {
 public:
  Follower::Apply apply() {
    return [this](const Stream& stream, const StreamWrite& write) {
      const std::lock_guard lock(mutex_);
      numbers_[stream.name()].push_back(write.sequence_no.value());
      payloads_[stream.name()].push_back(write.payload);
    };
  }
  std::vector<std::int64_t> numbers(const std::string& stream) {
    const std::lock_guard lock(mutex_);
    return numbers_[stream];
  }
  std::vector<std::string> payloads(const std::string& stream) {
    const std::lock_guard lock(mutex_);
    return payloads_[stream];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::int64_t>> numbers_;
  std::map<std::string, std::vector<std::string>> payloads_;
};

std::vector<std::int64_t> up_to(std::int64_t last, std::int64_t first = 1) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = first; number <= last; ++number) numbers.push_back(number);
  return numbers;
}

bool comes_true(const std::function<bool()>& condition, std::chrono::milliseconds at_most = 10s) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

class News {
 public:
  std::function<void(const FollowerNews&)> note() {
    return [this](const FollowerNews& news) {
      const std::lock_guard lock(mutex_);
      all_.push_back(news);
    };
  }
  int count(FollowerNews::Kind kind) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(
        all_.begin(), all_.end(), [&](const FollowerNews& news) { return news.kind == kind; }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<FollowerNews> all_;
};

}  // namespace

TEST_CASE_METHOD(Fresh, "follower: what is there and what comes is handed over in order and once",
                 "[follower][conformance]") {
  const std::string name = unique("reader");
  for (int i = 1; i <= 5; ++i) db.append(stream, Term(1), std::to_string(i));
  Seen seen;
  Follower follower(db, name, stream, seen.apply(), {.page_writes = 2});
  REQUIRE(follower.catch_up(10s));
  CHECK(seen.numbers(stream.name()) == up_to(5));
  CHECK(follower.lag() == 0);
  CHECK(follower.fresh(10s));
  CHECK_FALSE(follower.fresh(-1ms));
  db.append_many(stream, Term(1), {"6", "7", "8"});
  CHECK(comes_true([&] { return seen.numbers(stream.name()).size() == 8; }));
  REQUIRE(follower.catch_up(10s));
  CHECK(seen.payloads(stream.name()).back() == "8");
  CHECK(follower.handled() == 8);
  const auto infos = Followers(db).list();
  const auto info = std::find_if(infos.begin(), infos.end(),
                                 [&](const FollowerInfo& one) { return one.name == name; });
  REQUIRE(info != infos.end());
  CHECK(info->behind == 0);
  CHECK_FALSE(info->behind_ms);
  CHECK(info->followed.stream == stream.name());
}

TEST_CASE_METHOD(
    Fresh,
    "follower: a restart goes on where the last one stopped; from the end begins behind what is "
    "there",
    "[follower][conformance]") {
  const std::string name = unique("restarted");
  db.append_many(stream, Term(1), std::vector<std::string>(20, "x"));
  Seen seen;
  for (int life = 0; life < 4; ++life) {
    Follower follower(db, name, stream, seen.apply(), {.page_writes = 3});
    db.append(stream, Term(1), "x");
    REQUIRE(follower.catch_up(10s));
  }
  CHECK(seen.numbers(stream.name()) == up_to(24));
  Seen late;
  Follower follower(db, unique("late"), stream, late.apply(), {.from_end = true});
  db.append(stream, Term(1), "x");
  REQUIRE(follower.catch_up(10s));
  CHECK(late.numbers(stream.name()) == up_to(25, 25));
}

TEST_CASE_METHOD(Fresh, "follower: a later start takes it over, and so does a removal",
                 "[follower][conformance]") {
  const std::string name = unique("taken");
  db.append(stream, Term(1), "1");
  Seen first, second;
  News news;
  Follower old(db, name, stream, first.apply(), {.poll = 50ms, .news = news.note()});
  REQUIRE(old.catch_up(10s));
  Follower next(db, name, stream, second.apply(), {.poll = 50ms});
  CHECK(comes_true([&] { return !old.running(); }));
  CHECK(news.count(FollowerNews::Kind::taken) == 1);
  CHECK_FALSE(old.catch_up(10ms));
  db.append(stream, Term(1), "2");
  REQUIRE(next.catch_up(10s));
  CHECK(first.numbers(stream.name()) == up_to(1));
  CHECK(second.numbers(stream.name()) == up_to(2, 2));
  CHECK(Followers(db).remove(name));
  CHECK_FALSE(Followers(db).remove(name));
  CHECK(comes_true([&] { return !next.running(); }));
  // By parts: the one before moves nothing any more, a wrong place neither.
  const auto run = Followers(db).start(name, {.stream = stream.name()});
  CHECK(Followers(db).advance(name, run - 1, stream, SequenceNo(0), SequenceNo(1)) !=
        FollowerMove::moved);
  CHECK(Followers(db).advance(name, run, stream, SequenceNo(1), SequenceNo(2)) ==
        FollowerMove::elsewhere);
  CHECK(Followers(db).advance(name, run, stream, SequenceNo(0), SequenceNo(1)) ==
        FollowerMove::moved);
  CHECK(Followers(db).advance(name, run, stream, SequenceNo(0), SequenceNo(1)) ==
        FollowerMove::elsewhere);
  CHECK(Followers(db).start(name, {.stream = stream.name()}) == run + 1);
  CHECK(Followers(db).advance(name, run, stream, SequenceNo(1), SequenceNo(2)) ==
        FollowerMove::taken);
}

TEST_CASE_METHOD(Fresh, "follower: many threads may stop it at once and so may its function",
                 "[follower][conformance]") {
  db.append(stream, Term(1), "1");
  for (int round = 0; round < 20; ++round) {
    Follower follower(db, unique("stopped"), stream, [](const Stream&, const StreamWrite&) {});
    std::atomic<bool> go{false};
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        while (!go) std::this_thread::yield();
        try {
          follower.stop();
          if (follower.running()) ++failed;
        } catch (const std::exception&) { ++failed; }
      });
    go = true;
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 0);
  }
  std::atomic<Follower*> itself{nullptr};
  Follower follower(db, unique("stopped"), stream, [&](const Stream&, const StreamWrite&) {
    while (itself == nullptr) std::this_thread::yield();
    itself.load()->stop();
  });
  itself = &follower;
  CHECK(comes_true([&] { return !follower.running(); }));
}

TEST_CASE("follower: a scope's streams are followed side by side, those that begin later too",
          "[follower][conformance]") {
  auto& db = shared();
  const Scope scope(unique("books"));
  const std::string a = unique("a"), b = unique("b"), elsewhere = unique("elsewhere");
  const auto append = [&](const std::string& stream, const std::string& payload) {
    db.append(Stream(stream), Term(1), payload, {.scope = scope});
  };
  append(a, "1");
  db.append(Stream(elsewhere), Term(1), "1");
  Seen seen;
  std::atomic<bool> refuse{true};
  News news;
  const auto apply = seen.apply();
  Follower follower(db, unique("all"), scope,
                    [&](const Stream& stream, const StreamWrite& write) {
                      if (refuse && stream.name() == a && write.sequence_no.value() == 2)
                        throw std::runtime_error("not yet");
                      apply(stream, write);
                    },
                    {.news = news.note()});
  REQUIRE(follower.catch_up(10s));
  append(a, "2");
  append(a, "3");
  append(b, "1");
  append(b, "2");
  // One stream waits for its write to be taken, the other goes on.
  CHECK(comes_true(
      [&] { return seen.numbers(b).size() == 2 && news.count(FollowerNews::Kind::refused) >= 2; }));
  CHECK(seen.numbers(a) == up_to(1));
  CHECK_FALSE(follower.catch_up(10ms));
  refuse = false;
  REQUIRE(follower.catch_up(10s));
  CHECK(seen.numbers(a) == up_to(3));
  CHECK(seen.numbers(b) == up_to(2));
  CHECK(seen.numbers(elsewhere).empty());
}

TEST_CASE_METHOD(Fresh, "follower: transactions that commit out of order leave nothing out",
                 "[follower][conformance]") {
  const Stream x(unique("x")), y(unique("y"));
  db.append(x, Term(1), "1", {.scope = scope});
  db.append(y, Term(1), "1", {.scope = scope});
  Seen seen;
  Follower follower(db, unique("all"), scope, seen.apply());
  REQUIRE(follower.catch_up(10s));
  std::mutex mutex;
  std::condition_variable changed;
  bool appended = false, may_end = false;
  const auto until = [&](bool& flag) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return flag; });
  };
  const auto raise = [&](bool& flag) {
    const std::lock_guard lock(mutex);
    flag = true;
    changed.notify_all();
  };
  // x/2 is written first and rolled back, and written again; it commits after y/2, which is written
  // later.
  std::thread slow([&] {
    try {
      db.write(scope, Term(1), [&](Transaction& transaction) {
        transaction.append(x, "rolled back");
        throw std::runtime_error("on purpose");
      });
    } catch (const std::runtime_error&) {}
    db.write(scope, Term(1), [&](Transaction& transaction) {
      transaction.append(x, "2");
      raise(appended);
      // SQLite has one writer at a time: there nothing can overtake.
      if (!conformance::backend_name().starts_with("sqlite")) until(may_end);
    });
  });
  REQUIRE(until(appended));
  db.append(y, Term(1), "2");
  std::thread next([&] { db.append(x, Term(1), "3"); });  // waits for the one in front of it
  CHECK(comes_true([&] { return seen.numbers(y.name()).size() == 2; }));
  if (!conformance::backend_name().starts_with("sqlite")) {
    std::this_thread::sleep_for(100ms);
    CHECK(seen.numbers(x.name()) == up_to(1));  // neither the open one nor what waits for it
  }
  raise(may_end);
  slow.join();
  next.join();
  REQUIRE(follower.catch_up(10s));
  CHECK(seen.numbers(x.name()) == up_to(3));
  CHECK(seen.payloads(x.name()) == std::vector<std::string>{"1", "2", "3"});
  CHECK(seen.numbers(y.name()) == up_to(2));
}

TEST_CASE_METHOD(Fresh, "follower: pruned writes end it, or are passed over where that is wanted",
                 "[follower][conformance]") {
  db.append_many(stream, Term(1), std::vector<std::string>(10, "x"));
  Operator(db).prune(stream, SequenceNo(4));
  Seen seen, all;
  News news, passed;
  const std::string name = unique("behind");
  {
    Follower follower(db, name, stream, seen.apply(), {.news = news.note()});
    CHECK(comes_true([&] { return !follower.running(); }));
    CHECK(news.count(FollowerNews::Kind::pruned) == 1);
    CHECK(seen.numbers(stream.name()).empty());
  }
  Follower follower(db, name, stream, all.apply(), {.skip_pruned = true, .news = passed.note()});
  REQUIRE(follower.catch_up(10s));
  CHECK(all.numbers(stream.name()) == up_to(10, 4));
  CHECK(passed.count(FollowerNews::Kind::pruned) == 1);
  Operator(db).prune(stream, SequenceNo(11));
  db.append(stream, Term(1), "x");
  REQUIRE(follower.catch_up(10s));
  CHECK(all.numbers(stream.name()) == up_to(11, 4));
}

TEST_CASE("follower: a write that was taken away by hand is waited for and never passed over",
          "[follower][conformance]") {
  if (!conformance::survives_reopening() || conformance::is_managed()) return;
  const std::string url = conformance::fresh_url();
  Database db = Database::open(url);
  conformance::install(db, url);
  const Stream stream("robbed");
  db.append_many(stream, Term(1), std::vector<std::string>(6, "x"));
  // On SQLite whoever can write the file can rewrite its schema too.
  const std::string unguarded =
      db.kind() == "sqlite" ? "DROP TRIGGER termgate_stream_writes_own_delete; " : "";
  conformance::run_outside(url, unguarded + "DELETE FROM " +
                                    conformance::own_table("stream_writes") +
                                    " WHERE sequence_no = 4");
  Seen seen;
  Follower follower(db, "reader", stream, seen.apply(), {.poll = 10ms});
  CHECK(comes_true([&] { return seen.numbers(stream.name()).size() == 3; }));
  CHECK_FALSE(follower.catch_up(300ms));
  CHECK(seen.numbers(stream.name()) == up_to(3));
  CHECK(follower.lag() == 3);
}

TEST_CASE("follower: many writers with takeovers and restarts of the follower, everything in order",
          "[follower][conformance]") {
  auto& db = shared();
  const Scope scope(unique("busy"));
  std::vector<Stream> streams;
  for (int i = 0; i < 3; ++i) streams.emplace_back(unique("busy"));
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> term{1};
  for (const Stream& stream : streams) db.append(stream, Term(1), "first", {.scope = scope});
  const auto write = [&](int writer) {
    for (int i = 0; !stop; ++i) {
      try {
        db.append(streams[static_cast<std::size_t>(writer + i) % streams.size()], Term(term.load()),
                  "x");
      } catch (const StaleTerm&) {
      } catch (const Conflict&) {
      } catch (const Blocked&) {}
    }
  };
  std::vector<std::thread> writers;
  for (int i = 0; i < 4; ++i) writers.emplace_back(write, i);
  Seen seen;
  const std::string name = unique("busy reader");
  for (int life = 0; life < 8; ++life) {
    Follower follower(db, name, scope, seen.apply(), {.page_writes = 7});
    std::this_thread::sleep_for(40ms);
    db.seal(scope, Term(term.load() + 1));
    ++term;
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  Follower follower(db, name, scope, seen.apply());
  REQUIRE(follower.catch_up(30s));
  for (const Stream& stream : streams) {
    const auto info = Info(db).stream(stream);
    REQUIRE(info);
    CHECK(info->last_no > 1);
    // A follower that is stopped moves its position, so nothing comes twice.
    CHECK(seen.numbers(stream.name()) == up_to(info->last_no));
  }
}

TEST_CASE_METHOD(Fresh, "follower: bad input is refused and nothing is kept",
                 "[follower][conformance]") {
  const auto apply = [](const Stream&, const StreamWrite&) {};
  const std::string name = unique("bad");
  for (const std::string& bad :
       {std::string(), std::string(201, 'n'), std::string("a\0b", 3), std::string("\xff")})
    CHECK_THROWS_AS(Follower(db, bad, stream, apply), Error);
  const FollowerOptions options[] = {{.page_writes = 0}, {.page_writes = -1},
                                     {.page_bytes = 0},  {.poll = 0ms},
                                     {.poll = -1ms},     {.poll = std::chrono::hours(2)}};
  for (const FollowerOptions& one : options)
    CHECK_THROWS_AS(Follower(db, name, stream, apply, one), InvalidInput);
  CHECK_THROWS_AS(Followers(db).start(name, {}), InvalidInput);
  CHECK_THROWS_AS(Followers(db).start(name, {.stream = "a", .scope = "b"}), InvalidInput);
  CHECK(Followers(db).behind(name).run == 0);
  CHECK_THROWS_AS(Followers(db).advance(name, 1, stream, SequenceNo(0), SequenceNo(1)),
                  InvalidInput);
  const auto run = Followers(db).start(name, {.stream = stream.name()});
  CHECK_THROWS_AS(Followers(db).start(name, {.stream = "another"}), InvalidInput);
  CHECK_THROWS_AS(Followers(db).start(name, {.scope = stream.name()}), InvalidInput);
  // Behind what was written, or backwards.
  CHECK_THROWS_AS(Followers(db).advance(name, run, stream, SequenceNo(0), SequenceNo(1)),
                  InvalidInput);
  db.append(stream, Term(1), "x");
  CHECK_THROWS_AS(Followers(db).advance(name, run, stream, SequenceNo(1), SequenceNo(0)),
                  InvalidInput);
  CHECK_THROWS_AS(Followers(db).advance(name, run, stream, SequenceNo(0), SequenceNo(2)),
                  InvalidInput);
  CHECK(Followers(db).behind(name).behind == 1);
}
