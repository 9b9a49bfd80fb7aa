// The input of `append`, `sql` and `verify --history`: a file or standard input. It is read with
// read(2), so that an error is never taken for the end of the input or the end for an error. It
// holds at most one payload of the largest size in memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace termgate::cli {

// While an object of this class exists, the first SIGINT only sets a flag and makes wake()
// readable; the second one ends the process. At most one object at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  bool seen() const;
  // A descriptor that becomes readable when SIGINT arrives.
  int wake() const;
};

class Input {
 public:
  // "-" is standard input. Throws UsageError if the file cannot be opened or is a directory.
  explicit Input(std::string path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // The rest of the input, in one buffer, which is not copied again once it is large. Throws
  // InvalidInput (TG005) if there are more than `bytes_max` bytes: it then stops reading, and does
  // not begin with a file that is larger by its size. Throws Error if reading fails.
  std::string all(std::size_t bytes_max);

  enum class Next { line, end, quiet, interrupted };
  // Reads the next line, without its newline; the last line may lack one. Returns `quiet` if no
  // line has come within `wait` (negative: wait for ever). Throws like all(), here for a line of
  // more than `bytes_max`; the error names the line.
  Next line(std::string& line, std::size_t bytes_max, std::chrono::milliseconds wait,
            const Interrupts& interrupts);

 private:
  std::size_t read_some(char* bytes, std::size_t size);  // returns 0 at the end
  std::string name() const;

  std::string path_;
  int file_;
  bool ended_ = false;
  // Bytes that were read and not yet returned; they begin at at_.
  std::string buffer_;
  std::size_t at_ = 0;
  std::string line_;        // the start of a line whose newline has not been read yet
  std::int64_t lines_ = 0;  // lines returned so far
};

}  // namespace termgate::cli
