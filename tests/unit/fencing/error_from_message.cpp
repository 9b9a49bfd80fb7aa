// The codes of the contract's section 4, read out of a database's message.
#include <catch2/catch.hpp>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

using namespace termgate;
using detail::throw_if_tg;

TEST_CASE("error from message: a stale term carries scope and term and fence", "[fencing]") {
  try {
    throw_if_tg("ERROR:  TG001 stale term 3 for scope \"bill\"ing\": the fence stands at 5\n");
    FAIL("nothing was thrown");
  } catch (const StaleTerm& stale) {
    CHECK(stale.scope() == "bill\"ing");
    CHECK(stale.term() == 3);
    CHECK(stale.fence() == 5);
    CHECK(stale.code() == "TG001");
    CHECK(std::string(stale.what()) ==
          "TG001 stale term 3 for scope \"bill\"ing\": the fence stands at 5");
  }
}

TEST_CASE("error from message: every code has its type", "[fencing]") {
  CHECK_THROWS_AS(throw_if_tg("TG001 something else"), StaleTerm);
  CHECK_THROWS_AS(throw_if_tg("TG002 no term"), TermRequired);
  CHECK_THROWS_AS(throw_if_tg("TG003 expected 4"), SequenceConflict);
  CHECK_THROWS_AS(throw_if_tg("TG004 untrusted"), FenceUntrusted);
  CHECK_THROWS_AS(throw_if_tg("TG005 malformed"), InvalidInput);
  CHECK_THROWS_AS(throw_if_tg("TG006 blocked"), Blocked);
  CHECK_THROWS_AS(throw_if_tg("TG007 the lease has ended"), LeaseLost);
}

// Each code that throw_if_tg() knows has a number, and no other has: a new code cannot be left out
// of one of them.
TEST_CASE("error from message: codes and SQL Server's numbers are the same", "[fencing]") {
  for (int number = 49990; number < 50100; ++number) {
    CAPTURE(number);
    const std::string code = detail::tg_code_of(number);
    const std::string text = "TG00" + std::to_string(number - 50000) + " words";
    if (code.empty()) {
      CHECK_NOTHROW(throw_if_tg(text));
    } else {
      CHECK_THROWS_AS(throw_if_tg(text), Error);
      CHECK(detail::number_of_tg(code) == static_cast<std::uint32_t>(number));
    }
  }
  CHECK(detail::number_of_tg("TG008") == 0);
  CHECK(detail::number_of_tg("TG0010") == 0);
  CHECK(detail::number_of_tg("50001") == 0);
  CHECK(detail::tg_code_of((std::int64_t{1} << 32) + 50001).empty());
}

TEST_CASE("error from message: what is not ours is left alone", "[fencing]") {
  CHECK_NOTHROW(throw_if_tg(""));
  CHECK_NOTHROW(throw_if_tg("duplicate key value violates unique constraint"));
  CHECK_NOTHROW(throw_if_tg("TG008 no such code"));
  CHECK_NOTHROW(throw_if_tg("TG001"));
  CHECK_NOTHROW(throw_if_tg("the user's text says TG001 stale term 3"));
}
