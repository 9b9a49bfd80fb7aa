#include "secrets.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <termgate/text/ascii.hpp>
#include <termgate/text/hex.hpp>

namespace termgate::cli {
namespace {

constexpr std::string_view hidden = "***";

struct Stretch {
  std::size_t at, size;
};

std::size_t find_key(std::string_view text, std::string_view key, std::size_t from) {
  const auto found =
      std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), key.begin(),
                  key.end(), [](char one, char other) { return text::lower(one) == other; });
  return found == text.end() ? std::string_view::npos
                             : static_cast<std::size_t>(found - text.begin());
}

// Where the value that begins at `at` ends. A value may be quoted, as in libpq's keyword=value
// strings and in ODBC's connection strings.
std::size_t value_end(std::string_view text, std::size_t at, bool alone) {
  if (at < text.size() && (text[at] == '\'' || text[at] == '{')) {
    const auto end = text.find(text[at] == '{' ? '}' : '\'', at + 1);
    if (end != std::string_view::npos) return end + 1;
  }
  return std::min(text.size(), text.find_first_of(alone ? "&;" : "&; \t\r\n\"'", at));
}

// Finds passwords. With `alone`, the text is one URL or argument, and the password may contain
// anything. Otherwise the text is a sentence with a URL in it: user and password end before the
// first blank, quote or slash, so that an @ further on is not taken for theirs.
std::vector<Stretch> passwords_in(std::string_view text, bool alone) {
  std::vector<Stretch> found;
  std::size_t next = 0;
  for (auto scheme = text.find("://"); scheme != std::string_view::npos;
       scheme = text.find("://", next)) {
    const auto start = scheme + 3;
    next = start;
    const auto end =
        alone ? text.size() : std::min(text.size(), text.find_first_of(" \t\r\n\"'/?#", start));
    const auto colon = text.substr(0, end).find(':', start), at = text.substr(0, end).rfind('@');
    if (colon == std::string_view::npos || at == std::string_view::npos || at < colon) continue;
    // The usage text says user:password@, which is no secret.
    if (!alone && find_key(text.substr(colon + 1, at - colon - 1), "password", 0) == 0 &&
        at - colon - 1 == 8)
      continue;
    found.push_back({colon + 1, at - colon - 1});
    next = at;
  }
  for (std::string_view key : {"password=", "passwd=", "pwd="}) {
    for (auto at = find_key(text, key, 0); at != std::string_view::npos;
         at = find_key(text, key, at + key.size())) {
      const auto value = at + key.size();
      found.push_back({value, value_end(text, value, alone) - value});
    }
  }
  return found;
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

std::mutex known_mutex;  // guards the two below
std::vector<std::string> known;
std::vector<std::string> known_secrets;

void add_once(std::vector<std::string>& to, std::string text) {
  const std::lock_guard lock(known_mutex);
  if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(std::move(text));
}

}  // namespace

void know_secrets_of(std::string text) { add_once(known, std::move(text)); }

void know_secret(std::string secret) {
  if (secret.size() > 3) add_once(known_secrets, std::move(secret));
}

std::string without_passwords(std::string message, std::vector<std::string> given) {
  {
    const std::lock_guard lock(known_mutex);
    given.insert(given.end(), known.begin(), known.end());
    for (const std::string& secret : known_secrets)
      replace_all(message, secret, std::string(hidden));
  }
  for (const std::string& text : given) {
    for (const auto& [at, size] : passwords_in(text, true)) {
      // Replace it together with the characters around it, so that a password of one letter does
      // not remove that letter from every word.
      if (size == 0) continue;
      const char before = text[at - 1];
      const std::string secret = text.substr(at, size);
      if (at + size < text.size())
        replace_all(message, before + secret + text[at + size],
                    before + std::string(hidden) + text[at + size]);
      replace_all(message, before + secret, before + std::string(hidden));
      // A library that parsed the URL may quote the decoded password.
      if (const std::string decoded = text::percent_decoded_where_it_can(secret);
          decoded != secret && decoded.size() > 3)
        replace_all(message, decoded, std::string(hidden));
    }
  }
  auto stretches = passwords_in(message, false);
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& one, const Stretch& other) { return one.at < other.at; });
  std::string shown;
  std::size_t done = 0;
  for (const auto& [at, size] : stretches) {
    // A stretch that begins inside another one is part of it.
    if (size == 0) continue;
    if (at >= done) shown.append(message, done, at - done).append(hidden);
    done = std::max(done, at + size);
  }
  return shown.append(message, done, std::string::npos);
}

}  // namespace termgate::cli
