// What a storm's processes write down is what the checker is given: whole lines only, and what was
// never answered stays open.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <termgate/error.hpp>

#include "cli/storm/log.hpp"

using namespace termgate::cli::storm;

namespace {

struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / "termgate-storm-log-XXXXXX").string()) {
    REQUIRE(mkdtemp(path.data()) != nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace

TEST_CASE("storm log: a history comes back as it was written, by several processes", "[F5][cli]") {
  const Folder folder;
  History history;
  history.add(folder.path + "/a", "a");
  history.add(folder.path + "/b", "b");
  history.read_on();  // neither has come so far
  CHECK(history.operations().empty());
  Log a(folder.path + "/a"), b(folder.path + "/b");
  const auto acquired = a.begin('a', "s");
  a.end(acquired, Outcome::committed, 7);
  const auto anothers = b.begin('a', "s");
  b.end(anothers, Outcome::refused, 0);
  const auto write = a.begin('w', "s", 7, "a.1", 3);
  const auto look = a.begin('l', "s");
  history.read_on();
  REQUIRE(history.operations().size() == 4);
  a.end(look, Outcome::committed, 7);
  a.end(write, Outcome::committed, 7, 12);
  const auto stale = b.begin('w', "s", 6, "b.1", 1);
  b.end(stale, Outcome::refused, 6, {}, "TG001");
  b.begin('w', "s", 6, "b.2", 1);  // killed
  history.read_on();
  history.read_on();
  const auto& all = history.operations();
  REQUIRE(all.size() == 6);
  const auto with = [&](const std::string& client, const std::string& id, Operation::Kind kind) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].client == client && all[i].id == id && all[i].kind == kind) return i;
    }
    FAIL("no such operation");
    return all.size();
  };
  const Operation& raise = all[with("a", "", Operation::Kind::raise)];
  CHECK((raise.acquisition && raise.term == 7 && raise.outcome == Outcome::committed &&
         raise.answered >= raise.invoked));
  CHECK(history.answers()[with("b", "", Operation::Kind::raise)].acquired_nothing);
  const Operation& written = all[with("a", "a.1", Operation::Kind::write)];
  CHECK((written.rows == 3 && written.place == 12 && written.outcome == Outcome::committed &&
         written.scope == "s"));
  CHECK(all[with("a", "", Operation::Kind::look)].term == 7);
  const std::size_t refused = with("b", "b.1", Operation::Kind::write);
  CHECK((all[refused].outcome == Outcome::refused && history.answers()[refused].code == "TG001"));
  const Operation& open = all[with("b", "b.2", Operation::Kind::write)];
  CHECK((open.outcome == Outcome::unknown && open.answered == Moment::max() && !open.place));
}

TEST_CASE("storm log: a last line that is cut short has not been written yet", "[F5][cli]") {
  const Folder folder;
  const std::string path = folder.path + "/a";
  History history;
  history.add(path, "a");
  const std::string whole = "B 1 100 w s 3 a.1 1\nE 1 200 c 3 9 -\n";
  // Split at every byte: what has arrived in full counts, and the rest is read with what follows.
  for (std::size_t at = 0; at <= whole.size(); ++at) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, at);
    History split;
    split.add(path, "a");
    split.read_on();
    CHECK(split.operations().size() == (at >= 20 ? 1U : 0U));
    if (at >= 20)
      CHECK(split.operations()[0].outcome ==
            (at == whole.size() ? Outcome::committed : Outcome::unknown));
    std::ofstream(path, std::ios::app) << whole.substr(at);
    split.read_on();
    REQUIRE(split.operations().size() == 1);
    CHECK(split.operations()[0].outcome == Outcome::committed);
    CHECK(split.operations()[0].place == 9);
    CHECK(split.operations()[0].answered == Moment(200));
  }
}

TEST_CASE("storm log: what no storm writes is an error and not passed over", "[cli]") {
  const Folder folder;
  for (const char* line : {"B 1 100 w s 3 a.1", "E 5 100 c 3 - -", "X 1 2 3",
                           "B one 100 w s 3 a.1 1", "", "B 1 100 w s 3x a.1 1"}) {
    INFO(line);
    const std::string path = folder.path + "/a";
    std::ofstream(path, std::ios::trunc) << line << "\n";
    History history;
    history.add(path, "a");
    CHECK_THROWS_AS(history.read_on(), termgate::Error);
  }
  CHECK_THROWS_AS(Log(folder.path + "/none/a"), termgate::Error);
  Log full("/dev/full");
  CHECK_THROWS_AS(full.begin('w', "s", 1, "a.1", 1), termgate::Error);
}
