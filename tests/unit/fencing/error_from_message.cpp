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
    CHECK(std::string(stale.what()) == "TG001 stale term 3 for scope \"bill\"ing\": the fence stands at 5");
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

TEST_CASE("error from message: what is not ours is left alone", "[fencing]") {
  CHECK_NOTHROW(throw_if_tg(""));
  CHECK_NOTHROW(throw_if_tg("duplicate key value violates unique constraint"));
  CHECK_NOTHROW(throw_if_tg("TG008 no such code"));
  CHECK_NOTHROW(throw_if_tg("TG001"));
  CHECK_NOTHROW(throw_if_tg("the user's text says TG001 stale term 3"));
}
