// PostgreSQL's words that the classifier knows, in a hash table that the compiler fills. Open
// addressing; the table is an eighth full, so a lookup takes about one comparison.
#include "words.hpp"

#include <array>
#include <cstddef>

#include <termgate/text/ascii.hpp>
#include <termgate/text/fnv.hpp>

namespace termgate::statements {
namespace {

constexpr std::size_t word_bytes_max = 15;

struct Entry {
  std::string_view text;
  Word word = Word::other;
};

constexpr std::size_t slots = 1024;

constexpr std::size_t slot_of(std::string_view lower) {
  const std::uint64_t hash = text::fnv1a(lower);
  return (hash ^ hash >> 32) % slots;
}

constexpr std::array<Entry, slots> table = [] {
  std::array<Entry, slots> result{};
  const auto put = [&](std::string_view text, Word word) {
    std::size_t slot = slot_of(text);
    while (!result[slot].text.empty()) slot = (slot + 1) % slots;
    result[slot] = {text, word};
  };
#define TERMGATE_WORD(name, spelling) put(spelling, Word::name);
  TERMGATE_WORDS(TERMGATE_WORD)
#undef TERMGATE_WORD
  return result;
}();

constexpr bool all_fit = [] {
  for (const Entry& entry : table) {
    if (entry.text.size() > word_bytes_max) return false;
  }
  return true;
}();
static_assert(all_fit);

}  // namespace

Word word_of(std::string_view text) noexcept {
  if (text.size() > word_bytes_max) return Word::other;
  std::array<char, word_bytes_max> lower{};
  for (std::size_t i = 0; i < text.size(); ++i) lower[i] = text::lower(text[i]);
  const std::string_view folded(lower.data(), text.size());
  for (std::size_t slot = slot_of(folded); !table[slot].text.empty(); slot = (slot + 1) % slots) {
    if (table[slot].text == folded) return table[slot].word;
  }
  return Word::other;
}

}  // namespace termgate::statements
