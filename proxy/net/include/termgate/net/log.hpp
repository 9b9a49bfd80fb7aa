// One line an event, as text or JSON, written to a descriptor by a thread of its own: a reader of the log that is slow holds up no
// session. Any thread. What is logged comes from peers in part: controls are escaped, long values are cut.
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
  template <typename Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>, int> = 0>
  LogField(std::string_view n, Integer v) : name(n), value(static_cast<std::int64_t>(v)) {}
};

// One line, with its newline. Values longer than 512 bytes are cut.
std::string log_line(LogFormat format, LogLevel level, std::chrono::system_clock::time_point at, std::string_view event,
                     std::initializer_list<LogField> fields);

// What kind of statement it is: its first three words, up to the first thing that is none. Comments are passed over, and no value is among
// them.
std::string statement_words(std::string_view sql);

class Log {
 public:
  static constexpr std::size_t waiting_bytes_max = 1u << 20;  // beyond it lines are dropped, and the next one says how many
  static constexpr std::size_t subjects_max = 4096;

  Log(int descriptor, LogFormat format, LogLevel level);
  ~Log();  // once all that was said is written, or five seconds are over
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool wanted(LogLevel level) const noexcept { return level >= level_; }
  void say(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
  // The same for what may come a thousand times a second: at most once a second for `subject`; true where it was said.
  bool say_seldom(std::string_view subject, LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

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
