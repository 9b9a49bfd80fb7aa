// Parses a Redis server's answers: hiredis reads the protocol, and this class bounds its input and
// copies its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct redisReader;

namespace termgate::sources {

struct RedisReply {
  enum class Kind { nil, integer, text, error, array };
  Kind kind = Kind::nil;
  std::int64_t number = 0;
  std::string text;  // an error's has blanks in place of unprintable characters
  std::vector<RedisReply> elements;
};

class RedisReader {
 public:
  static constexpr std::size_t answer_bytes_max = 64 * 1024;
  static constexpr std::size_t elements_max = 1024;  // elements of one array
  enum class State { complete, more, malformed };

  RedisReader();
  void reset();
  // False: more than answer_bytes_max arrived since the last complete answer.
  bool feed(std::string_view bytes);
  std::pair<State, RedisReply> next();

 private:
  struct Free {
    void operator()(redisReader* reader) const noexcept;
  };
  std::unique_ptr<redisReader, Free> reader_;
  std::size_t fed_ = 0;
};

}  // namespace termgate::sources
