// file://: a term from a file that an elector writes.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <termgate/error.hpp>
#include <termgate/sources.hpp>

using namespace termgate;
using namespace std::chrono_literals;

TEST_CASE("source file: leads while the file shows the term and never under a lower one",
          "[F2][sources]") {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("termgate file " + std::to_string(getpid()));
  const auto write = [&](const std::string& text) {
    std::ofstream(path.string() + ".new") << text;
    std::filesystem::rename(path.string() + ".new", path);
  };
  std::string encoded = path.string();
  encoded.replace(encoded.find(' '), 1, "%20");
  encoded.replace(encoded.find(' '), 1, "%20");
  const auto source = open_lease_source("file://" + encoded);
  CHECK_FALSE(source->new_term_each_time());
  const Scope scope("billing");
  CHECK_FALSE(source->try_acquire(scope, "me", 10s));
  write("scope=billing term=5\n");
  const auto lease = source->try_acquire(scope, "me", 10s);
  REQUIRE(lease);
  CHECK(lease->term == Term(5));
  CHECK(source->renew(scope, *lease, "me", 10s));
  CHECK_FALSE(source->try_acquire(Scope("orders"), "me", 10s));
  // The same term again: the program was started again on the machine that leads.
  CHECK(source->try_acquire(scope, "me", 10s)->term == Term(5));
  write("scope=billing term=7");
  CHECK_FALSE(source->renew(scope, *lease, "me", 10s));
  CHECK_FALSE(source->release(scope, *lease, "me"));
  CHECK(source->try_acquire(scope, "me", 10s)->term == Term(7));
  write("scope=billing term=6");
  CHECK_THROWS_AS(source->try_acquire(scope, "me", 10s), StaleTerm);
  for (const char* text : {"", "x", "scope=billing", "term=8", "scope=billing term=0",
                           "scope=billing term=9\nscope=billing term=9"}) {
    CAPTURE(text);
    write(text);
    CHECK_THROWS_AS(source->try_acquire(scope, "me", 10s), DatabaseError);
  }
  write(std::string(5000, ' ') + "scope=billing term=9");
  CHECK_THROWS_AS(source->try_acquire(scope, "me", 10s), DatabaseError);
  std::filesystem::remove(path);
  CHECK_FALSE(source->try_acquire(scope, "me", 10s));
  std::filesystem::create_directory(path);
  CHECK_THROWS_AS(source->try_acquire(scope, "me", 10s), Unavailable);
  std::filesystem::remove(path);
}
