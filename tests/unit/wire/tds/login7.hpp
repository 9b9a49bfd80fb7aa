// A LOGIN7 as a client of TDS 7.4 writes it, for tests.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <termgate/tds/text.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

struct TestLogin7 {
  std::string user = "sa", password = "secret", application{}, database{}, host = "client",
              attach_file{}, change_password{};
  std::vector<std::pair<std::uint8_t, std::string>> features{};
  std::uint32_t tds_version = version::v7_4;
  std::uint8_t flags_2 = 0;
};

inline std::string test_login7(const TestLogin7& login) {
  const auto number = [](std::size_t value, std::size_t bytes) {
    std::string out;
    for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
    return out;
  };
  std::string fixed = number(login.tds_version, 4) + number(4096, 4) + std::string(12, '\0');
  fixed += {'\0', static_cast<char>(login.flags_2), '\0',
            static_cast<char>(login.features.empty() ? 0 : 0x10)};
  fixed += std::string(8, '\0');
  std::string scrambled = utf16_of(login.password);
  for (char& one : scrambled) {
    const auto byte = static_cast<unsigned char>(one);
    one = static_cast<char>(((byte << 4 | byte >> 4) ^ 0xA5) & 0xFF);
  }
  std::string data;
  const auto field = [&](const std::string& bytes, std::size_t unit) {
    fixed += number(94 + data.size(), 2) + number(bytes.size() / unit, 2);
    data += bytes;
  };
  field(utf16_of(login.host), 2);
  field(utf16_of(login.user), 2);
  field(scrambled, 2);
  field(utf16_of(login.application), 2);
  field(utf16_of("server"), 2);
  const std::size_t extension = data.size();
  field(login.features.empty() ? "" : std::string(4, '\0'), 1);
  field(utf16_of("library"), 2);
  field("", 2);
  field(utf16_of(login.database), 2);
  fixed += std::string(6, '\0');
  field("", 1);
  field(utf16_of(login.attach_file), 2);
  field(utf16_of(login.change_password), 2);
  fixed += number(0, 4);
  if (!login.features.empty()) {
    data.replace(extension, 4, number(94 + data.size(), 4));
    for (const auto& [id, bytes] : login.features)
      data += static_cast<char>(id) + number(bytes.size(), 4) + bytes;
    data += '\xFF';
  }
  return number(4 + fixed.size() + data.size(), 4) + fixed + data;
}

}  // namespace termgate::tds
