// What a call throws, for tests that read the message.
#pragma once

#include <catch2/catch.hpp>

#include <exception>
#include <string>

namespace termgate::test {

// The message of the `Wanted` that `call` throws; another error or none fails the test and is an
// empty text.
template <class Wanted, class Call>
std::string thrown(Call call) {
  try {
    call();
  } catch (const Wanted& error) { return error.what(); } catch (const std::exception& error) {
    FAIL_CHECK("another error: " << error.what());
    return {};
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

}  // namespace termgate::test
