// The errors of a fenced write. The type tells the caller what it may do next
// (docs/reference/errors.md).
//
// A write ends in one of three ways: committed, surely not committed, or unknown. Only
// OutcomeUnknown means the third; every other type here means that nothing of the write is in the
// database. Messages that come from the database's own functions start with their code (TG001 …
// TG007); the codes are listed in docs/contract.md, section 4. Values; copy them as you like.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <termgate/export.hpp>

namespace termgate {
inline namespace v0 {

// Base of all errors thrown by Termgate. code() is "TG001" … "TG007", the database's own code
// (an SQLSTATE, an SQLite result code), or empty.
class TERMGATE_EXPORT Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, std::string code = {})
      : std::runtime_error(message), code_(std::move(code)) {}
  ~Error() override;
  std::string_view code() const noexcept { return code_; }

 private:
  std::string code_;
};

// TG001: the term is lower than its scope's fence. Surely not written; never retry it with this
// term.
class TERMGATE_EXPORT StaleTerm : public Error {
 public:
  StaleTerm(const std::string& message, std::string scope, std::int64_t term, std::int64_t fence)
      : Error(message, "TG001"), scope_(std::move(scope)), term_(term), fence_(fence) {}
  ~StaleTerm() override;
  const std::string& scope() const noexcept { return scope_; }
  std::int64_t term() const noexcept {
    return term_;
  }  // the refused term; 0 if the database did not report it
  std::int64_t fence() const noexcept {
    return fence_;
  }  // the fence that refused it; 0 if the database did not report it

 private:
  std::string scope_;
  std::int64_t term_;
  std::int64_t fence_;
};

// TG002: a fenced write without a declared term.
class TERMGATE_EXPORT TermRequired : public Error {
 public:
  explicit TermRequired(const std::string& message) : Error(message, "TG002") {}
  ~TermRequired() override;
};

// TG003: the expected sequence number is not the stream's last one.
class TERMGATE_EXPORT SequenceConflict : public Error {
 public:
  explicit SequenceConflict(const std::string& message) : Error(message, "TG003") {}
  ~SequenceConflict() override;
};

// TG004: the database was restored or promoted and may have forgotten raises (F3).
class TERMGATE_EXPORT FenceUntrusted : public Error {
 public:
  explicit FenceUntrusted(const std::string& message) : Error(message, "TG004") {}
  ~FenceUntrusted() override;
};

// TG005: something that the caller gave is not valid, such as a malformed scope, term, declaration,
// option or URL; a term that was never issued; a stream that belongs to another scope.
class TERMGATE_EXPORT InvalidInput : public Error {
 public:
  explicit InvalidInput(const std::string& message) : Error(message, "TG005") {}
  ~InvalidInput() override;
};

// TG006: waited in vain for a lock, a lease or a free connection. The message says what blocks.
// Trying again is safe.
class TERMGATE_EXPORT Blocked : public Error {
 public:
  explicit Blocked(const std::string& message) : Error(message, "TG006") {}
  ~Blocked() override;
};

// Rolled back by a conflict with another transaction (40001, a deadlock, a stale SQLite snapshot):
// run the whole transaction again, with the same term.
class TERMGATE_EXPORT Conflict : public Error {
 public:
  using Error::Error;
  ~Conflict() override;
};

// The owner no longer holds the lease: it expired, was released, or was taken over. Stop leading.
// code() is "TG007" where a transaction required the lease (require_lease), else empty.
class TERMGATE_EXPORT LeaseLost : public Error {
 public:
  using Error::Error;
  ~LeaseLost() override;
};

// A wait was ended by the caller's own std::stop_token. Nothing is held.
class TERMGATE_EXPORT Cancelled : public Error {
 public:
  using Error::Error;
  ~Cancelled() override;
};

// The database was not reached, or went away before COMMIT was sent: nothing was written.
class TERMGATE_EXPORT Unavailable : public Error {
 public:
  using Error::Error;
  ~Unavailable() override;
};

// COMMIT, or a statement that commits by itself, was sent, and no answer shows its outcome. The
// library never repeats such a write. With a write id the same call again settles it (F5).
class TERMGATE_EXPORT OutcomeUnknown : public Error {
 public:
  using Error::Error;
  ~OutcomeUnknown() override;
};

// Any other refusal of the database, with its own code: nothing was written. Value and Rows throw
// it too, without a code, for a result of another form than expected; that says nothing of a write.
class TERMGATE_EXPORT DatabaseError : public Error {
 public:
  using Error::Error;
  ~DatabaseError() override;
};

}  // namespace v0
}  // namespace termgate
