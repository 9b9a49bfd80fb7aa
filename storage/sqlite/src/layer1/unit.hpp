// Core::Unit: one call's transaction, savepoint, or place in the caller's statement;
// Core::Snapshot: one view for a call of many reads. Internal to layer 1.
#pragma once

#include <termgate/detail/sqlite/core.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Begins in the constructor, and is undone unless committed. The head of layer1.hpp has the three
// cases.
class Core::Unit {
 public:
  explicit Unit(Core& core);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit();
  void commit();

 private:
  enum class Kind { joined, savepoint, own };
  Core& core_;
  AtWork at_work_;
  Kind kind_ = Kind::joined;
};

// Makes several reads see one state of the database, also in autocommit.
class Core::Snapshot {
 public:
  explicit Snapshot(Core& core);
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

 private:
  sqlite3* db_ = nullptr;  // none: the caller's transaction or statement has one already
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
