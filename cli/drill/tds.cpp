#include "drill/tds.hpp"

#include <algorithm>

#include <termgate/detail/error_from_message.hpp>

namespace termgate::cli::drill {
namespace {

std::string wide(std::string_view text) {
  std::string result;
  for (const char letter : text) result += {letter, '\0'};
  return result;
}

std::uint32_t number_at(std::string_view bytes, std::size_t at, int size) {
  std::uint32_t number = 0;
  for (int i = size - 1; i >= 0; --i)
    number = number << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return number;
}

// UTF-16 to UTF-8; an unpaired surrogate becomes U+FFFD.
std::string narrow(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    std::uint32_t point = number_at(bytes, at, 2);
    if (point >= 0xD800 && point < 0xE000) {
      const std::uint32_t low =
          point < 0xDC00 && at + 3 < bytes.size() ? number_at(bytes, at + 2, 2) : 0;
      if (low >= 0xDC00 && low < 0xE000) {
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        at += 2;
      } else {
        point = 0xFFFD;
      }
    }
    if (point < 0x80) text += static_cast<char>(point);
    else if (point < 0x800)
      text += {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))};
    else if (point < 0x10000)
      text += {static_cast<char>(0xE0 | point >> 12), static_cast<char>(0x80 | (point >> 6 & 63)),
               static_cast<char>(0x80 | (point & 63))};
    else
      text += {static_cast<char>(0xF0 | point >> 18), static_cast<char>(0x80 | (point >> 12 & 63)),
               static_cast<char>(0x80 | (point >> 6 & 63)), static_cast<char>(0x80 | (point & 63))};
  }
  return text;
}

}  // namespace

void TdsConversation::from_client(std::string_view bytes, Moment now) {
  static const std::string seal = wide(".seal "), in_brackets = wide(".[seal]");
  if (answered_) asks_for_seal_ = false;
  answered_ = false;
  asks_for_seal_ = asks_for_seal_ || bytes.find(seal) != std::string_view::npos ||
                   bytes.find(in_brackets) != std::string_view::npos;
  latest_ = now;
}

void TdsConversation::from_server(std::string_view bytes) {
  while (readable_ && !bytes.empty()) {
    if (left_ == 0) {
      const std::size_t some = std::min(8 - head_.size(), bytes.size());
      head_.append(bytes.substr(0, some));
      bytes.remove_prefix(some);
      if (head_.size() < 8) return;
      const std::size_t length = static_cast<std::size_t>(static_cast<unsigned char>(head_[2]))
                                     << 8 |
                                 static_cast<unsigned char>(head_[3]);
      // 4: a tabular result; 0x12: PRELOGIN, whose packets also carry the TLS handshake. Any other
      // type means that this is not plain TDS.
      readable_ = length >= 8 && (head_[0] == 0x04 || head_[0] == 0x12);
      left_ = length - 8;
      ends_ = (head_[1] & 1) != 0;
      head_.clear();
      if (left_ > 0) continue;
    }
    const std::size_t some = std::min(left_, bytes.size());
    answer_.append(bytes.substr(0, some));
    bytes.remove_prefix(some);
    left_ -= some;
    find_errors();
    if (left_ == 0 && ends_) {
      answer_.clear();
      answered_ = true;
    }
  }
}

void TdsConversation::find_errors() {
  std::size_t done = 0;
  for (auto at = answer_.find('\xAA'); at != std::string::npos; at = answer_.find('\xAA', at + 1)) {
    const std::string_view rest = std::string_view(answer_).substr(at);
    if (rest.size() < 11) break;
    const std::uint32_t length = number_at(rest, 1, 2), number = number_at(rest, 3, 4),
                        units = number_at(rest, 9, 2);
    const std::string code = detail::tg_code_of(number);
    if (code.empty() || length > token_max || 14 + 2 * units > length) continue;
    if (rest.size() < 3 + length) break;
    const std::string text = narrow(rest.substr(11, 2 * units));
    if (!text.starts_with(code + " ")) continue;
    std::size_t name = 11 + 2 * units;  // the server's name; the procedure's follows
    name += 1 + 2 * static_cast<std::size_t>(static_cast<unsigned char>(rest[name]));
    std::string procedure;
    if (name < 3 + length)
      procedure = narrow(rest.substr(
          name + 1, std::min<std::size_t>(
                        2 * static_cast<std::size_t>(static_cast<unsigned char>(rest[name])),
                        2 + length - name)));
    const bool seal = asks_for_seal_ || procedure == "seal" || procedure.ends_with(".seal");
    refusals.push_back({code, text, seal ? ".seal(" : "", latest_});
    at += 2 + length;
    done = at + 1;
  }
  answer_.erase(0, done);
  if (answer_.size() > kept_max) answer_.erase(0, answer_.size() - token_max);
}

}  // namespace termgate::cli::drill
