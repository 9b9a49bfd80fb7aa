// classify() with a cache of texts that need the grammar. One for each thread, without a lock: a
// session stays on one thread, and a lock would cost as much as classifying a plain statement.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include <termgate/statements/classify.hpp>

namespace termgate::statements {

class Cache {
 public:
  struct Limits {
    std::size_t entries_max = 1024;
    std::size_t bytes_max = 4u << 20;        // total of all texts
    std::size_t text_bytes_max = 16u << 10;  // longer texts are not kept
  };

  Cache() = default;
  explicit Cache(Limits limits) : limits_(limits) {}

  // Never nullptr. The result stays valid as long as the caller holds it. The settings that a
  // session can change count as part of the text; the schema and the limits must be the same in all
  // calls.
  std::shared_ptr<const Classified> classify(std::string_view sql, const Settings& settings = {});

  std::size_t entries() const noexcept { return recent_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Classified> classified;
  };

  void forget_oldest();

  Limits limits_;
  std::list<Entry> recent_;  // the most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_text_;
  std::string key_;
  std::size_t bytes_ = 0;
};

}  // namespace termgate::statements
