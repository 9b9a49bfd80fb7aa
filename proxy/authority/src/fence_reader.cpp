// Anybody may send a notification, so it is not trusted: it only names a scope to read.
#include "fence_reader.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

namespace termgate::authority {

using std::chrono::milliseconds;

namespace {

// Parses one flat JSON object of strings and numbers, which is all that a raise sends. Anything
// else is ignored.
class Payload {
 public:
  explicit Payload(std::string_view text) : text_(text) {}

  // False: the text is not such an object.
  bool read(std::map<std::string, std::string>& members) {
    skip();
    if (!take('{')) return false;
    do {
      std::string key, value;
      skip();
      if (!string(key)) return false;
      skip();
      if (!take(':')) return false;
      skip();
      if (!string(value) && !number(value)) return false;
      members[key] = value;
      skip();
    } while (take(','));
    if (!take('}')) return false;
    skip();
    return at_ == text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool number(std::string& value) {
    const auto start = at_;
    while (at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    value = std::string(text_.substr(start, at_ - start));
    return at_ > start;
  }
  bool string(std::string& value) {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const char character = text_[at_++];
      if (character == '"') return true;
      if (character != '\\') {
        value += character;
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char escape = text_[at_++];
      static constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      if (const auto known = names.find(escape); known != std::string_view::npos) {
        value += meanings[known];
      } else if (escape == 'u' && at_ + 4 <= text_.size()) {
        // The server writes only control characters in this form.
        unsigned code = 0;
        const char* end = text_.data() + at_ + 4;
        const auto [stopped, error] = std::from_chars(text_.data() + at_, end, code, 16);
        if (error != std::errc() || stopped != end || code == 0 || code > 0x7f) return false;
        value += static_cast<char>(code);
        at_ += 4;
      } else {
        return false;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr int page = 1000;
constexpr milliseconds flood_pause{1000};
constexpr milliseconds quick_pause{1000};
constexpr milliseconds untrusted_pause{1000};
constexpr std::size_t read_one_by_one_max = 100;

}  // namespace

std::optional<std::string> hinted_scope(std::string_view payload, std::string_view schema) {
  std::map<std::string, std::string> members;
  if (!Payload(payload).read(members) || members["schema"] != schema) return std::nullopt;
  std::string& scope = members["scope"];
  if (name_problem(scope) != nullptr) return std::nullopt;
  return std::move(scope);
}

FenceReader::FenceReader(FenceBook& book, Source source, std::string schema, std::size_t scopes_max,
                         milliseconds pause)
    : book_(book),
      source_(std::move(source)),
      schema_(std::move(schema)),
      scopes_max_(scopes_max),
      pause_(pause) {}

FenceReader::Clock::time_point FenceReader::due() const {
  auto due = owing_ ? std::min(read_again_, not_before_) : read_again_;
  // An acquisition or an operator may make a scope trusted again; without notifications only
  // reading soon shows that.
  if (book_.any_untrusted()) due = std::min(due, turned_ + untrusted_pause);
  return due;
}

void FenceReader::turn(const detail::FenceFeed::Heard& heard) {
  const auto now = Clock::now();
  turned_ = now;
  auto [scopes, all] = book_.take_suspects();
  for (const auto& payload : heard.payloads) {
    if (auto scope = hinted_scope(payload, schema_)) scopes.insert(std::move(*scope));
  }
  // If there are very many untrusted scopes, only the first are added; the others are read together
  // with all fences.
  if (book_.any_untrusted()) book_.add_untrusted(scopes);
  // More hints than read_one_by_one_max, forged or not, cause all fences to be read, at most once a
  // second.
  if (heard.missed || all || scopes.size() > read_one_by_one_max) {
    owing_ = true;
    scopes.clear();
  }
  if (heard.connected_anew || now >= read_again_ || (owing_ && now >= not_before_)) {
    const bool flood = std::exchange(owing_, false);
    // If reading fails half-way, the next read is due at once.
    read_again_ = {};
    const bool one_page = read_all();
    // Raises by plain SQL send no notification. If reading is cheap (one page), it is repeated
    // soon, so that they are seen.
    read_again_ =
        Clock::now() + (one_page ? std::min(pause_, std::max(pause_ / 30, quick_pause)) : pause_);
    if (flood) not_before_ = Clock::now() + flood_pause;
  } else if (!owing_) {
    for (const auto& scope : scopes) read_one(scope);
  }
}

void FenceReader::read_one(const std::string& scope) {
  // Taken before the read: a fence that is learned meanwhile must not look like one that the
  // database has lost.
  const std::int64_t remembered = book_.remembered(scope);
  if (const auto info = source_.one(scope)) book_.took(*info, remembered);
}

bool FenceReader::read_all() {
  std::string after;
  // As many as the memory holds.
  for (std::size_t read = 0; read < scopes_max_ && !stopping_; read += page) {
    const auto fences = source_.page(after, page);
    for (const auto& info : fences) {
      // The page may be older than what was learned since it was read, so this scope is read again
      // before it counts as untrusted.
      if (info.term < book_.remembered(info.scope)) read_one(info.scope);
      else book_.took(info, 0);
    }
    if (fences.size() < page) return read == 0;
    after = fences.back().scope;
  }
  return false;
}

}  // namespace termgate::authority
