// No message shows a password, in whatever way the URL spells it.
#include <catch2/catch.hpp>

#include "redact.hpp"

using termgate::detail::redact;

TEST_CASE("redact: hides the password in each spelling", "[postgres]") {
  struct Row {
    const char* name;
    const char* url;
    const char* message;
  };
  const Row rows[] = {
      {"the whole URL", "postgresql://u:hunter2@h/d", "invalid URI: postgresql://u:hunter2@h/d"},
      {"the password alone", "postgresql://u:hunter2@h/d", "bad password hunter2"},
      {"percent-encoded", "postgresql://u:hunter%32@h/d", "decoded hunter2 and hunter%32"},
      {"an unescaped at sign", "postgresql://u:hunter2@x@h/d", "near hunter2@x"},
      {"as a parameter", "postgresql://u@h/d?password=hunter2&x=1", "parameter hunter2"},
      {"the key's password", "postgresql://u@h/d?sslpassword=hunter2", "key hunter2"},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    const auto shown = redact(row.message, row.url);
    CHECK(shown.find("hunter") == std::string::npos);
  }
  CHECK(redact("nothing here", "postgresql://u@h/d") == "nothing here");
}
