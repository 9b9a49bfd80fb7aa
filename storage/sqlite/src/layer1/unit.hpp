// Layer1::Unit: one call's transaction, savepoint, or place in the caller's statement;
// Layer1::Snapshot: one view for a call of many reads. Internal to layer 1.
#pragma once

#include <termgate/detail/sqlite/layer1.hpp>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Begins in the constructor, and is undone unless committed. The head of layer1.hpp has the three
// cases.
class Layer1::Unit {
 public:
  explicit Unit(Layer1& layer1);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit();
  void commit();

 private:
  enum class Kind { joined, savepoint, own };
  Layer1& layer1_;
  AtWork at_work_;
  Kind kind_ = Kind::joined;
};

// Makes several reads see one state of the database, also in autocommit.
class Layer1::Snapshot {
 public:
  explicit Snapshot(Layer1& layer1);
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

 private:
  sqlite3* db_ = nullptr;  // none: the caller's transaction or statement has one already
};

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
