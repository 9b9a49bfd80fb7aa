// The file of bearer tokens.
#include <termgate/http/tokens.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <catch2/catch.hpp>

using namespace termgate::http;

namespace {

const std::string good(20, 'a'), other(200, 'b');

TEST_CASE("http tokens: a line each of name level and token", "[http]") {
  const Tokens tokens =
      Tokens::from_text("# who\n\nann read " + good + "\n  bob   operate\t" + other + "\n", "t");
  CHECK(tokens.caller("Bearer " + good)->name == "ann");
  CHECK(tokens.caller("bEARER " + good)->level == Level::read);
  CHECK(tokens.caller_of_token(other)->level == Level::operate);
  for (const std::string& wrong :
       {std::string(), std::string("Bearer "), "Bearer  " + good, "Basic " + good, good,
        "Bearer " + good + "a", "Bearer " + good.substr(1), "Bearer " + good + " ",
        "Bearer " + std::string(100'000, 'a')})
    CHECK_FALSE(tokens.caller(wrong));
}

TEST_CASE("http tokens: each level may do what the one before may", "[http]") {
  CHECK(Level::read < Level::write);
  CHECK(Level::write < Level::lead);
  CHECK(Level::lead < Level::operate);
  CHECK(Tokens::from_text("w write " + good, "t").caller_of_token(good)->level == Level::write);
}

TEST_CASE("http tokens: a hash stands for its token and is none itself", "[http]") {
  const std::string hash =
      "42492da06234ad0ac76f5d5debdb6d1ae027cffbe746a1c13b89bb8bc0139137";  // of 20 times a
  const Tokens tokens = Tokens::from_text("ann write sha256:" + hash, "t");
  CHECK(tokens.caller("Bearer " + good)->name == "ann");
  CHECK_FALSE(tokens.caller("Bearer " + hash));
  CHECK_FALSE(tokens.caller("Bearer sha256:" + hash));
  CHECK_THROWS_AS(Tokens::from_text("ann write " + good + "\nbob write sha256:" + hash, "t"),
                  BadTokens);
}

TEST_CASE("http tokens: a file that is not right is refused with its line", "[http]") {
  const char* rows[] = {
      "ann",
      "ann read",
      "ann chief aaaaaaaaaaaaaaaaaaaa",
      "ann read aaaaaaaaaaaaaaaaaaaa more",
      "ann read short",
      "ann read aaaaaaaaaaaaaaaaaaa,",
      "\xff\xfe read aaaaaaaaaaaaaaaaaaaa",
      "ann read sha256:abcd",
      "ann read sha256:zz492da06234ad0ac76f5d5debdb6d1ae027cffbe746a1c13b89bb8bc0139137"};
  for (const char* row : rows) {
    INFO(row);
    try {
      Tokens::from_text("# first\n" + std::string(row), "file");
      FAIL("it was taken");
    } catch (const BadTokens& wrong) {
      CHECK(std::string(wrong.what()).find("file, line 2: ") != std::string::npos);
    }
  }
  CHECK_THROWS_AS(Tokens::from_text("ann read " + good + "\nbob lead " + good, "t"), BadTokens);
  CHECK_THROWS_AS(Tokens::from_text("# nobody\n", "t"), BadTokens);
}

TEST_CASE("http tokens: a file that others may use is refused", "[http]") {
  char path[] = "/tmp/termgate_tokens_XXXXXX";
  const int descriptor = mkstemp(path);
  REQUIRE(descriptor >= 0);
  close(descriptor);
  std::ofstream(path) << "ann read " << good << "\n";
  CHECK(Tokens::from_file(path).caller_of_token(good));
  for (const mode_t mode : {0640u, 0604u, 0610u}) {
    chmod(path, mode);
    CHECK_THROWS_AS(Tokens::from_file(path), BadTokens);
  }
  unlink(path);
  CHECK_THROWS_AS(Tokens::from_file(path), BadTokens);
}

}  // namespace
