// storm: the log of what a process does and sees. Each step is written before it begins and after
// it ends, so that kill -9 loses only the answer.
//
// Each process has a file, each fact a line, written by one write(2) with O_APPEND. Moments are
// nanoseconds of CLOCK_MONOTONIC.
//   B number moment kind scope term id rows    before the first byte is sent; kind: w(rite), a(cquisition), t(akeover, an acquisition that
//                                            must be answered within `rows` milliseconds), l(ook); "-": no id
//   E number moment outcome term place code    after the answer; outcome: c(ommitted), r(efused), u(nknown); place "-": none
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/testkit/history.hpp>

namespace termgate::cli::storm {

using testkit::Moment;
using testkit::Operation;
using testkit::Outcome;

Moment moment_now() noexcept;

// Calls may come from any thread.
class Log {
 public:
  explicit Log(const std::string& path);  // throws Error
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Returns the number to pass to end(). `kind`: w, a, t or l; `id` must not contain blanks. Throws
  // Error if the line could not be written: then nothing may be sent.
  std::int64_t begin(char kind, std::string_view scope, std::int64_t term = 0,
                     std::string_view id = {}, int rows = 0);
  // `code` is the error's, TG001 … or the database's own; empty if there is none. The term is an
  // argument because an acquisition learns it only from the answer.
  void end(std::int64_t number, Outcome outcome, std::int64_t term,
           std::optional<std::int64_t> place = {}, std::string_view code = {});

 private:
  void put(const std::string& line);
  int file_;
  std::atomic<std::int64_t> next_{0};
};

// Parts of an answer that the checker does not need; they go into the statistics.
struct Answer {
  std::string code;
  bool acquired_nothing = false;  // another owner holds the lease
};

// The history so far, read from all files that were added. One thread.
class History {
 public:
  void add(const std::string& path, const std::string& client);
  // Reads what was added to the files since the last call. A last line without a newline is not
  // complete yet, and may never be.
  void read_on();

  const std::vector<Operation>& operations() const { return operations_; }
  const std::vector<Answer>& answers() const {
    return answers_;
  }  // answers()[i] belongs to operations()[i]

 private:
  struct File {
    std::string path, client, rest;
    std::int64_t at = 0;
    std::map<std::int64_t, std::size_t> open;  // operations without an end, by number
  };
  void take(File& file, std::string_view line);

  std::vector<File> files_;
  std::vector<Operation> operations_;
  std::vector<Answer> answers_;
};

}  // namespace termgate::cli::storm
