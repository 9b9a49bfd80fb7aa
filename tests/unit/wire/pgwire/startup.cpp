// A client's first packets, and everything else that may come to a PostgreSQL port first.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <termgate/pgwire/startup.hpp>

using namespace termgate::pgwire;

namespace {

using Kind = StartupEvent::Kind;

std::string u32(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

std::string packet(std::uint32_t code, const std::string& rest) {
  return u32(static_cast<std::uint32_t>(8 + rest.size())) + u32(code) + rest;
}

constexpr std::uint32_t version(std::uint32_t major, std::uint32_t minor) {
  return major << 16 | minor;
}

const std::string startup_rest("user\0anna\0database\0shop\0\0", 25);

// What one packet came to, without views.
struct Outcome {
  Kind kind = Kind::need_more;
  std::size_t used = 0;
  std::uint16_t minor = 0;
  std::vector<std::pair<std::string, std::string>> parameters, extensions;
  std::uint32_t pid = 0;
  std::string key, problem, sqlstate;
  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view stream, std::size_t cut, bool tls_possible = true) {
  StartupReader reader(tls_possible);
  Outcome outcome;
  for (const std::string& piece :
       {std::string(stream.substr(0, cut)), std::string(stream.substr(cut))}) {
    const StartupEvent event = reader.next(piece);
    CHECK(event.used <= piece.size());
    outcome.used += event.used;
    outcome.kind = event.kind;
    if (event.kind == Kind::need_more) {
      CHECK(event.used == piece.size());
      continue;
    }
    outcome.minor = event.startup.minor;
    for (const auto& [name, value] : event.startup.parameters)
      outcome.parameters.emplace_back(name, value);
    for (const auto& [name, value] : event.startup.extensions)
      outcome.extensions.emplace_back(name, value);
    outcome.pid = event.pid;
    outcome.key = event.key;
    if (event.kind == Kind::malformed) {
      outcome.problem = event.problem.reason();
      outcome.sqlstate = event.problem.sqlstate;
    }
    break;
  }
  return outcome;
}

// The same at every cut; what is used is compared only where the packet is good.
Outcome read_everywhere(const std::string& stream) {
  Outcome at_once = read(stream, stream.size());
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CAPTURE(cut);
    Outcome cut_once = read(stream, cut);
    if (at_once.kind == Kind::malformed) cut_once.used = at_once.used;
    CHECK(cut_once == at_once);
  }
  return at_once;
}

}  // namespace

TEST_CASE("startup: parameters come in order with duplicates and the last one counts",
          "[proxy][pgwire]") {
  const std::string stream = packet(
      version(3, 0),
      std::string("user\0anna\0application_name\0a\0application_name\0b\0options\0\0\0", 58));
  const Outcome outcome = read_everywhere(stream);
  REQUIRE(outcome.kind == Kind::startup);
  CHECK(outcome.used == stream.size());
  CHECK(outcome.minor == 0);
  CHECK(
      outcome.parameters ==
      std::vector<std::pair<std::string, std::string>>{
          {"user", "anna"}, {"application_name", "a"}, {"application_name", "b"}, {"options", ""}});
  StartupReader reader(true);
  const StartupEvent event = reader.next(stream);
  CHECK(event.startup.find("application_name") == "b");
  CHECK(event.startup.find("options") == "");
  CHECK_FALSE(event.startup.find("database"));
  CHECK(event.startup.extensions.empty());
}

TEST_CASE("startup: newer minor versions and options are read", "[proxy][pgwire]") {
  struct Row {
    const char* name;
    std::uint32_t minor;
    std::string rest;
    std::size_t extensions;
  };
  const Row rows[] = {
      {"3.0", 0, startup_rest, 0},
      {"3.1 was never used", 1, startup_rest, 0},
      {"3.2", 2, startup_rest, 0},
      {"3.3", 3, startup_rest, 0},
      {"a greased 3.9999", 9999, std::string("user\0a\0_pq_.test_protocol_negotiation\0\0\0", 40),
       1},
      {"3.0 with an option", 0, std::string("user\0a\0_pq_.x\0on\0\0", 18), 1},
      {"3.65535", 65535, startup_rest, 0},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const std::string stream = packet(version(3, row.minor), row.rest);
    read_everywhere(stream);
    StartupReader reader(true);
    const StartupEvent event = reader.next(stream);
    REQUIRE(event.kind == Kind::startup);
    CHECK(event.startup.minor == row.minor);
    CHECK(event.startup.extensions.size() == row.extensions);
    for (const auto& [name, value] : event.startup.parameters)
      CHECK_FALSE(name.starts_with("_pq_."));
  }
}

TEST_CASE("startup: bytes after an encryption request are left to be seen", "[proxy][pgwire]") {
  for (const bool gssenc : {false, true}) {
    std::string stream;
    gssenc ? append_gssenc_request(stream) : append_ssl_request(stream);
    CHECK(read_everywhere(stream).kind == (gssenc ? Kind::gssenc_request : Kind::ssl_request));
    const std::string injected = stream + packet(version(3, 0), startup_rest);
    StartupReader reader(true);
    const StartupEvent event = reader.next(injected);
    CHECK(event.kind == (gssenc ? Kind::gssenc_request : Kind::ssl_request));
    CHECK(event.used == 8);
    CHECK(event.used < injected.size());
  }
}

TEST_CASE("startup: one packet after another from one stream", "[proxy][pgwire]") {
  std::string stream;
  append_gssenc_request(stream);
  append_ssl_request(stream);
  stream += packet(version(3, 2), startup_rest);
  StartupReader reader(true);
  std::vector<Kind> kinds;
  for (const char byte : stream) {
    const StartupEvent event = reader.next({&byte, 1});
    REQUIRE(event.used == 1);
    if (event.kind != Kind::need_more) kinds.push_back(event.kind);
    if (event.kind == Kind::startup) CHECK(event.startup.find("user") == "anna");
  }
  CHECK(kinds == std::vector<Kind>{Kind::gssenc_request, Kind::ssl_request, Kind::startup});
}

TEST_CASE("startup: cancel requests take secrets of 4 to 256 bytes", "[proxy][pgwire]") {
  for (const std::size_t size : {4, 5, 32, 256}) {
    CAPTURE(size);
    std::string stream;
    append_cancel_request(stream, 0xfffffffe, std::string(size, '\0'));
    const Outcome outcome = read_everywhere(stream);
    REQUIRE(outcome.kind == Kind::cancel_request);
    CHECK(outcome.pid == 0xfffffffe);
    CHECK(outcome.key == std::string(size, '\0'));
    CHECK(outcome.used == stream.size());
  }
  for (const std::size_t size : {0, 3, 257, 5000}) {
    CAPTURE(size);
    std::string stream;
    append_cancel_request(stream, 1, std::string(size, 'k'));
    const Outcome outcome = read_everywhere(stream);
    CHECK(outcome.kind == Kind::malformed);
    CHECK_THAT(outcome.problem, Catch::Contains("cancel request"));
  }
}

TEST_CASE("startup: direct TLS is known by its first byte and only where it can be",
          "[proxy][pgwire]") {
  const std::string hello("\x16\x03\x01\x02\x00\x01", 6);
  const Outcome outcome = read(hello, hello.size());
  CHECK(outcome.kind == Kind::direct_tls);
  CHECK(outcome.used == 0);
  CHECK(read(hello, hello.size(), false).kind == Kind::malformed);
  // Not after another packet, and not in the middle of one.
  StartupReader reader(true);
  std::string request;
  append_ssl_request(request);
  CHECK(reader.next(request).kind == Kind::ssl_request);
  CHECK(reader.next(hello).kind == Kind::malformed);
}

TEST_CASE("startup: what is no start-up packet gets a clear answer", "[proxy][pgwire]") {
  struct Row {
    const char* name;
    std::string bytes;
    const char* reason;
    const char* sqlstate = "08P01";
  };
  const Row rows[] = {
      {"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "looks like HTTP"},
      {"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "looks like HTTP"},
      {"SSH", "SSH-2.0-OpenSSH_9.2\r\n", "looks like SSH"},
      {"the PROXY protocol", "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "PROXY protocol"},
      {"a length of 0", u32(0) + u32(version(3, 0)), "invalid length of startup packet"},
      {"a length of 4", u32(4) + u32(version(3, 0)), "invalid length of startup packet"},
      {"a length of 7", u32(7) + u32(version(3, 0)), "invalid length of startup packet"},
      {"10005 bytes", u32(10'005) + u32(version(3, 0)), "invalid length of startup packet"},
      {"2 GB", u32(0x7fffffff), "invalid length of startup packet"},
      {"a negative length", u32(0xffffffff), "invalid length of startup packet"},
      {"protocol 2", packet(version(2, 0), std::string(288, '\0')),
       "unsupported frontend protocol 2.0", "0A000"},
      {"protocol 4", packet(version(4, 1), startup_rest), "unsupported frontend protocol 4.1",
       "0A000"},
      {"an unknown request", packet(1234u << 16 | 5681, ""),
       "unsupported frontend protocol 1234.5681", "0A000"},
      {"an SSLRequest with a tail", packet(1234u << 16 | 5679, "x"), "encryption request"},
      {"no terminator", packet(version(3, 0), std::string("user\0anna\0", 10)),
       "expected terminator"},
      {"nothing after the version", packet(version(3, 0), ""), "expected terminator"},
      {"a name without a value", packet(version(3, 0), std::string("user\0", 5)),
       "expected terminator"},
      {"a value without an end", packet(version(3, 0), std::string("user\0anna", 9)),
       "expected terminator"},
      {"bytes after the terminator", packet(version(3, 0), std::string("user\0anna\0\0x", 12)),
       "expected terminator"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const Outcome outcome = read(row.bytes, row.bytes.size());
    REQUIRE(outcome.kind == Kind::malformed);
    CHECK_THAT(outcome.problem, Catch::Contains(row.reason));
    CHECK(outcome.sqlstate == row.sqlstate);
    for (std::size_t cut = 4; cut <= row.bytes.size(); ++cut)
      CHECK(read(row.bytes, cut).problem == outcome.problem);
  }
  // Garbage is refused by its first byte: no silent wait for more of it.
  CHECK(read("G", 1).kind == Kind::malformed);
  // What PostgreSQL 13, 15 and 18 give no answer, and what they answer in the words of an older
  // protocol.
  const auto first = [](const std::string& bytes) { return StartupReader(false).next(bytes); };
  for (const std::string& bytes :
       {std::string("X\0\0\0\4", 5), std::string("GET / HTTP/1.1\r\n"), u32(0) + u32(0),
        u32(7) + u32(version(3, 0)), u32(10'005) + u32(version(3, 0)), u32(0xffffffff),
        std::string("Q\0\0\0\5", 5), packet(1234u << 16 | 5678, "")}) {
    CAPTURE(bytes);
    CHECK(first(bytes).unanswered);
    CHECK_FALSE(first(bytes).before_3);
  }
  for (const auto& [major, old] : {std::pair{1, true}, {2, true}, {4, false}, {1234, false}}) {
    const StartupEvent event = first(packet(static_cast<std::uint32_t>(major) << 16, startup_rest));
    CHECK_FALSE(event.unanswered);
    CHECK(event.before_3 == old);
  }
  CHECK_FALSE(first(packet(version(3, 0), "")).unanswered);
}

TEST_CASE("startup: what is built is read back and holds at most one packet", "[proxy][pgwire]") {
  std::string stream;
  const std::vector<StartupMessage::Parameter> parameters{
      {"user", "anna"}, {"database", "shop"}, {"_pq_.x", ""}};
  append_startup(stream, 2, parameters);
  const Outcome outcome = read_everywhere(stream);
  CHECK(outcome.kind == Kind::startup);
  CHECK(outcome.minor == 2);
  CHECK(outcome.parameters ==
        std::vector<std::pair<std::string, std::string>>{{"user", "anna"}, {"database", "shop"}});
  CHECK(outcome.extensions == std::vector<std::pair<std::string, std::string>>{{"_pq_.x", ""}});
  StartupReader reader(false);
  const std::string longest =
      u32(startup_packet_bytes_max) + u32(version(3, 0)) + std::string(20'000, 'x');
  CHECK(reader.next(std::string_view(longest).substr(0, startup_packet_bytes_max - 1)).kind ==
        Kind::need_more);
  CHECK(reader.buffered() == startup_packet_bytes_max - 1);
  const StartupEvent event =
      reader.next(std::string_view(longest).substr(startup_packet_bytes_max - 1));
  CHECK(event.kind == Kind::malformed);
  CHECK(event.used == 1);
}
