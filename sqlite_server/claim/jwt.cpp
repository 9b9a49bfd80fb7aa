#include "claim/jwt.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include <termgate/scope.hpp>

#include "claim/letters.hpp"

namespace termgate::claim {
namespace {

namespace json = boost::json;
using Why = JwtRefused::Why;

constexpr std::size_t depth_max = 8;
constexpr std::int64_t seconds_max = std::int64_t{1} << 53;
constexpr std::size_t signature_bytes = 64;
constexpr std::size_t key_file_bytes_max = 64 * 1024;

// Finds an object with a duplicate name: readers differ in which of the two counts, so the signer
// may have meant the other one.
struct Duplicates {
  static constexpr std::size_t max_object_size = 1000, max_array_size = 1000,
                               max_key_size = jwt_bytes_max, max_string_size = jwt_bytes_max;
  std::vector<std::set<std::string, std::less<>>> names;
  std::string key;
  bool found = false;

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return names.emplace_back(), true; }
  bool on_object_end(std::size_t, json::error_code&) { return names.pop_back(), true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    return key.append(part.data(), part.size()), true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    key.append(part.data(), part.size());
    if (!names.back().insert(std::move(key)).second) found = true;
    key.clear();
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

// nullopt: not a JSON object, or one with a duplicate name.
std::optional<json::object> read_object(std::string_view text) {
  json::parse_options options;
  options.max_depth = depth_max;
  json::error_code error;
  json::basic_parser<Duplicates> duplicates(options);
  const auto used = duplicates.write_some(false, text.data(), text.size(), error);
  if (error || used != text.size() || duplicates.handler().found) return std::nullopt;
  const json::value value = json::parse({text.data(), text.size()}, error, {}, options);
  if (error || !value.is_object()) return std::nullopt;
  return value.as_object();
}

// Reads one token. Throws the refusal.
class Reading {
 public:
  Reading(std::string_view token, const std::vector<JwtKey>& keys, std::int64_t now) : now_(now) {
    if (token.size() > jwt_bytes_max)
      fail(Why::malformed, fmt::format("the signed token has more than {} bytes", jwt_bytes_max));
    const auto first = token.find('.'), last = token.rfind('.');
    if (first == std::string_view::npos || std::count(token.begin(), token.end(), '.') != 2)
      fail(Why::malformed, "a signed token has three parts with a point between them");
    const auto header = from_base64url(token.substr(0, first));
    const auto payload = from_base64url(token.substr(first + 1, last - first - 1));
    const auto signature = from_base64url(token.substr(last + 1));
    if (!header || !payload || !signature)
      fail(Why::malformed, "a part of the signed token is no base64url without padding");
    check_header(*header);
    const bool is_signed = std::any_of(keys.begin(), keys.end(), [&](const JwtKey& key) {
      return key.signed_by(token.substr(0, last), *signature);
    });
    if (!is_signed) fail(Why::not_signed, "no key of --jwt-key has signed the token");
    auto object = read_object(*payload);
    if (!object)
      fail(Why::malformed,
           "the signed token's claims are no JSON object, or one that has a name twice");
    claims_ = std::move(*object);
  }

  SignedToken read() {
    for (const char* name : {"p", "id"}) {
      if (claims_.contains(name))
        fail(Why::unusable,
             fmt::format(
                 "the signed token has \"{}\", which is about namespaces: this server has none",
                 name));
    }
    check_times();
    read_level();
    read_subject();
    read_termgate();
    return std::move(token_);
  }

 private:
  [[noreturn]] static void fail(Why why, std::string message) {
    throw JwtRefused{why, std::move(message)};
  }

  static void check_header(std::string_view text) {
    const auto header = read_object(text);
    if (!header)
      fail(Why::malformed,
           "the signed token's header is no JSON object, or one that has a name twice");
    const json::value* algorithm = header->if_contains("alg");
    if (algorithm == nullptr || !algorithm->is_string() || algorithm->as_string() != "EdDSA")
      fail(Why::unusable, "the signed token's alg must be EdDSA (Ed25519)");
    // RFC 7515, section 4.1.11: a reader that does not know such an extension must refuse the
    // token.
    if (header->contains("crit"))
      fail(Why::unusable,
           "the signed token's header has crit, an extension that this server does not know");
  }

  std::optional<std::int64_t> seconds(const char* name) const {
    const json::value* value = claims_.if_contains(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_int64() || value->as_int64() < 0 || value->as_int64() > seconds_max)
      fail(
          Why::malformed,
          fmt::format("the signed token's {} must be whole seconds since 1970, as a number", name));
    return value->as_int64();
  }

  void check_times() {
    token_.expires = seconds("exp");
    const auto begins = seconds("nbf");
    if (token_.expires && now_ > *token_.expires + jwt_grace_seconds)
      fail(Why::expired, "the signed token has expired (exp)");
    if (begins && now_ + jwt_grace_seconds < *begins)
      fail(Why::not_yet, "the signed token is not valid yet (nbf)");
  }

  void read_level() {
    const json::value* level = claims_.if_contains("a");
    if (level == nullptr) return;
    if (!level->is_string() || (level->as_string() != "ro" && level->as_string() != "rw"))
      fail(Why::unusable, "the signed token's a must be \"ro\" or \"rw\"");
    token_.read_only = level->as_string() == "ro";
  }

  void read_subject() {
    token_.subject = "jwt";
    const json::value* subject = claims_.if_contains("sub");
    if (subject == nullptr) return;
    if (!subject->is_string() || name_problem(std::string_view(subject->as_string())) != nullptr)
      fail(Why::malformed, "the signed token's sub must be a text of 1 to 200 letters");
    token_.subject = std::string(subject->as_string());
  }

  void read_termgate() {
    const json::value* claim = claims_.if_contains("termgate");
    if (claim == nullptr) return;
    const auto wrong = [](std::string_view what) {
      fail(Why::bad_claim, fmt::format("the signed token's termgate: {}", what));
    };
    if (!claim->is_object())
      wrong("it must be an object {\"scope\": \"billing\", \"term\": \"5\"}");
    for (const auto& [name, value] : claim->as_object()) {
      if (name != "scope" && name != "term") wrong("it has scope and term, and nothing else");
      if (!value.is_string()) wrong("scope and term must be texts: \"term\": \"5\"");
    }
    const json::value* scope = claim->as_object().if_contains("scope");
    if (scope == nullptr) wrong("it has no scope");
    token_.scope = std::string(scope->as_string());
    if (const char* problem = name_problem(*token_.scope)) wrong(problem);
    if (const json::value* term = claim->as_object().if_contains("term")) {
      token_.term = read_term(std::string_view(term->as_string()));
      if (!token_.term) wrong("the term is 1 to 2^62 in decimal, without a leading zero");
    }
  }

  const std::int64_t now_;
  json::object claims_;
  SignedToken token_;
};

}  // namespace

JwtKey JwtKey::parse(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  JwtKey key;
  if (!text.starts_with("-----")) {
    const auto bytes = from_base64url(text);
    if (!bytes || bytes->size() != key.bytes_.size())
      throw std::invalid_argument(
          "a key is a PEM block PUBLIC KEY, or 32 bytes in base64url (43 letters)");
    std::copy(bytes->begin(), bytes->end(), key.bytes_.begin());
    return key;
  }
  const std::unique_ptr<BIO, decltype(&BIO_free)> input(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> read(
      PEM_read_bio_PUBKEY(input.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  std::size_t length = key.bytes_.size();
  if (!read || EVP_PKEY_id(read.get()) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(read.get(), key.bytes_.data(), &length) != 1)
    throw std::invalid_argument(
        "it is no PEM block PUBLIC KEY with an Ed25519 key (openssl pkey -pubout)");
  return key;
}

JwtKey JwtKey::from_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(key_file_bytes_max, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty()) throw std::invalid_argument(path + ": it cannot be read, or is empty");
  try {
    return parse(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

bool JwtKey::signed_by(std::string_view message, std::string_view signature) const {
  if (signature.size() != signature_bytes) return false;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_.data(), bytes_.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  return key && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(message),
                          message.size()) == 1;
}

bool is_jwt(std::string_view token) {
  return token.starts_with("eyJ") && std::count(token.begin(), token.end(), '.') == 2;
}

std::optional<SignedToken> read_jwt(std::string_view token, const std::vector<JwtKey>& keys,
                                    std::int64_t now, JwtRefused& refused) {
  try {
    return Reading(token, keys, now).read();
  } catch (JwtRefused& why) {
    refused = std::move(why);
    return std::nullopt;
  }
}

}  // namespace termgate::claim
