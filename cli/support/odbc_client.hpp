// A plain ODBC session for bench and storm. It uses the handles of the library's driver but not its
// pool. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <termgate/detail/odbc/connection.hpp>
#include <termgate/detail/odbc/dialect.hpp>
#include <termgate/detail/odbc/errors.hpp>
#include <termgate/detail/odbc/statement_text.hpp>

namespace termgate::cli {

// Throws what the library throws, with the URL's secrets hidden.
class OdbcClient {
 public:
  // `url`: odbc:… or sqlserver://…; gives up after 10 s.
  explicit OdbcClient(const std::string& url)
      : text_(detail::odbc::connection_string_of(url)),
        family_(detail::odbc::family_of(text_.maker)) {
    guarded(detail::odbc::Phase::connect, [&] {
      connection_ = std::make_unique<detail::odbc::Connection>(text_, std::chrono::seconds(10));
      return connection_->run(detail::odbc::dialect_of(family_).on_connect);
    });
  }

  detail::odbc::Family family() const noexcept { return family_; }
  detail::odbc::Maker maker() const noexcept { return text_.maker; }

  // Runs one or more statements in a text of ours, without parameters.
  Rows run(std::string_view text) {
    return guarded(detail::odbc::Phase::before_commit, [&] { return connection_->run(text); });
  }
  // With `keep` the statement stays prepared. `phase` says whether a lost answer leaves the outcome
  // unknown.
  Rows execute(const detail::odbc::Marked& statement, std::span<const Value> values, bool keep,
               detail::odbc::Phase phase = detail::odbc::Phase::before_commit) {
    return guarded(phase, [&] {
      return connection_->execute(statement, values, keep, std::chrono::milliseconds(0));
    });
  }
  bool lost() const { return connection_->broken() || connection_->looks_dead(); }
  // Rolls back an open transaction; gives the connection up if that fails.
  void roll_back() noexcept {
    try {
      connection_->run(detail::odbc::dialect_of(family_).roll_back);
    } catch (...) { connection_->give_up(); }
  }

 private:
  template <class Step>
  Rows guarded(detail::odbc::Phase phase, Step step) {
    try {
      return step();
    } catch (detail::odbc::OdbcError& failure) {
      for (auto& one : failure.diagnostics)
        one.message = detail::odbc::redacted(std::move(one.message), text_.secrets);
      detail::odbc::throw_for(failure, phase, family_);
    }
  }

  const detail::odbc::ConnectionString text_;
  const detail::odbc::Family family_;
  std::unique_ptr<detail::odbc::Connection> connection_;
};

}  // namespace termgate::cli
