// The URL of a term source: what it means, and that no password is ever in it or in a message about
// it.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <termgate/error.hpp>
#include <termgate/sources.hpp>
#include <termgate/sources/url.hpp>

using termgate::InvalidInput;
using termgate::open_lease_source;
using termgate::sources::SourceUrl;

TEST_CASE("source url: hosts ports path and options", "[sources]") {
  const SourceUrl url = SourceUrl::parse(
      "etcds://me%40home@a.example,[2001:db8::1]:99,c:1/a%20b?ca-file=/x%26y&timeout=250");
  CHECK(url.scheme == "etcds");
  CHECK(url.user == "me@home");
  REQUIRE(url.hosts.size() == 3);
  CHECK((url.hosts[0].host == "a.example" && url.hosts[0].port == 0));
  CHECK((url.hosts[1].host == "2001:db8::1" && url.hosts[1].port == 99));
  CHECK((url.hosts[2].host == "c" && url.hosts[2].port == 1));
  CHECK(url.path == "/a b");
  CHECK(url.option("ca-file") == "/x&y");
  CHECK(url.timeout() == std::chrono::milliseconds(250));
  CHECK(url.name(2379) == "etcds://a.example:2379,[2001:db8::1]:99,c:1");
  CHECK(SourceUrl::parse("file:///run/x").hosts.empty());
}

TEST_CASE("source url: what is malformed is refused and never quoted", "[sources]") {
  for (const char* text : {"",
                           "redis",
                           "://h",
                           "redis://h:0",
                           "redis://h:65536",
                           "redis://h:",
                           "redis://:1",
                           "redis://a,,b",
                           "redis://a,",
                           "redis://[::1",
                           "redis://[::1]x",
                           "redis://[::1]:",
                           "redis://h?x",
                           "redis://h?=x",
                           "redis://h?a=1&a=2",
                           "redis://h/%",
                           "redis://h/%0",
                           "redis://h/%00",
                           "redis://h/%zz",
                           "redis://user:hunter2@h",
                           "redis://h?password=hunter2",
                           "redis://h?token=hunter2",
                           "redis://h#hunter2",
                           "redis://a b"}) {
    CAPTURE(text);
    try {
      SourceUrl::parse(text);
      FAIL("it was read");
    } catch (const InvalidInput& error) {
      CHECK(std::string(error.what()).find("hunter2") == std::string::npos);
    }
  }
  CHECK_THROWS_AS(SourceUrl::parse("redis://" + std::string(SourceUrl::bytes_max, 'x')),
                  InvalidInput);
}

TEST_CASE("source url: each service refuses what it cannot mean", "[sources]") {
  for (const char* text : {"postgresql://h",
                           "redis://a,b",
                           "redis://h/x",
                           "redis://h/-1",
                           "redis://h?color=red",
                           "redis://h?timeout=1",
                           "redis://h?replicas=-1",
                           "redis://h?ca-file=/x",
                           "rediss://h?cert-file=/x",
                           "rediss://h?ca-file=/does/not/exist",
                           "redis://me@h",
                           "redis://",
                           "etcd://",
                           "etcd://h/x",
                           "etcd://me@h",
                           "zookeeper://",
                           "zookeeper://me@h",
                           "zookeeper://h?prefix=a/b",
                           "zookeeper://h?prefix=.",
                           "consul://",
                           "consul://me@h",
                           "consul://h/x",
                           "consul://h?prefix=a/../b",
                           "consul://h?prefix=a//b",
                           "kubernetes:///ns",
                           "kubernetes://h",
                           "kubernetes://h/a/b",
                           "kubernetes://h/ns?tls=maybe",
                           "kubernetes://h/ns?prefix=A",
                           "file://host/x",
                           "file:///",
                           "file:///x?y=z"}) {
    CAPTURE(text);
    unsetenv("KUBERNETES_SERVICE_HOST");
    CHECK_THROWS_AS(open_lease_source(text), InvalidInput);
  }
}

TEST_CASE("source url: the password is the file's first or the environment's", "[sources]") {
  const std::string path =
      std::filesystem::temp_directory_path() / ("termgate-password-" + std::to_string(getpid()));
  std::ofstream(path) << "pa ss\n";
  setenv("TERMGATE_SOURCE_PASSWORD", "other", 1);
  CHECK(SourceUrl::parse("redis://h?password-file=" + path).password() == "pa ss");
  CHECK(SourceUrl::parse("redis://h").password() == "other");
  unsetenv("TERMGATE_SOURCE_PASSWORD");
  CHECK(SourceUrl::parse("redis://h").password().empty());
  std::ofstream(path) << "\n";
  CHECK_THROWS_AS(SourceUrl::parse("redis://h?password-file=" + path).password(), InvalidInput);
  std::filesystem::remove(path);
  CHECK_THROWS_AS(SourceUrl::parse("redis://h?password-file=" + path).password(), InvalidInput);
}
