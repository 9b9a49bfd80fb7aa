// Writes one line for each event, as text or JSON. A separate thread writes to the descriptor, so a
// slow reader of the log does not delay a session. Any thread may call it. Values may come from
// peers: control characters are escaped, long values are cut.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace termgate::net {

enum class LogLevel : std::uint8_t { debug, info, warning, error };
enum class LogFormat : std::uint8_t { text, json };

struct LogField {
  std::string_view name;  // empty: the field is left out
  std::variant<std::string_view, std::int64_t, bool> value;

  LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
  LogField(std::string_view n, const std::string& v) : name(n), value(std::string_view(v)) {}
  LogField(std::string_view n, const char* v) : name(n), value(std::string_view(v)) {}
  LogField(std::string_view n, bool v) : name(n), value(v) {}
  template <
      typename Integer,
      std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>, int> = 0>
  LogField(std::string_view n, Integer v) : name(n), value(static_cast<std::int64_t>(v)) {}
};

// Returns one line, with its newline. Values longer than 512 bytes are cut.
std::string log_line(LogFormat format, LogLevel level, std::chrono::system_clock::time_point at,
                     std::string_view event, std::initializer_list<LogField> fields);

// The kind of a statement: its first three words, up to the first token that is not a word.
// Comments are skipped, and no value is included.
std::string statement_words(std::string_view sql);

class Log {
 public:
  // Lines that would exceed this are dropped; a line before the next one that fits says how many.
  static constexpr std::size_t waiting_bytes_max = 1u << 20;
  // How many subjects say_seldom() remembers. Above this number it forgets all.
  static constexpr std::size_t subjects_max = 4096;

  // `descriptor` stays the caller's, and must stay open as long as the log exists.
  Log(int descriptor, LogFormat format, LogLevel level);
  // Waits until all lines are written, but for at most about five seconds.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool wanted(LogLevel level) const noexcept { return level >= level_; }
  void say(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  // The same for an event that may come a thousand times a second: logs about one a second for each
  // `subject`. True: it was logged.
  bool say_seldom(std::string_view subject, LogLevel level, std::string_view event,
                  std::initializer_list<LogField> fields = {});

 private:
  void write_all();

  const int descriptor_;
  const LogFormat format_;
  const LogLevel level_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::string waiting_;
  std::size_t dropped_ = 0;
  bool ending_ = false;
  struct Heard {
    std::chrono::steady_clock::time_point at;
  };
  std::unordered_map<std::string, Heard> heard_;
  std::thread writer_;
};

}  // namespace termgate::net
