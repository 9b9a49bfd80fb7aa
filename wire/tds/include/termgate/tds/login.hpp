// How a session begins: PRELOGIN of both sides and LOGIN7 of the client. Views point into the
// decoded payload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/malformed.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

// What one side sends before a login. Options without a member here are checked and dropped.
struct Prelogin {
  std::string_view
      version;  // 6 bytes: major, minor, build (most significant byte first), sub-build
  std::optional<Encryption> encryption;
  std::string_view instance;  // includes its NUL
  std::optional<std::uint8_t> mars;
  std::optional<std::uint8_t> federated_required;
};
// Malformed: the version is not first, a known option has an impossible value, an option below 64
// occurs twice, an option is outside the payload, the list has no end, or it has more than 64
// options.
Decoded<Prelogin> decode_prelogin(std::string_view payload);
// Appends the options that are set, in the order of their numbers, and always the version.
void append_prelogin(std::string& out, const Prelogin& prelogin);

struct Feature {
  std::uint8_t id = 0;
  std::string_view data;
};

struct Login7 {
  std::uint32_t tds_version = 0;
  std::uint32_t packet_size = 0;
  std::uint8_t option_flags_1 = 0, option_flags_2 = 0, type_flags = 0, option_flags_3 = 0;
  // These are UTF-16.
  std::string_view host, user, application, server, library, language, database, attach_file;
  std::string_view password;         // scrambled, as received
  std::string_view change_password;  // scrambled, as received
  std::string_view sspi;
  std::vector<Feature> features;

  bool integrated() const noexcept {
    return (option_flags_2 & 0x80) != 0;
  }  // Windows authentication
  bool user_instance() const noexcept { return (option_flags_3 & 0x02) != 0; }
};
// The payload's own length field must be its size, which is at most login7_bytes_max, and every
// field that is not empty must lie within it, after the fixed part. At most 64 features.
Decoded<Login7> decode_login7(std::string_view payload);
// What a proxy changes in a login: the features (their numbers) that it removes, and the server's
// name if `server` is given (UTF-8).
struct Login7Changes {
  std::string_view without_features;
  std::string_view server;
};
// The same login with these changes, its fields in the order of the fixed part. Malformed if the
// result does not fit the length fields, or exceeds login7_bytes_max.
Decoded<std::string> changed_login7(std::string_view payload, const Login7& login,
                                    const Login7Changes& changes);

// Where a server redirects its client (ENVCHANGE 20). `value`: EnvironmentChange::now. Malformed,
// too, if the protocol there is not TCP.
struct Routing {
  std::string server;  // UTF-8
  std::uint16_t port = 0;
};
Decoded<Routing> decode_routing(std::string_view value);

inline constexpr std::size_t login7_bytes_max = 128u << 10;
inline constexpr std::size_t prelogin_bytes_max = 4096;

}  // namespace termgate::tds
