#include "file/errors.hpp"

#include <sqlite3.h>

#include <cstdint>
#include <cstring>
#include <new>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

#include <termgate/detail/sqlite/errors.hpp>
#include <termgate/detail/sqlite/write_queue.hpp>

namespace termgate::sqlite_file {
namespace {

bool is_tg(std::string_view message) {
  return message.size() > 6 && message[5] == ' ' && detail::number_of_tg(message.substr(0, 5)) != 0;
}

std::string printable(std::string_view message) {
  std::string text(message);
  if (is_utf8(text)) return text;
  for (char& c : text) c = (c & 0x80) != 0 ? '?' : c;
  return text;
}

// Converts an error of the library, whose code is SQLite's name of an error, or TG001 and the like.
hrana::Refused of_library(const Error& error) {
  const std::string code(error.code());
  if (code.starts_with("TG")) return {code, error.what()};
  const int number = sqlite::code_of(code);
  return refused(number, error.what());
}

}  // namespace

hrana::Refused refused(int extended, std::string_view message, std::optional<std::size_t> offset) {
  if (is_tg(message)) return {std::string(message.substr(0, 5)), printable(message)};
  const std::string primary(sqlite::code_name(extended & 0xff)), name(sqlite::code_name(extended));
  hrana::Refused made(primary, printable(message), name);
  made.offset = offset;
  return made;
}

void rethrow_for_stream(bool fenced) {
  try {
    throw;
  } catch (const hrana::Refused&) { throw; } catch (const hrana::Lost&) {
    throw;
  } catch (const hrana::Unknown&) { throw; } catch (const hrana::Busy&) {
    throw;
  } catch (const OutcomeUnknown& error) {
    throw hrana::Unknown(error.what());
  } catch (const Blocked& error) {
    std::string_view message = error.what();
    if (fenced) throw hrana::Refused("TG006", std::string(message));
    if (message.starts_with("TG006 ")) message.remove_prefix(6);
    throw hrana::Refused("SQLITE_BUSY", "database is locked: " + std::string(message),
                         "SQLITE_BUSY");
  } catch (const sqlite::GaveUp&) {
    throw hrana::Refused("SQLITE_INTERRUPT",
                         "the wait for the write lock was ended: nothing was written",
                         "SQLITE_INTERRUPT");
  } catch (const Error& error) { throw of_library(error); } catch (const std::bad_alloc&) {
    throw hrana::Refused("SQLITE_NOMEM", "out of memory", "SQLITE_NOMEM");
  }
}

// Follows RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  const auto follows = [&](int i, unsigned char low = 0x80, unsigned char high = 0xBF) {
    return at[i] >= low && at[i] <= high;
  };
  while (at < end) {
    std::uint64_t eight;
    while (end - at >= 8 && (std::memcpy(&eight, at, 8), (eight & 0x8080808080808080u) == 0))
      at += 8;
    if (at == end) break;
    const unsigned char first = *at;
    if (first < 0x80) {
      ++at;
    } else if (first >= 0xC2 && first <= 0xDF && end - at >= 2 && follows(1)) {
      at += 2;
    } else if (first >= 0xE0 && first <= 0xEF && end - at >= 3 &&
               follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2)) {
      at += 3;
    } else if (first >= 0xF0 && first <= 0xF4 && end - at >= 4 &&
               follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) &&
               follows(3)) {
      at += 4;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace termgate::sqlite_file
