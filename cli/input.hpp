// What `append` reads: a file or standard input, by read(2), so that an error is never taken for the end, nor the end for
// an error. What is held in memory is bounded by the largest payload, whatever comes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace termgate::cli {

// Until destroyed, SIGINT only sets a flag and wakes whoever waits in Input::line(); a second one ends the process.
// One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  bool seen() const;
  int wake() const;  // a descriptor that can be read from once SIGINT has come
};

class Input {
 public:
  // "-": standard input. Throws UsageError where the file cannot be opened or is a directory.
  explicit Input(std::string path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // All that is left, in one buffer that is never copied. Throws InvalidInput (TG005) for more than `bytes_max`, without reading the rest
  // (a file: any of it); Error where reading fails.
  std::string all(std::size_t bytes_max);

  enum class Next { line, end, quiet, interrupted };
  // The next line, without its newline; the last one may lack it. quiet: none has come within `wait` (negative: for ever).
  // Throws as all() does, for a line of more than `bytes_max`; the error names the line.
  Next line(std::string& line, std::size_t bytes_max, std::chrono::milliseconds wait, const Interrupts& interrupts);

 private:
  std::size_t read_some(char* bytes, std::size_t size);  // 0: the end
  std::string name() const;

  std::string path_;
  int file_;
  bool ended_ = false;
  std::string buffer_;  // read and not yet handed out, from at_ on
  std::size_t at_ = 0;
  std::string line_;        // the beginning of a line whose end has not come yet
  std::int64_t lines_ = 0;  // handed out so far
};

}  // namespace termgate::cli
