#include "reply.hpp"

#include <hiredis/hiredis.h>

#include <new>

namespace termgate::sources {
namespace {

RedisReply copy_of(const redisReply& from) {
  RedisReply reply;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = RedisReply::Kind::integer;
      reply.number = from.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      reply.kind = RedisReply::Kind::text;
      reply.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_ERROR:
      reply.kind = RedisReply::Kind::error;
      reply.text.assign(from.str, static_cast<std::size_t>(from.len));
      for (char& c : reply.text) {
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
      }
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = RedisReply::Kind::array;
      for (std::size_t i = 0; i < static_cast<std::size_t>(from.elements); ++i)
        reply.elements.push_back(copy_of(*from.element[i]));
      break;
    default: break;
  }
  return reply;
}

// The type of an array's length: int in hiredis 0.14, std::size_t later.
template <class Result, class Task, class Length>
Length length_type(Result (*)(Task, Length));
using ArrayLength = decltype(length_type(redisReplyObjectFunctions{}.createArray));

// hiredis reserves as many elements as an array announces, and visits all of them when it frees it:
// a few bytes could cost gigabytes.
void* bounded_array(const redisReadTask* task, ArrayLength elements);

// hiredis's own functions that make replies, with a bound on arrays.
struct Functions {
  redisReplyObjectFunctions all{};
  redisReplyObjectFunctions* usual = nullptr;
  Functions() {
    const std::unique_ptr<redisReader, void (*)(redisReader*)> reader(redisReaderCreate(),
                                                                      redisReaderFree);
    if (!reader) throw std::bad_alloc();
    usual = reader->fn;
    all = *usual;
    all.createArray = bounded_array;
  }
};
Functions& functions() {
  static Functions one;
  return one;
}

void* bounded_array(const redisReadTask* task, ArrayLength elements) {
  if (static_cast<std::size_t>(elements) > RedisReader::elements_max) return nullptr;
  return functions().usual->createArray(task, elements);
}

}  // namespace

void RedisReader::Free::operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }

RedisReader::RedisReader() { reset(); }

void RedisReader::reset() {
  reader_.reset(redisReaderCreateWithFunctions(&functions().all));
  if (!reader_) throw std::bad_alloc();
  fed_ = 0;
}

bool RedisReader::feed(std::string_view bytes) {
  fed_ += bytes.size();
  return fed_ <= answer_bytes_max &&
         redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) == REDIS_OK;
}

std::pair<RedisReader::State, RedisReply> RedisReader::next() {
  void* found = nullptr;
  if (redisReaderGetReply(reader_.get(), &found) != REDIS_OK) return {State::malformed, {}};
  if (found == nullptr) return {State::more, {}};
  fed_ = 0;
  const auto free = [](redisReply* reply) { freeReplyObject(reply); };
  const std::unique_ptr<redisReply, decltype(free)> owned(static_cast<redisReply*>(found), free);
  return {State::complete, copy_of(*owned)};
}

}  // namespace termgate::sources
