// An HTTP service that refuses stale leaders: every PUT carries Termgate-Scope and Termgate-Term
// (README.md).
//
//   http_guard URL PORT [--once-a-term]
#include <cstdio>
#include <cstdlib>
#include <string>

#include <termgate/database.hpp>
#include <termgate/error.hpp>
#include <termgate/operator.hpp>

#include "../support/http.hpp"

using namespace termgate;
using namespace std::chrono_literals;

namespace {

struct UsedTerm {};  // with --once-a-term: this term has already made its one write

// Parses decimal digits only, so that " 5", "5x" and "0x5" are refused.
std::optional<std::int64_t> number(const std::string& text) {
  if (text.empty() || text.size() > 19 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  try {
    return std::stoll(text);
  } catch (const std::out_of_range&) { return std::nullopt; }
}

example::Reply put(Database& db, const example::Request& request, bool once_a_term) {
  const auto term = number(request.header("Termgate-Term"));
  const std::string scope = request.header("Termgate-Scope");
  if (request.header("Termgate-Term").empty() || scope.empty())
    return {428, "TG002 this service takes no write without Termgate-Scope and Termgate-Term"};
  if (!term) return {400, "TG005 Termgate-Term must be a whole number"};
  try {
    // The check and the write are one transaction, so a refused write leaves no trace.
    db.write(Scope(scope), Term(*term), [&](Transaction& tx) {
      if (once_a_term) {
        tx.exec(
            "INSERT INTO used_terms (scope, term) VALUES ($1, 0) ON CONFLICT (scope) DO NOTHING",
            scope);
        if (tx.exec("UPDATE used_terms SET term = $2 WHERE scope = $1 AND term < $2 RETURNING term",
                    scope, *term)
                .empty())
          throw UsedTerm();
      }
      tx.exec(
          "INSERT INTO documents (path, body, term) VALUES ($1, $2, $3) ON CONFLICT (path) DO "
          "UPDATE SET body = excluded.body, term = "
          "excluded.term",
          request.path, request.body, *term);
    });
    return {200, "written under term " + std::to_string(*term)};
  } catch (const UsedTerm&) {
    return {409, "term " + std::to_string(*term) + " of scope \"" + scope +
                     "\" has written already: each term writes once"};
  } catch (const StaleTerm& stale) {
    return {409, stale.what()};
  } catch (const InvalidInput& wrong) { return {400, wrong.what()}; } catch (const Error& busy) {
    return {503, busy.what()};
  }
}

example::Reply get(Database& db, const example::Request& request) {
  const Rows rows = db.query("SELECT body FROM documents WHERE path = $1", {request.path});
  if (rows.empty()) return {404, "no such document"};
  return {200, std::string(rows.one()[0].as_text())};
}

}  // namespace

int main(int argc, char** argv) {
  const bool once_a_term = argc == 4 && std::string(argv[3]) == "--once-a-term";
  if (argc != 3 && !once_a_term) {
    std::fputs("usage: http_guard URL PORT [--once-a-term]\n", stderr);
    return 2;
  }
  try {
    Database db = Database::open(argv[1]);
    Operator(db).install();
    Lease lease = db.acquire_lease(Scope("http-guard/tables"), 10s);
    db.write(lease.scope(), lease.term(), [](Transaction& tx) {
      tx.exec(
          "CREATE TABLE IF NOT EXISTS documents (path text PRIMARY KEY, body text NOT NULL, term "
          "bigint NOT NULL)");
      tx.exec(
          "CREATE TABLE IF NOT EXISTS used_terms (scope text PRIMARY KEY, term bigint NOT NULL)");
    });
    db.release_lease(lease);
    example::serve(
        static_cast<std::uint16_t>(std::atoi(argv[2])),
        [](std::uint16_t port) {
          std::printf("listening on 127.0.0.1:%u\n", port);
          std::fflush(stdout);
        },
        [&](const example::Request& request) -> example::Reply {
          if (request.method == "PUT") return put(db, request, once_a_term);
          if (request.method == "GET") return get(db, request);
          return {405, "PUT or GET"};
        });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "http_guard: %s\n", error.what());
    return 1;
  }
}
