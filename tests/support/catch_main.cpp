// The main of all test executables. TERMGATE_TEST_NEEDS names environment variables without which
// the executable has nothing to test against: it then exits 77, which CTest shows as Skipped. Tests
// with the tag [long] run where TERMGATE_TEST_LONG is set (./test --long), and where the command
// line names tests.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

int main(int argc, char** argv) {
  if (const char* needs = std::getenv("TERMGATE_TEST_NEEDS")) {
    std::istringstream names(needs);
    for (std::string name; names >> name;) {
      if (std::getenv(name.c_str()) == nullptr) {
        std::printf("skipped: %s is not set\n", name.c_str());
        return 77;
      }
    }
  }
  const char* const short_run[] = {
      argv[0], "~[long]~[.]"};  // an exclusion alone would bring the hidden ones
  if (argc == 1 && std::getenv("TERMGATE_TEST_LONG") == nullptr)
    return Catch::Session().run(2, short_run);
  return Catch::Session().run(argc, argv);
}
