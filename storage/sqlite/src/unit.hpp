// Law::Unit: one call's transaction, savepoint, or place in the caller's statement. Internal to the law.
#pragma once

#include "law.hpp"

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

}  // namespace termgate::inline v0::sqlite
