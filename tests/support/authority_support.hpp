// For tests of proxy/authority: clients that can be made silent, a folder for rules and files, and
// short ways to say who comes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <termgate/authority/authority.hpp>

namespace termgate::test {

class FakeLiveness final : public authority::PeerLiveness {
 public:
  bool open() const override { return open_; }
  std::chrono::milliseconds silent_for() const override {
    return silent_ ? std::chrono::milliseconds(3'600'000) : std::chrono::milliseconds(0);
  }
  void ask_within(std::chrono::milliseconds bound) override { asked_ms_ = bound.count(); }

  void fall_silent() { silent_ = true; }
  void answer_again() { silent_ = false; }
  std::int64_t asked_ms() const { return asked_ms_; }

 private:
  std::atomic<bool> open_{true}, silent_{false};
  std::atomic<std::int64_t> asked_ms_{0};
};

// A folder of its own, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "termgate-authority-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string at(const std::string& name) const { return (path_ / name).string(); }
  // By rename, as electors do it.
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name + ".new"), std::ios::binary) << text;
    std::filesystem::rename(at(name + ".new"), at(name));
    return at(name);
  }

 private:
  std::filesystem::path path_;
};

// What was logged, or what fences were seen: a list that threads append to.
template <class Item>
class Gathered {
 public:
  void add(Item item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
  std::vector<Item> all() const {
    const std::lock_guard lock(mutex_);
    return items_;
  }
  bool await(const Item& wanted, std::chrono::milliseconds at_most = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] {
      for (const Item& item : items_) {
        if (item == wanted) return true;
      }
      return false;
    });
  }

 private:
  mutable std::mutex mutex_;  // guards items_
  std::condition_variable changed_;
  std::vector<Item> items_;
};

// One session behind an Authority: comes, is let in, and goes when this object does.
class Visit {
 public:
  static inline std::string database = "billing";  // that all of them come to

  Visit(authority::Authority& at, const std::string& host, const std::string& user = "app")
      : at_(at), number_(next()), liveness_(std::make_shared<FakeLiveness>()) {
    admission_ =
        at_.admit(number_, {"127.0.0.1:6432", host, {user, database, "test", false}, liveness_});
  }
  ~Visit() { at_.ended(number_); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  // The server has let it in; how long it took until it was settled.
  std::chrono::milliseconds establish() {
    const auto start = std::chrono::steady_clock::now();
    auto settled = std::make_shared<Gathered<int>>();
    at_.established(number_, [settled] { settled->add(1); });
    if (!settled->await(1, std::chrono::seconds(30))) throw std::runtime_error("never settled");
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
  std::int64_t term() const {
    const auto standing = admission_.rule->now();
    return standing.term ? standing.term->value() : 0;
  }
  std::string why_not() const { return admission_.rule->now().why_not; }
  const conversation::Admission& admission() const { return admission_; }
  FakeLiveness& liveness() { return *liveness_; }

  bool await_term(std::chrono::milliseconds at_most = std::chrono::seconds(10)) const {
    return await(at_most, [this] { return term() != 0; });
  }
  bool await_no_term(std::chrono::milliseconds at_most = std::chrono::seconds(10)) const {
    return await(at_most, [this] { return term() == 0; });
  }

 private:
  template <class Condition>
  static bool await(std::chrono::milliseconds at_most, Condition condition) {
    const auto until = std::chrono::steady_clock::now() + at_most;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  static std::uint64_t next() {
    static std::atomic<std::uint64_t> number{0};
    return ++number;
  }

  authority::Authority& at_;
  const std::uint64_t number_;
  std::shared_ptr<FakeLiveness> liveness_;
  conversation::Admission admission_;
};

}  // namespace termgate::test
