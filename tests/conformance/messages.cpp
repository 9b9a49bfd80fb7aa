// What each refusal says, on every backend the same to the letter: a program may show it, and an
// operator searches for it. A hint names the backend's own functions, so it comes after "; hint: "
// and is not compared.
#include <catch2/catch.hpp>

#include <functional>
#include <string>

#include <fmt/format.h>

#include <termgate/database.hpp>
#include <termgate/operator.hpp>

#include "backend.hpp"

using namespace termgate;
using namespace std::chrono_literals;
using conformance::shared;
using conformance::unique;

namespace {

std::string said(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find("; hint: "));
  }
  return "nothing was refused";
}

}  // namespace

TEST_CASE("messages: a refusal says the same on every database", "[conformance]") {
  auto& db = shared();
  const Scope scope(unique("said")), led(unique("said")), sealed(unique("said"));
  const Stream stream(unique("said"));
  const std::string id = WriteId::random().text();
  db.seal(scope, Term(5));
  db.append(stream, Term(5), "one", {.scope = scope});
  db.append(stream, Term(5), "two", {.scope = scope, .write_id = WriteId(id)});
  const std::int64_t issued = db.acquire_lease(led, 24h, {.owner = "a"}).term().value();
  db.seal(sealed, Term(5));
  Operator(db).set_raise_by(sealed, "seal");
  struct Row {
    const char* name;
    std::function<void()> call;
    std::string text;
  };
  const Row rows[] = {
      {"stale", [&] { db.check(scope, Term(4)); },
       fmt::format("TG001 stale term 4 for scope \"{}\": the fence stands at 5", scope.name())},
      {"another number",
       [&] { db.append(stream, Term(5), "x", {.expected = SequenceNo(7), .scope = scope}); },
       fmt::format("TG003 stream \"{}\" stands at 2, not at the expected 7", stream.name())},
      {"another scope", [&] { db.append(stream, Term(issued), "x", {.scope = led}); },
       fmt::format("TG005 stream \"{}\" belongs to scope \"{}\", not \"{}\"", stream.name(),
                   scope.name(), led.name())},
      {"never issued", [&] { db.check(led, Term(issued + 7)); },
       fmt::format("TG005 term {} was never issued for scope \"{}\": its leases stand at {}",
                   issued + 7, led.name(), issued)},
      {"only a seal", [&] { db.check(sealed, Term(9)); },
       fmt::format(
           "TG005 term 9 is above the fence of scope \"{}\" (5), which only a seal may raise",
           sealed.name())},
      {"a short TTL", [&] { db.try_acquire_lease(led, 99ms); },
       "TG005 the TTL must be from 100 ms to 1 day, not 99 ms"},
      {"a long TTL", [&] { db.try_acquire_lease(led, 24h + 1ms); },
       "TG005 the TTL must be from 100 ms to 1 day, not 86400001 ms"},
      {"a reset upwards", [&] { Operator(db).reset_fence(scope, Term(9), "ops", "upwards"); },
       fmt::format(
           "TG005 the fence of scope \"{}\" stands at 5: a reset lowers it, a seal raises it",
           scope.name())},
      {"a write id of another stream",
       [&] {
         db.append(Stream(unique("said")), Term(5), "x", {.scope = scope, .write_id = WriteId(id)});
       },
       fmt::format("TG005 write id {} was used for stream \"{}\" before", id, stream.name())},
      {"a write id twice",
       [&] {
         db.append_many(stream, Term(5), {"x", "y"}, {.scope = scope}, {WriteId(id), WriteId(id)});
       },
       "TG005 a write id stands twice in the batch"},
      {"no stream", [&] { Operator(db).move_stream(Stream("said-never"), scope, "ops", "test"); },
       "TG005 there is no stream \"said-never\""},
      {"young history", [&] { Operator(db).prune_history(59min); },
       "TG005 prune_history needs an age of 1 hour or more, not 3540000 ms"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const std::string text = said(row.call);
    // SQL Server's THROW takes a literal there: what is left out is the number at its end.
    if (conformance::is_sqlserver()) CHECK(row.text.substr(0, text.size()) == text);
    else CHECK(text == row.text);
  }
}
