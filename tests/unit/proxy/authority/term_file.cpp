// The watched file: what it may hold, that a malformed one is never "no term", that it is seen when
// it is replaced by rename, and that a term never goes down.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <termgate/authority/term_file.hpp>

#include "support/authority_support.hpp"

using namespace termgate;
using namespace termgate::authority;
using termgate::test::ScratchFolder;

TEST_CASE("term file: one line with scope and term", "[proxy][authority]") {
  for (const std::string text : {"scope=billing term=42", "scope=billing term=42\n",
                                 "term=42\tscope=billing\r\n", "  scope=billing   term=42  \n"}) {
    CAPTURE(text);
    const auto read = read_declaration(text);
    CHECK(read.problem.empty());
    REQUIRE(read.scope);
    CHECK(read.scope->name() == "billing");
    CHECK(read.term == Term(42));
  }
  const auto encoded = read_declaration("scope=order%207%25%C3%A9 term=1");
  REQUIRE(encoded.scope);
  CHECK(encoded.scope->name() == "order 7%\xC3\xA9");
}

TEST_CASE("term file: what is malformed says why and declares nothing", "[proxy][authority]") {
  struct Row {
    std::string text;
    const char* wanted;
  };
  const Row rows[] = {{"", "no scope"},
                      {"\n", "no scope"},
                      {"scope=billing", "no term"},
                      {"term=4", "no scope"},
                      {"scope=billing term=", "whole number"},
                      {"scope= term=4", "its scope"},
                      {"scope=billing term=4x", "whole number"},
                      {"scope=billing term=-4", "whole number"},
                      {"scope=billing term=0", "whole number"},
                      {"scope=billing term=99999999999999999999", "whole number"},
                      {"scope=a term=1 scope=b", "two scopes"},
                      {"scope=a term=1 term=1", "two terms"},
                      {"scope=a term=1 colour=red", "nothing else"},
                      {"scope=a term=1 # now", "nothing else"},
                      {"scope=a term=1\nscope=a term=2\n", "more than one line"},
                      {"scope=a%2 term=1", "not URL-encoded"},
                      {"scope=a%zz term=1", "not URL-encoded"},
                      {"scope=a%00 term=1", "its scope"},
                      {"scope=%ff term=1", "its scope"},
                      {std::string("scope=a\0 term=1", 15), "more than one line"}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto read = read_declaration(row.text);
    CHECK_THAT(read.problem, Catch::Contains(row.wanted));
    CHECK_FALSE(read.scope);
    CHECK_FALSE(read.term);
  }
}

TEST_CASE("term file: it is seen when it is replaced and a lower term is refused",
          "[F2][proxy][authority]") {
  const ScratchFolder folder;
  const auto highest = std::make_shared<HighestTerms>();
  TermFile file(folder.at("term"), highest);
  CHECK_FALSE(file.now().term);
  CHECK(std::string(file.now().problem_code) == "TG002");
  CHECK_THAT(file.now().why_not,
             Catch::Contains(folder.at("term")) && Catch::Contains("is not there"));

  folder.put("term", "scope=billing term=5\n");
  file.look();
  CHECK(file.now().scope == Scope("billing"));
  CHECK(file.now().term == Term(5));
  folder.put("term", "scope=billing term=7\n");
  file.look();
  CHECK(file.now().term == Term(7));

  folder.put("term", "scope=billing term=6\n");
  file.look();
  CHECK_FALSE(file.now().term);
  CHECK(std::string(file.now().problem_code) == "TG001");
  CHECK_THAT(file.now().why_not,
             Catch::StartsWith("stale term 6 for scope \"billing\"") && Catch::Contains("7"));

  // Another scope's may be lower, and through another file of the same process it may not.
  folder.put("term", "scope=orders term=1\n");
  file.look();
  CHECK(file.now().term == Term(1));
  const ScratchFolder second;
  second.put("term", "scope=billing term=6");
  CHECK(std::string(TermFile(second.at("term"), highest).now().problem_code) == "TG001");

  // What another file has shown since counts at once, without a look.
  const ScratchFolder third;
  third.put("term", "scope=billing term=7");
  const TermFile behind(third.at("term"), highest);
  CHECK(behind.now().term == Term(7));
  second.put("term", "scope=billing term=8");
  CHECK(TermFile(second.at("term"), highest).now().term == Term(8));
  CHECK_FALSE(behind.now().term);
  CHECK(std::string(behind.now().problem_code) == "TG001");
  folder.put("term", "scope=billing");
  file.look();
  CHECK_FALSE(file.now().term);
  CHECK(std::string(file.now().problem_code) == "TG005");
  std::filesystem::remove(folder.at("term"));
  file.look();
  CHECK(std::string(file.now().problem_code) == "TG002");
  folder.put("term", "scope=billing term=8\n");
  file.look();
  CHECK(file.now().term == Term(8));
}

TEST_CASE("term file: what cannot be read is no missing file", "[proxy][authority]") {
  const ScratchFolder folder;
  TermFile directory(folder.at("."), std::make_shared<HighestTerms>());
  CHECK(std::string(directory.now().problem_code) == "TG005");
  folder.put("term", "scope=a term=1" + std::string(TermFile::bytes_max, ' '));
  TermFile large(folder.at("term"), std::make_shared<HighestTerms>());
  CHECK(std::string(large.now().problem_code) == "TG005");
  CHECK_THAT(large.now().why_not, Catch::Contains("more than"));
  // The folder above it is swapped, as a ConfigMap does it.
  std::filesystem::create_directory(folder.at("one"));
  std::filesystem::create_directory(folder.at("two"));
  std::ofstream(folder.at("one/t")) << "scope=a term=1";
  std::ofstream(folder.at("two/t")) << "scope=a term=2";
  std::filesystem::create_directory_symlink("one", folder.at("data"));
  TermFile linked(folder.at("data/t"), std::make_shared<HighestTerms>());
  CHECK(linked.now().term == Term(1));
  std::filesystem::create_directory_symlink("two", folder.at("data.new"));
  std::filesystem::rename(folder.at("data.new"), folder.at("data"));
  linked.look();
  CHECK(linked.now().term == Term(2));
}
