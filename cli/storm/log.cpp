// The logs of a storm (log.hpp shows the format). Each line is one write(2). So a killed process
// leaves whole lines, and at most one incomplete last line. read_on() keeps that, because the
// process may only be at work on it.
#include "storm/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <termgate/error.hpp>

namespace termgate::cli::storm {
namespace {

std::int64_t number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size())
    throw Error(fmt::format("storm: \"{}\" in a log is not a number", text));
  return value;
}

}  // namespace

Moment moment_now() noexcept {
  return std::chrono::duration_cast<Moment>(std::chrono::steady_clock::now().time_since_epoch());
}

Log::Log(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw Error(fmt::format("storm: {}: {}", path, std::strerror(errno)));
}

Log::~Log() { close(file_); }

// If the disk has no room for a whole line, nothing of it stays: the next line would be joined to
// half a line. Each log has one writer.
void Log::put(const std::string& line) {
  const ssize_t count = ::write(file_, line.data(), line.size());
  if (count == static_cast<ssize_t>(line.size())) return;
  const int why = count < 0 ? errno : ENOSPC;
  struct stat about {};
  if (count > 0 && (fstat(file_, &about) != 0 || ftruncate(file_, about.st_size - count) != 0))
    _exit(1);
  throw Error(fmt::format("storm: its log could not be written: {}", std::strerror(why)));
}

std::int64_t Log::begin(char kind, std::string_view scope, std::int64_t term, std::string_view id,
                        int rows) {
  const std::int64_t number = ++next_;
  put(fmt::format("B {} {} {} {} {} {} {}\n", number, moment_now().count(), kind, scope, term,
                  id.empty() ? "-" : id, rows));
  return number;
}

void Log::end(std::int64_t number, Outcome outcome, std::int64_t term,
              std::optional<std::int64_t> place, std::string_view code) {
  const Moment now = moment_now();
  const char letter = outcome == Outcome::committed ? 'c' : outcome == Outcome::refused ? 'r' : 'u';
  put(fmt::format("E {} {} {} {} {} {}\n", number, now.count(), letter, term,
                  place ? std::to_string(*place) : "-", code.empty() ? "-" : code));
}

void History::add(const std::string& path, const std::string& client) {
  files_.push_back({path, client, {}, 0, {}});
}

void History::read_on() {
  for (File& file : files_) {
    const int from = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (from < 0) continue;  // its process has not created it yet
    std::array<char, 65536> bytes;
    for (;;) {
      const ssize_t count = pread(from, bytes.data(), bytes.size(), file.at);
      if (count <= 0) break;
      file.at += count;
      file.rest.append(bytes.data(), static_cast<std::size_t>(count));
      std::size_t begin = 0;
      for (auto newline = file.rest.find('\n'); newline != std::string::npos;
           newline = file.rest.find('\n', begin)) {
        take(file, std::string_view(file.rest).substr(begin, newline - begin));
        begin = newline + 1;
      }
      file.rest.erase(0, begin);
    }
    close(from);
  }
}

void History::take(File& file, std::string_view line) {
  std::array<std::string_view, 8> words;
  std::size_t count = 0;
  for (std::size_t at = 0; at <= line.size() && count < words.size(); ++count) {
    const std::size_t blank = std::min(line.find(' ', at), line.size());
    words[count] = line.substr(at, blank - at);
    at = blank + 1;
  }
  if (count == 8 && words[0] == "B") {
    Operation one;
    one.kind = words[3] == "w"                      ? Operation::Kind::write
               : words[3] == "a" || words[3] == "t" ? Operation::Kind::raise
                                                    : Operation::Kind::look;
    one.acquisition = one.kind == Operation::Kind::raise;
    one.outcome = Outcome::unknown;
    one.scope = words[4];
    one.term = number_of(words[5]);
    if (words[6] != "-") one.id = words[6];
    one.rows = static_cast<int>(number_of(words[7]));
    if (words[3] == "t") one.within = std::chrono::milliseconds(std::exchange(one.rows, 1));
    one.invoked = Moment(number_of(words[2]));
    one.client = file.client;
    file.open[number_of(words[1])] = operations_.size();
    operations_.push_back(std::move(one));
    answers_.emplace_back();
    return;
  }
  if (count != 7 || words[0] != "E")
    throw Error(fmt::format("storm: {} has a line that no storm writes: {}", file.path, line));
  const auto found = file.open.find(number_of(words[1]));
  if (found == file.open.end())
    throw Error(fmt::format("storm: {} ends what never began: {}", file.path, line));
  Operation& one = operations_[found->second];
  one.outcome = words[3] == "c"   ? Outcome::committed
                : words[3] == "r" ? Outcome::refused
                                  : Outcome::unknown;
  one.term = number_of(words[4]);
  if (words[5] != "-") one.place = number_of(words[5]);
  one.answered = Moment(number_of(words[2]));
  Answer& answer = answers_[found->second];
  if (words[6] != "-") answer.code = words[6];
  answer.acquired_nothing =
      one.kind == Operation::Kind::raise && one.outcome == Outcome::refused && answer.code.empty();
  file.open.erase(found);
}

}  // namespace termgate::cli::storm
