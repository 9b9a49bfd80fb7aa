// Law::Unit: one call's transaction, savepoint, or place in the caller's statement; Law::Snapshot: one view for
// a call of many reads. Internal to the law.
#pragma once

#include <termgate/detail/sqlite/law.hpp>

namespace termgate::inline v0::sqlite {

// Begun when made and undone unless committed. See the head of law.hpp for the three cases.
class Law::Unit {
 public:
  explicit Unit(Law& law);
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit();
  void commit();

 private:
  enum class Kind { joined, savepoint, own };
  Law& law_;
  Kind kind_ = Kind::joined;
};

// Reads that belong together see one state of the database, also in autocommit.
class Law::Snapshot {
 public:
  explicit Snapshot(Law& law);
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

 private:
  sqlite3* db_ = nullptr;  // none: the caller's transaction or statement has one already
};

}  // namespace termgate::inline v0::sqlite
