// PRELOGIN ([MS-TDS] 2.2.6.5; a client's packet has type 18, a server's answer type 4; most
// significant byte first):
//
//   +------------------------------------------------+------+----------------------------+
//   | option (5 bytes each): id, offset : 2, size : 2 | 0xFF | the options' values        |
//   +------------------------------------------------+------+----------------------------+
//   0 version (6)  1 encryption (1)  2 instance (text and NUL)  3 thread (0 or 4)  4 MARS (1)  5 trace (36)  6 federated (1)  7 nonce (32)
//
// LOGIN7 ([MS-TDS] 2.2.6.4; least significant byte first). ib…: offset from the beginning of the
// payload; cch…: UTF-16 units, cb…: bytes.
//
//    0 length:4    4 TDS version:4   8 packet size:4  12 client version:4  16 PID:4  20 connection:4
//   24 flags 1:1  25 flags 2:1      26 type flags:1   27 flags 3:1         28 time zone:4  32 LCID:4
//   36 host (ib:2 cch:2)        40 user       44 password    48 application  52 server     56 extension (ib:2 cb:2)
//   60 library (ib:2 cch:2)     64 language   68 database    72 client id:6  78 SSPI (ib:2 cb:2)
//   82 attach file (ib:2 cch:2) 86 new password (ib:2 cch:2) 90 long SSPI cb:4  94 (7.1: 86 is the end of the fixed part)
//
// The extension, where flags 3 has 0x10, is 4 bytes: the offset of the features, each id:1 size:4
// data, and 0xFF at the end.
#include <termgate/tds/login.hpp>

#include <termgate/tds/text.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr std::size_t options_max = 64;
constexpr std::size_t features_max = 64;
constexpr std::uint8_t has_extension = 0x10;

std::uint16_t big_at(std::string_view payload, std::size_t at) noexcept {
  return read_big_u16(payload.data() + at);
}

Decoded<Prelogin> bad_option(std::uint8_t id) {
  return malformed("PRELOGIN: option %u is malformed", id);
}

// Reads a field of LOGIN7 whose offset and size are at `at`. `unit`: the size counts units of this
// many bytes.
bool field(std::string_view payload, std::size_t fixed, std::size_t at, std::size_t unit,
           std::string_view& value) noexcept {
  const std::size_t offset = read_little(payload.data() + at, 2),
                    bytes = unit * read_little(payload.data() + at + 2, 2);
  if (bytes == 0) return true;
  if (offset < fixed || offset > payload.size() || bytes > payload.size() - offset) return false;
  value = payload.substr(offset, bytes);
  return true;
}

bool read_features(std::string_view payload, std::size_t at, Login7& login) {
  Cursor cursor(payload.substr(at));
  for (std::size_t count = 0; count <= features_max; ++count) {
    const std::uint8_t id = cursor.u8();
    if (!cursor.good()) return false;
    if (id == feature::terminator) { return true; }
    const std::uint32_t size = cursor.u32();
    const std::string_view data = cursor.bytes(size);
    if (!cursor.good()) return false;
    login.features.push_back({id, data});
  }
  return false;
}

}  // namespace

Decoded<Prelogin> decode_prelogin(std::string_view payload) {
  Prelogin prelogin;
  std::uint64_t seen = 0;
  bool has_version = false;
  for (std::size_t at = 0, count = 0;; at += 5, ++count) {
    if (at >= payload.size() || count > options_max)
      return malformed("PRELOGIN: its list of options has no end");
    const auto id = static_cast<std::uint8_t>(payload[at]);
    if (id == prelogin_option::terminator) break;
    if (payload.size() - at < 5) return malformed("PRELOGIN: its list of options has no end");
    const std::size_t offset = big_at(payload, at + 1), size = big_at(payload, at + 3);
    if (offset > payload.size() || size > payload.size() - offset) return bad_option(id);
    if (id < 64 && (seen & std::uint64_t{1} << id) != 0) return bad_option(id);
    if (id < 64) seen |= std::uint64_t{1} << id;
    const std::string_view value = payload.substr(offset, size);
    const auto first = static_cast<std::uint8_t>(value.empty() ? 0 : value[0]);
    switch (id) {
      case prelogin_option::version:
        if (size != 6 || at != 0) return bad_option(id);
        prelogin.version = value;
        has_version = true;
        break;
      case prelogin_option::encryption:
        // 0x80 means that the client wants to authenticate with a TLS certificate of its own.
        if (size != 1 || (first & 0x7f) > static_cast<std::uint8_t>(Encryption::required))
          return bad_option(id);
        prelogin.encryption = static_cast<Encryption>(first & 0x7f);
        break;
      case prelogin_option::instance: prelogin.instance = value; break;
      case prelogin_option::mars:
        if (size != 1) return bad_option(id);
        prelogin.mars = first;
        break;
      case prelogin_option::federated_required:
        if (size != 1) return bad_option(id);
        prelogin.federated_required = first;
        break;
      default: break;
    }
  }
  if (!has_version) return malformed("PRELOGIN: it does not begin with a version");
  return prelogin;
}

void append_prelogin(std::string& out, const Prelogin& prelogin) {
  const char encryption = static_cast<char>(prelogin.encryption.value_or(Encryption::off)),
             mars = static_cast<char>(prelogin.mars.value_or(0)),
             federated = static_cast<char>(prelogin.federated_required.value_or(0));
  std::vector<std::pair<std::uint8_t, std::string_view>> options{
      {prelogin_option::version, prelogin.version}};
  if (prelogin.encryption)
    options.emplace_back(prelogin_option::encryption, std::string_view(&encryption, 1));
  if (!prelogin.instance.empty())
    options.emplace_back(prelogin_option::instance, prelogin.instance);
  if (prelogin.mars) options.emplace_back(prelogin_option::mars, std::string_view(&mars, 1));
  if (prelogin.federated_required)
    options.emplace_back(prelogin_option::federated_required, std::string_view(&federated, 1));
  std::size_t offset = 5 * options.size() + 1;
  for (const auto& [id, value] : options) {
    out += static_cast<char>(id);
    append_big_u16(out, offset);
    append_big_u16(out, value.size());
    offset += value.size();
  }
  out += static_cast<char>(prelogin_option::terminator);
  for (const auto& [id, value] : options) out.append(value);
}

Decoded<Login7> decode_login7(std::string_view payload) {
  Login7 login;
  constexpr std::size_t fixed_7_1 = 86, fixed_7_2 = 94;
  if (payload.size() < fixed_7_1 || payload.size() > login7_bytes_max)
    return malformed("LOGIN7 of %zu bytes", payload.size());
  if (read_little(payload.data(), 4) != payload.size())
    return malformed("LOGIN7: its length is not its size");
  login.tds_version = static_cast<std::uint32_t>(read_little(payload.data() + 4, 4));
  login.packet_size = static_cast<std::uint32_t>(read_little(payload.data() + 8, 4));
  login.option_flags_1 = static_cast<std::uint8_t>(payload[24]);
  login.option_flags_2 = static_cast<std::uint8_t>(payload[25]);
  login.type_flags = static_cast<std::uint8_t>(payload[26]);
  login.option_flags_3 = static_cast<std::uint8_t>(payload[27]);
  const std::size_t fixed = is_7_2(login.tds_version) ? fixed_7_2 : fixed_7_1;
  if (payload.size() < fixed) return malformed("LOGIN7 of %zu bytes", payload.size());
  std::string_view extension;
  bool good =
      field(payload, fixed, 36, 2, login.host) && field(payload, fixed, 40, 2, login.user) &&
      field(payload, fixed, 44, 2, login.password) &&
      field(payload, fixed, 48, 2, login.application) &&
      field(payload, fixed, 52, 2, login.server) && field(payload, fixed, 60, 2, login.library) &&
      field(payload, fixed, 64, 2, login.language) &&
      field(payload, fixed, 68, 2, login.database) &&
      field(payload, fixed, 82, 2, login.attach_file);
  if ((login.option_flags_3 & has_extension) != 0)
    good = good && field(payload, fixed, 56, 1, extension);
  if (good && fixed == fixed_7_2) {
    good = field(payload, fixed, 86, 2, login.change_password);
    const std::size_t long_sspi = read_little(payload.data() + 90, 4),
                      offset = read_little(payload.data() + 78, 2);
    if (read_little(payload.data() + 80, 2) == 0xFFFF && long_sspi != 0) {
      good = good && offset >= fixed && offset <= payload.size() &&
             long_sspi <= payload.size() - offset;
      if (good) login.sspi = payload.substr(offset, long_sspi);
    } else {
      good = good && field(payload, fixed, 78, 1, login.sspi);
    }
  } else {
    good = good && field(payload, fixed, 78, 1, login.sspi);
  }
  if (!good) return malformed("LOGIN7: a field lies outside of it");
  if (!extension.empty()) {
    if (extension.size() < 4) return malformed("LOGIN7: its extension has fewer than 4 bytes");
    const std::size_t at = read_little(extension.data(), 4);
    if (at < fixed || at >= payload.size() || !read_features(payload, at, login))
      return malformed("LOGIN7: its features are malformed");
  }
  return login;
}

Decoded<std::string> changed_login7(std::string_view payload, const Login7& login,
                                    const Login7Changes& changes) {
  constexpr std::size_t field_units_max = 0xFFFF, client_id_at = 72, client_id_bytes = 6;
  const std::size_t fixed = is_7_2(login.tds_version) ? 94 : 86;
  std::string made(payload.substr(0, fixed)), data;
  bool fits = true;
  const auto put = [&](std::size_t at, std::size_t value, std::size_t bytes) {
    std::string number;
    append_little(number, value, bytes);
    made.replace(at, bytes, number);
  };
  const auto field = [&](std::size_t at, std::string_view value, std::size_t unit) {
    fits = fits && fixed + data.size() <= field_units_max && value.size() / unit <= field_units_max;
    put(at, fixed + data.size(), 2);
    put(at + 2, value.size() / unit, 2);
    data.append(value);
  };
  const std::string server =
      changes.server.empty() ? std::string(login.server) : utf16_of(changes.server);
  const auto stays = [&](const Feature& one) {
    return changes.without_features.find(static_cast<char>(one.id)) == std::string_view::npos;
  };
  const bool extended = (login.option_flags_3 & has_extension) != 0;
  field(36, login.host, 2);
  field(40, login.user, 2);
  field(44, login.password, 2);
  field(48, login.application, 2);
  field(52, server, 2);
  const std::size_t extension = data.size();
  field(56, extended ? std::string_view("\0\0\0\0", 4) : std::string_view{}, 1);
  field(60, login.library, 2);
  field(64, login.language, 2);
  field(68, login.database, 2);
  static_assert(client_id_at + client_id_bytes == 78);
  // SSPI data of 65,535 bytes or more has its length in another field.
  const bool long_sspi = login.sspi.size() >= field_units_max;
  field(78, long_sspi ? std::string_view{} : login.sspi, 1);
  if (long_sspi) {
    put(80, field_units_max, 2);
    data.append(login.sspi);
  }
  field(82, login.attach_file, 2);
  if (is_7_2(login.tds_version)) {
    field(86, login.change_password, 2);
    put(90, long_sspi ? login.sspi.size() : 0, 4);
  }
  if (extended) {
    std::string at;
    append_little(at, fixed + data.size(), 4);
    data.replace(extension, 4, at);
    for (const Feature& one : login.features) {
      if (!stays(one)) continue;
      data += static_cast<char>(one.id);
      append_little(data, one.data.size(), 4);
      data.append(one.data);
    }
    data += static_cast<char>(feature::terminator);
  }
  made += data;
  if (!fits || made.size() > login7_bytes_max)
    return malformed("LOGIN7: its fields do not fit with another server's name");
  put(0, made.size(), 4);
  return made;
}

Decoded<Routing> decode_routing(std::string_view value) {
  constexpr std::uint8_t tcp = 0;
  Cursor cursor(value);
  Routing routing;
  const std::uint8_t protocol = cursor.u8();
  routing.port = cursor.u16();
  routing.server = utf8_of(cursor.long_text());
  if (!cursor.good() || protocol != tcp) return malformed("ENVCHANGE: its routing is malformed");
  return routing;
}

}  // namespace termgate::tds
