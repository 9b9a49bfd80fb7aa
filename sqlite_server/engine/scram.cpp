// SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL speaks it, and verifiers in the form of pg_authid.rolpassword:
//
//   SCRAM-SHA-256$ITERATIONS:SALT$StoredKey:ServerKey     SALT and keys in base64
//
// No password is kept, and none is on the wire; the comparison of the proof takes the same time wherever it differs.
#include "engine/scram.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <termgate/sqlite_server/users.hpp>

namespace termgate::sqlite_server {
namespace {

constexpr std::size_t digest_bytes = 32;
constexpr int iterations_made = 4096;
constexpr int iterations_max = 1'000'000;
constexpr std::string_view scheme = "SCRAM-SHA-256$";

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string hmac(std::string_view key, std::string_view text) {
  std::string result(digest_bytes, '\0');
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes(text), text.size(),
           reinterpret_cast<unsigned char*>(result.data()), &size) == nullptr)
    throw std::runtime_error("HMAC failed");
  return result;
}

std::string sha256(std::string_view text) {
  std::string result(digest_bytes, '\0');
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(result.data()), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 failed");
  return result;
}

std::string base64(std::string_view text) {
  std::string result((text.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(result.data()), bytes(text), static_cast<int>(text.size()));
  result.resize(static_cast<std::size_t>(size));
  return result;
}

std::optional<std::string> unbase64(std::string_view text) {
  if (text.size() % 4 != 0 || text.empty() || text.size() > 1000) return std::nullopt;
  std::string result(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(result.data()), bytes(text), static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  result.resize(static_cast<std::size_t>(size) - (text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0));
  return result;
}

struct Verifier {
  int iterations = 0;
  std::string salt, stored_key, server_key;
};

std::optional<Verifier> parse(std::string_view text) {
  if (!text.starts_with(scheme)) return std::nullopt;
  text.remove_prefix(scheme.size());
  Verifier verifier;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), verifier.iterations);
  if (failure != std::errc() || verifier.iterations < 1 || verifier.iterations > iterations_max) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  const auto dollar = text.find('$');
  const auto colon = text.find(':', dollar == std::string_view::npos ? 0 : dollar);
  if (!text.starts_with(':') || dollar == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  verifier.salt = text.substr(1, dollar - 1);
  const auto stored = unbase64(text.substr(dollar + 1, colon - dollar - 1));
  const auto server = unbase64(text.substr(colon + 1));
  if (!unbase64(verifier.salt) || !stored || !server || stored->size() != digest_bytes || server->size() != digest_bytes)
    return std::nullopt;
  verifier.stored_key = *stored;
  verifier.server_key = *server;
  return verifier;
}

// Of this process: so that a name nobody has keeps its salt, as one that somebody has does.
const std::string& secret() {
  static const std::string made = [] {
    std::string random(digest_bytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()), static_cast<int>(random.size())) != 1)
      throw std::runtime_error("no randomness");
    return random;
  }();
  return made;
}

// "r=…" -> the value, and what is behind its comma.
std::optional<std::string_view> attribute(std::string_view& rest, char name) {
  if (rest.size() < 2 || rest[0] != name || rest[1] != '=') return std::nullopt;
  const auto comma = rest.find(',');
  const std::string_view value = rest.substr(2, comma == std::string_view::npos ? comma : comma - 2);
  rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  return value;
}

}  // namespace

Scram::Scram(std::string_view user, std::string_view verifier, std::string nonce) : nonce_(std::move(nonce)) {
  if (const auto parsed = parse(verifier)) {
    known_ = true;
    iterations_ = parsed->iterations;
    salt_ = parsed->salt;
    stored_key_ = parsed->stored_key;
    server_key_ = parsed->server_key;
  } else {
    iterations_ = iterations_made;
    salt_ = base64(hmac(secret(), user).substr(0, 16));
    stored_key_ = server_key_ = std::string(digest_bytes, '\0');
  }
}

std::optional<std::string> Scram::first(std::string_view message) {
  // n,, or y,, and then the bare message. Channel binding (p=…) was not offered.
  if (message.size() < 3 || (message[0] != 'n' && message[0] != 'y') || message[1] != ',') return std::nullopt;
  const auto end = message.find(',', 2);
  if (end == std::string_view::npos) return std::nullopt;
  gs2_header_ = message.substr(0, end + 1);
  client_first_bare_ = message.substr(end + 1);
  std::string_view rest = client_first_bare_;
  if (!attribute(rest, 'n')) return std::nullopt;
  const auto nonce = attribute(rest, 'r');
  if (!nonce || nonce->empty() || nonce->size() > 256) return std::nullopt;
  nonce_ = std::string(*nonce) + nonce_;
  server_first_ = "r=" + nonce_ + ",s=" + salt_ + ",i=" + std::to_string(iterations_);
  return server_first_;
}

std::optional<std::string> Scram::final(std::string_view message) {
  std::string_view rest = message;
  const auto binding = attribute(rest, 'c');
  const auto nonce = attribute(rest, 'r');
  const auto at = message.rfind(",p=");
  if (!binding || !nonce || at == std::string_view::npos || *binding != base64(gs2_header_) || *nonce != nonce_) return std::nullopt;
  const auto proof = unbase64(message.substr(at + 3));
  if (!proof || proof->size() != digest_bytes) return std::nullopt;
  const std::string whole = client_first_bare_ + "," + server_first_ + "," + std::string(message.substr(0, at));
  std::string client_key = hmac(stored_key_, whole);
  for (std::size_t i = 0; i < digest_bytes; ++i) client_key[i] = static_cast<char>(client_key[i] ^ (*proof)[i]);
  const bool right = CRYPTO_memcmp(sha256(client_key).data(), stored_key_.data(), digest_bytes) == 0;
  if (!right || !known_) return std::nullopt;
  return "v=" + base64(hmac(server_key_, whole));
}

std::string make_verifier(std::string_view password) {
  if (password.empty() || password.size() > 1000) throw std::runtime_error("a password has 1 to 1000 bytes");
  if (!std::all_of(password.begin(), password.end(), [](char c) { return c >= 0x20 && c < 0x7f; }))
    throw std::runtime_error("a password here is printable ASCII: other letters are normalised by some clients and not by others");
  std::string salt(16, '\0'), salted(digest_bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(salt.data()), static_cast<int>(salt.size())) != 1)
    throw std::runtime_error("no randomness");
  if (PKCS5_PBKDF2_HMAC(password.data(), static_cast<int>(password.size()), bytes(salt), static_cast<int>(salt.size()), iterations_made,
                        EVP_sha256(), digest_bytes, reinterpret_cast<unsigned char*>(salted.data())) != 1) {
    throw std::runtime_error("PBKDF2 failed");
  }
  return std::string(scheme) + std::to_string(iterations_made) + ":" + base64(salt) + "$" + base64(sha256(hmac(salted, "Client Key"))) +
         ":" + base64(hmac(salted, "Server Key"));
}

std::string user_name_problem(std::string_view name) {
  if (name.empty() || name.size() > 63) return "a user's name has 1 to 63 bytes";
  if (name.front() == '#' ||
      std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; }))
    return "a user's name has no blanks or control characters and does not begin with #";
  return {};
}

Users read_users(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  Users users;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    const auto space = line.find(' ');
    if (space == std::string::npos || !parse(std::string_view(line).substr(space + 1)) ||
        !user_name_problem(line.substr(0, space)).empty()) {
      throw std::runtime_error(path + ", line " + std::to_string(number) +
                               ": a line is a name, a blank and a SCRAM-SHA-256 verifier, as `termgate user add` writes it");
    }
    users.insert_or_assign(line.substr(0, space), line.substr(space + 1));
  }
  return users;
}

void write_users(const std::string& path, const Users& users) {
  std::string text =
      "# Accounts for termgate proxy in front of an SQLite file, written by `termgate user`: names and SCRAM-SHA-256 verifiers, no "
      "passwords.\n";
  for (const auto& [name, verifier] : users) text += name + " " + verifier + "\n";
  const std::string draft = path + ".new";
  unlink(draft.c_str());
  const int descriptor = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool done = descriptor >= 0;
  for (std::string_view rest = text; done && !rest.empty();) {
    const ssize_t written = write(descriptor, rest.data(), rest.size());
    done = written > 0;
    if (done) rest.remove_prefix(static_cast<std::size_t>(written));
  }
  done = done && fsync(descriptor) == 0;
  if (descriptor >= 0) close(descriptor);
  if (!done || std::rename(draft.c_str(), path.c_str()) != 0) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace termgate::sqlite_server
