// A script of requests, clocks and batons, a line each:
//
//   0 1 body     endpoint 0 (in the order of Endpoint), slot 1; each @ of the body is the slot's baton
//   + 5000       the clock goes on by so many milliseconds, and silence is looked for
//   ! 3          a transaction is lost in its third call from here
//   w message    a WebSocket message; its jobs are run
//
// Whatever the script: a lost stream never answers with 200, every answer can be read, nothing is
// left in use.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <boost/json.hpp>

#include "hrana/endpoints.hpp"
#include "hrana/socket.hpp"
#include "unit/sqlite_server/hrana/fake_file.hpp"

using namespace termgate::hrana;

namespace {

void must(bool holds) {
  if (!holds) std::abort();
}

struct Slot {
  std::string baton;
  bool is_lost = false;
};

class Script {
 public:
  void line(std::string_view line) {
    if (line.size() < 2) return;
    const std::string_view rest = line.substr(2);
    switch (line[0]) {
      case '+':
        server_.now +=
            std::chrono::milliseconds(std::atoi(std::string(rest.substr(0, 8)).c_str()) & 0xffffff);
        server_.streams.tick();
        run(socket_.tick());
        return;
      case '!':
        server_.file.lose_after = std::atoi(std::string(rest.substr(0, 3)).c_str()) & 15;
        return;
      case 'w': run(socket_.take(rest)); return;
      default: request(line[0], rest);
    }
  }
  void end() {
    run(socket_.close());
    for (Slot& slot : slots_) slot = Slot{};
    const auto counts = server_.streams.counts();
    must(counts.in_use == 0 && server_.streams.budget().used() == 0);
    must(static_cast<std::size_t>(server_.file.sessions) <= counts.transactions + counts.kept);
  }

 private:
  void request(char endpoint, std::string_view rest) {
    if (endpoint < '0' || endpoint > '5' || rest.size() < 2) return;
    Slot& slot = slots_[static_cast<unsigned char>(rest[0]) % slots_.size()];
    std::string body;
    for (const char byte : rest.substr(2)) byte == '@' ? body += slot.baton : body += byte;
    const bool uses = !slot.baton.empty() && body.find(slot.baton) != std::string::npos;
    std::string written;
    const auto got = answer(static_cast<Endpoint>(endpoint - '0'), body, server_.streams, "app",
                            Permit{}, [&](std::string_view part) { written += part; });
    if (got.status != 200) {
      const auto json = boost::json::parse(got.body);
      must(json.at("message") == json.at("error") && json.at("code").is_string());
      if (uses && json.at("code") == "TG001") slot.is_lost = true;
      return;
    }
    if (endpoint > '2') return static_cast<void>(boost::json::parse(got.body));
    const auto first =
        boost::json::parse(endpoint == '2' ? written.substr(0, written.find('\n')) : got.body);
    // The last of two batons in one body is the one that counts, so only a body with one says whose
    // it is.
    must(!(slot.is_lost && uses && body.find("baton") == body.rfind("baton") &&
           body.find("\"baton\":\"" + slot.baton + '"') != std::string::npos));
    const auto& baton = first.at("baton");
    slot.baton = baton.is_string() ? std::string(baton.as_string()) : std::string();
    slot.is_lost = got.cut;
  }
  void run(Socket::Output output) {
    for (const std::string& message : output.answers) must(boost::json::parse(message).is_object());
    for (auto& job : output.jobs) {
      for (bool more = true; more;) {
        const auto done = job.run();
        if (done.answer) must(boost::json::parse(*done.answer).is_object());
        more = done.more;
      }
    }
  }

  termgate::hrana::fake::Server server_{8};
  Socket socket_{server_.streams, Version::hrana3,
                 [](const std::optional<std::string>&) -> std::variant<Identity, Refused> {
                   return Identity{"app", Permit{}};
                 }};
  std::array<Slot, 4> slots_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Script script;
  for (int lines = 0; !text.empty() && lines < 64; ++lines) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    script.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  script.end();
  return 0;
}
