// Calls of Termgate's functions, and through them what the proxy's session sends before and around a client's statements: they go
// to layer 1 of storage/sqlite in the transaction that is open.
#include <algorithm>
#include <charconv>

#include <termgate/error.hpp>

#include "session/session.hpp"

namespace termgate::sqlite_server {
namespace {

std::optional<std::string> text_or_null(const Stored& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
  if (const auto* blob = std::get_if<Blob>(&value)) return blob->bytes;
  return std::nullopt;
}

std::int64_t number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size())
    throw PgException("22P02", "invalid input syntax for type bigint: \"" + text + "\"");
  return value;
}

}  // namespace

std::vector<std::optional<std::string>> Session::arguments_of(const Portal& portal, const OwnCall& call) const {
  std::vector<std::optional<std::string>> result;
  for (const OwnCall::Argument& each : call.arguments) {
    if (each.parameter == 0) {
      result.push_back(each.text);
    } else {
      const auto at = static_cast<std::size_t>(each.parameter) - 1;
      if (at >= portal.values.size()) throw PgException("42P02", "there is no parameter $" + std::to_string(each.parameter));
      result.push_back(text_or_null(portal.values[at]));
    }
  }
  return result;
}

// What a wait for the baton would be for; nothing where it is not known yet.
Want Session::want_of(const Portal& portal) const {
  if (portal.plan == nullptr || !portal.plan->own) return {};
  const OwnCall& call = *portal.plan->own;
  if (call.name != "check_term" && call.name != "check_claim" && call.name != "check_claim_text" && call.name != "check_again" &&
      call.name != "check_session" && call.name != "hold_session" && call.name != "hold_claim" && call.name != "seal")
    return {};
  try {
    auto given = arguments_of(portal, call);
    given.resize(2);
    const auto [scope, term] = declared(given[0], given[1]);
    return {scope, term};
  } catch (const std::exception&) { return {}; }
}

// As _need_declared() on PostgreSQL; each half by itself.
std::pair<std::string, std::int64_t> Session::declared(const std::optional<std::string>& scope_given,
                                                       const std::optional<std::string>& term_given) const {
  std::string scope = scope_given.value_or("");
  std::string term = term_given.value_or("");
  if (!scope_given) scope = settings_.get("termgate.scope").value_or("");
  if (!term_given) {
    term = settings_.get("termgate.term").value_or("");
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(term.data(), term.data() + term.size(), value);
    // A malformed one never means "no term".
    if (!term.empty() && (failure != std::errc() || end != term.data() + term.size() || value < 1))
      throw PgException("TG005", "TG005 malformed termgate.term \"" + term + "\": a term is an integer from 1 to 2^62");
  }
  return {scope, term.empty() ? 0 : number_of(term)};
}

void Session::need_declared(const std::string& scope, std::int64_t term) {
  if (!scope.empty() && term != 0) return;
  PgError fault{"TG002", term != 0        ? "TG002 no scope declared for term " + std::to_string(term) + ": a write needs both"
                         : !scope.empty() ? "TG002 no term declared for scope \"" + scope + "\": a write needs both"
                                          : "TG002 no term declared: a write needs a scope and a term"};
  fault.hint =
      "Declare both: SET LOCAL termgate.scope = '…'; SET LOCAL termgate.term = '…' in the transaction; or PGOPTIONS '-c termgate.scope=… "
      "-c termgate.term=…'; "
      "or application_name 'termgate.scope=…;termgate.term=…;'; or the comment /*termgate.scope='…',termgate.term='…'*/ at the statement.";
  throw PgException(fault);
}

std::int64_t Session::check(const std::string& scope, std::int64_t term) {
  const Scope named(scope);
  const Term of(term);
  const std::int64_t remembered = engine_.memory().highest(scope);
  const std::int64_t fence = tx_.connection->sqlite().layer1().check_term(named, of);
  if (fence < remembered) {
    // An older copy of the file, unless an audited reset took the fence down.
    SqlConnection::Text text = tx_.connection->prepare("SELECT 1 FROM termgate_fences WHERE scope = ?1 AND reset_from >= ?2");
    sqlite3_bind_text64(text.get(), 1, scope.data(), scope.size(), SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(text.get(), 2, remembered);
    if (text.step() != SQLITE_ROW) {
      throw PgException("TG004", "TG004 fence untrusted for scope \"" + scope + "\": the file shows " + std::to_string(fence) +
                                     ", this server has seen " + std::to_string(remembered) +
                                     "; was an older copy of the file put back? Then: termgate fence declare-restored --scope … --above …");
    }
    engine_.memory().forget(scope);
  }
  engine_.passed(scope, term);
  tx_.checks.push_back({scope, term});
  return fence;
}

// What the newest snapshot shows, without the lock: fit for a refusal and for nothing else.
std::optional<std::int64_t> Session::look_at_fence(const std::string& scope) {
  SqlConnection::Text text = sql_connection().prepare("SELECT term FROM termgate_fences WHERE scope = ?1");
  sqlite3_bind_text64(text.get(), 1, scope.data(), scope.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (text.step() != SQLITE_ROW) return std::nullopt;
  return sqlite3_column_int64(text.get(), 0);
}

// A transaction that has not written yet takes the file's only write lock at its first write, not at its check: the check is made then,
// under the lock. One that would raise, or that is refused, is made now.
std::int64_t Session::check_or_defer(const std::string& scope, std::int64_t term) {
  // In a block only the file counts: a reader with an old snapshot, whose term has become stale, holds up nobody and may read on.
  if (!tx_.writer && look_at_fence(scope) == term && (status_ == Status::block || engine_.memory().highest(scope) <= term)) {
    const bool known =
        std::any_of(tx_.passes.begin(), tx_.passes.end(), [&](const Want& each) { return each.scope == scope && each.term == term; });
    if (!known) tx_.passes.push_back({scope, term});
    return term;
  }
  become_writer({scope, term});
  return check(scope, term);
}

void Session::run_own(Portal& portal, const OwnCall& call) {
  auto given = arguments_of(portal, call);
  const auto takes = [&](std::size_t least, std::size_t most) {
    if (given.size() < least || given.size() > most)
      throw PgException("42883", "function termgate." + call.name + " does not exist with " + std::to_string(given.size()) + " arguments");
    given.resize(most);
  };
  const auto may_write = [&] {
    if (tx_.read_only) throw PgException("25006", "cannot execute termgate." + call.name + "() in a read-only transaction");
    tx_.queried = true;
  };
  know_columns(portal, false);
  std::deque<std::vector<Stored>> rows;
  if (call.name == "check_term") {
    takes(2, 2);
    if (!given[0] || !given[1]) throw PgException("TG005", "TG005 a scope and a term are needed, neither may be NULL");
    const std::int64_t term = number_of(*given[1]);
    may_write();
    rows.push_back({check_or_defer(*given[0], term)});
  } else if (call.name == "check_again") {
    // As on PostgreSQL: no fence in the answer where the session declares no claim.
    takes(0, 0);
    const auto [scope, term] = declared(std::nullopt, std::nullopt);
    if (scope.empty() || term == 0) {
      rows.push_back({scope.empty() ? Stored() : Stored(scope), term == 0 ? Stored() : Stored(term), Stored()});
    } else {
      need_declared(scope, term);
      may_write();
      rows.push_back({scope, term, check_or_defer(scope, term)});
    }
  } else if (call.name == "check_claim" || call.name == "check_claim_text" || call.name == "check_session" || call.name == "hold_session" ||
             call.name == "hold_claim") {
    const bool holds = call.name.starts_with("hold_"), in_one = call.name == "check_claim_text",
               either = in_one || call.name.ends_with("_claim");
    takes(!either ? 0 : holds ? 5 : 4, !either ? 2 : holds ? 5 : 4);
    auto [scope, term] = declared(given[0], given[1]);
    if (either && scope.empty() && term == 0 && given[2] && given[3]) {
      scope = *given[2];
      term = number_of(*given[3]);
    }
    const bool required = call.name != "hold_claim" || (given[4] != "f" && given[4] != "0") || given[0] || given[1];
    if (!required && (scope.empty() || term == 0)) {
      rows.push_back({Stored(), Stored(), Stored()});
    } else {
      need_declared(scope, term);
      if (holds && held_) throw PgException("TG005", "TG005 this session already holds the lock of a scope: release_session() first");
      may_write();
      const std::int64_t fence = check_or_defer(scope, term);
      if (in_one) rows.push_back({std::to_string(term) + ' ' + std::to_string(fence) + ' ' + scope});
      else rows.push_back({scope, term, fence});
      // No lock of SQLite's outlasts a transaction: whatever this session writes until release_session() passes the check again.
      if (holds) held_ = Want{scope, term};
    }
  } else if (call.name == "release_session") {
    takes(0, 1);
    rows.push_back({static_cast<std::int64_t>(held_.has_value() ? 1 : 0)});
    held_.reset();
    portal.done = true;
  } else if (call.name == "seal") {
    takes(2, 3);
    if (!given[0] || !given[1]) throw PgException("TG005", "TG005 a scope and a term are needed, neither may be NULL");
    const std::int64_t term = number_of(*given[1]);
    may_write();
    become_writer({*given[0], term});
    tx_.wrote = true;
    const auto receipt = tx_.connection->sqlite().layer1().seal(Scope(*given[0]), Term(term));
    engine_.passed(*given[0], term);
    tx_.checks.push_back({*given[0], term});
    const auto seconds = static_cast<time_t>(receipt.sealed_at / 1000);
    tm parts{};
    gmtime_r(&seconds, &parts);
    char moment[32];
    const std::size_t size = std::strftime(moment, sizeof moment, "%Y-%m-%d %H:%M:%S+00", &parts);
    rows.push_back({receipt.fence, receipt.previous, receipt.evicted, std::string(moment, size)});
  } else if (call.name == "fence") {
    takes(1, 1);
    if (const auto fence = look_at_fence(given[0].value_or(""))) rows.push_back({*fence});
  } else {
    throw PgException("42883",
                      "function termgate." + call.name + " does not exist here; SQLite's own of Termgate are named termgate_" + call.name);
  }
  make(portal, portal.columns, std::move(rows));
}

}  // namespace termgate::sqlite_server
