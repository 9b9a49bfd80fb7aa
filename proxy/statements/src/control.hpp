// The statements that control the session instead of touching data: transactions and settings.
#pragma once

#include <optional>
#include <string>

#include <termgate/statements/classify.hpp>

#include "tape.hpp"

namespace termgate::statements {

// Reads one such statement from its tape, and fills in what it is. Both are the caller's; it lives
// for that statement, on the Classifier's thread. False: the statement cannot be read, and what is
// filled in is void.
class ControlReader {
 public:
  ControlReader(Tape& tape, Statement& statement) noexcept : tape_(tape), statement_(statement) {}

  bool begin() noexcept;
  bool commit();
  bool rollback();
  bool savepoint();
  bool release();
  bool prepare_transaction();  // from the second word on
  bool set();
  bool reset();
  bool show();
  bool discard();

 private:
  bool modes() noexcept;
  bool chain(Kind kind) noexcept;
  bool gid(Kind kind);
  void about() noexcept;
  std::string setting_name();
  std::optional<std::string> value();
  bool set_to();
  bool reset_or_show(Kind all, Kind one);

  Tape& tape_;
  Statement& statement_;
};

}  // namespace termgate::statements
