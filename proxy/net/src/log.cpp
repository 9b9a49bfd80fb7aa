// Names come from the network, so a value that is not plain ASCII is quoted, and what is no
// printable character of UTF-8 is escaped: it cannot begin a new line or control a terminal.
#include <termgate/net/log.hpp>
#include <termgate/text/ascii.hpp>
#include <termgate/text/scanner.hpp>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <fmt/format.h>

namespace termgate::net {
namespace {

constexpr std::size_t value_bytes_max = 512;

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warning: return "warning";
    case LogLevel::error: return "error";
  }
  return "";
}

// How many bytes the UTF-8 character at `at` has. 0: it must not be logged as it is, because it is
// a C1 control or not valid UTF-8, which a name from a peer need not be.
std::size_t character(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xC2 && lead < 0xE0 ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return 0;
  }
  const auto second = size > 1 ? static_cast<unsigned char>(text[at + 1]) : 0;
  // Refuses overlong forms, surrogates and code points beyond U+10FFFF; then C1 controls, which can
  // control terminals.
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F))
    return 0;
  if (lead == 0xC2 && second < 0xA0) return 0;
  return size;
}

void append_quoted(std::string& out, std::string_view text) {
  const bool cut = text.size() > value_bytes_max;
  if (cut) text = text.substr(0, value_bytes_max);
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t size = character(text, i);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++i;
    } else if (size == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      // JSON has no bytes: what is not a character is shown as U+00NN.
      fmt::format_to(std::back_inserter(out), "\\u00{:02x}", static_cast<unsigned char>(c));
      ++i;
    } else {
      out.append(text, i, size);
      i += size;
    }
  }
  if (cut) out += "...";
  out += '"';
}

bool plain(std::string_view text) {
  if (text.empty() || text.size() > value_bytes_max) return false;
  for (char c : text) {
    if (c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '=') return false;
  }
  return true;
}

}  // namespace

std::string statement_words(std::string_view sql) {
  using Kind = text::Token::Kind;
  constexpr int words_max = 3;
  constexpr std::size_t bytes_max = 100;
  std::string words, name;  // `name` is the one being read, perhaps of several parts with dots
  int count = 0;
  const auto add = [&] {
    if (name.empty() || words.size() + name.size() > bytes_max) return false;
    words.append(words.empty() ? "" : " ").append(name);
    name.clear();
    return ++count < words_max;
  };
  text::Scanner scanner(sql, text::Dialect::postgresql);
  for (text::Token token; scanner.next(token);) {
    const bool begins = words.empty() && name.empty();
    const bool plain =
        token.text.find('$') == std::string_view::npos && !text::has_high(token.text);
    if (token.kind == Kind::blank && name.empty()) continue;
    if (token.kind == Kind::blank) {
      if (!add()) return words;
    } else if (token.kind == Kind::word && plain) {
      name += token.text;
    } else if (token.text == "." && !name.empty()) {
      name += '.';
    } else if (!begins || (token.text != "(" && token.kind != Kind::semicolon)) {
      // What directly follows a word may be part of a value, as in B'…' and U&'…'.
      if (token.kind == Kind::quoted || token.text == "&" || !plain) return words;
      break;
    }
  }
  add();
  return words;
}

std::string log_line(LogFormat format, LogLevel level, std::chrono::system_clock::time_point at,
                     std::string_view event, std::initializer_list<LogField> fields) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  const std::string moment =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
  const bool json = format == LogFormat::json;
  std::string line =
      json ? fmt::format(R"({{"at":"{}","level":"{}","event":)", moment, name_of(level))
           : fmt::format("{} {} ", moment, name_of(level));
  if (json) append_quoted(line, event);
  else line += event;
  for (const LogField& field : fields) {
    if (field.name.empty()) continue;  // the value is not known
    if (json) {
      line += ",\"";
      line += field.name;
      line += "\":";
    } else {
      line += ' ';
      line += field.name;
      line += '=';
    }
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      if (!json && plain(*text)) line += *text;
      else append_quoted(line, *text);
    } else if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      fmt::format_to(std::back_inserter(line), "{}", *number);
    } else {
      line += std::get<bool>(field.value) ? "true" : "false";
    }
  }
  line += json ? "}\n" : "\n";
  return line;
}

Log::Log(int descriptor, LogFormat format, LogLevel level)
    : descriptor_(descriptor), format_(format), level_(level) {
  writer_ = std::thread([this] { write_all(); });
}

Log::~Log() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void Log::say(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!wanted(level)) return;
  const std::string line =
      log_line(format_, level, std::chrono::system_clock::now(), event, fields);
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() > waiting_bytes_max) {
      ++dropped_;
      return;
    }
    if (dropped_ > 0) {
      waiting_ += log_line(format_, LogLevel::warning, std::chrono::system_clock::now(),
                           "log_lines_dropped", {{"lines", dropped_}});
      dropped_ = 0;
    }
    waiting_ += line;
  }
  changed_.notify_one();
}

bool Log::say_seldom(std::string_view subject, LogLevel level, std::string_view event,
                     std::initializer_list<LogField> fields) {
  if (!wanted(level)) return false;
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, first] = heard_.try_emplace(std::string(subject), Heard{now});
    if (!first) {
      if (now - entry->second.at < std::chrono::seconds(1)) return false;
      entry->second.at = now;
    } else if (heard_.size() > subjects_max) {
      heard_.clear();  // logging an event twice within a second is the lesser evil
    }
  }
  say(level, event, fields);
  return true;
}

void Log::write_all() {
  std::string lines;
  auto give_up = std::chrono::steady_clock::time_point::max();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      lines.swap(waiting_);
    }
    for (std::size_t at = 0; at < lines.size();) {
      // The descriptor may block. Waiting for it here lets this thread notice the end.
      pollfd ready{descriptor_, POLLOUT, 0};
      const bool blocked = poll(&ready, 1, 200) == 0;
      {
        // Checked also if the descriptor accepts bytes: a slow reader must not delay the end.
        const std::lock_guard lock(mutex_);
        const auto now = std::chrono::steady_clock::now();
        if (ending_ && give_up == std::chrono::steady_clock::time_point::max())
          give_up = now + std::chrono::seconds(5);
        if (now > give_up) return;
      }
      if (blocked) continue;
      const ssize_t written =
          write(descriptor_, lines.data() + at, std::min<std::size_t>(lines.size() - at, 4096));
      if (written > 0) at += static_cast<std::size_t>(written);
      else if (errno != EINTR && errno != EAGAIN)
        break;  // the log has no reader any more, and there is nowhere to report that
    }
    lines.clear();
  }
}

}  // namespace termgate::net
