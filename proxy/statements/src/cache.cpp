// Classified texts, the most recently used first. Used by one worker's thread. The key is the text
// and the settings that change in a session, so a text that was classified under other ones is
// never found. The schema and the bounds are not in it: they are the same for all sessions of a
// process.
#include <termgate/statements/cache.hpp>

#include <cassert>

namespace termgate::statements {

std::shared_ptr<const Classified> Cache::classify(std::string_view sql, const Settings& settings) {
  if (sql.size() > limits_.text_bytes_max)
    return std::make_shared<const Classified>(statements::classify(sql, settings));
  key_.assign(sql);
  key_ += static_cast<char>(static_cast<int>(settings.standard_conforming_strings) << 2 |
                            (settings.own_names_first ? 2 : 0) |
                            (settings.ascii_safe_encoding ? 1 : 0));
  if (const auto found = by_text_.find(key_); found != by_text_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return found->second->classified;
  }
  auto classified = std::make_shared<const Classified>(statements::classify(sql, settings));
  // A text that its tokens alone decide is classified faster than it is looked up.
  if (limits_.entries_max == 0 || classified->by_tokens) return classified;
  while (!recent_.empty() &&
         (recent_.size() >= limits_.entries_max || bytes_ + key_.size() > limits_.bytes_max))
    forget_oldest();
  if (key_.size() > limits_.bytes_max) return classified;
  recent_.push_front({key_, classified});
  by_text_.emplace(recent_.front().key, recent_.begin());
  assert(by_text_.size() == recent_.size() && "each entry is found by its key");
  bytes_ += key_.size();
  return classified;
}

void Cache::forget_oldest() {
  bytes_ -= recent_.back().key.size();
  by_text_.erase(recent_.back().key);
  recent_.pop_back();
}

}  // namespace termgate::statements
