#include "json.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <system_error>

#include <boost/json/basic_parser_impl.hpp>
#include <fmt/format.h>

#include "failure.hpp"
#include "limits.hpp"

namespace termgate::hrana {

namespace json = boost::json;

namespace {

// The memory counted for a value besides its text, and how much is counted at once.
constexpr std::size_t value_bytes = 64;
constexpr std::size_t values_step = 1024;

[[noreturn]] void no_memory() {
  throw Failure(503, code::busy,
                "the requests and answers in flight fill the server's memory for them "
                "(--max-memory); send it again later");
}

// Builds a tree of the values that the parser finds. The parser splits numbers only if the text
// comes in parts, which it does not here.
class Builder {
 public:
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  Builder(json::storage_ptr storage, Charge& charge) : charge_(charge) {
    stack_.reset(std::move(storage));
  }
  json::value release() { return stack_.release(); }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_object_end(std::size_t size, json::error_code&) {
    return stack_.push_object(size), counted();
  }
  bool on_array_end(std::size_t size, json::error_code&) {
    return stack_.push_array(size), counted();
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    return stack_.push_chars(part), true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    return stack_.push_key(part), true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    return stack_.push_chars(part), true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    return stack_.push_string(part), counted();
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t number, json::string_view text, json::error_code&) {
    if (number == 0 && text.front() == '-') {
      stack_.push_double(-0.0);
    } else {
      stack_.push_int64(number);
    }
    return counted();
  }
  bool on_uint64(std::uint64_t number, json::string_view, json::error_code&) {
    return stack_.push_uint64(number), counted();
  }
  bool on_double(double about, json::string_view text, json::error_code& error) {
    double number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc::result_out_of_range && std::fabs(about) < 1) {
      number = std::copysign(0.0, about);  // too small for a double
    } else if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
      error = json::error::exponent_overflow;
      return false;
    }
    stack_.push_double(number);
    return counted();
  }
  bool on_bool(bool flag, json::error_code&) { return stack_.push_bool(flag), counted(); }
  bool on_null(json::error_code&) { return stack_.push_null(), counted(); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool counted() {
    if (++values_ % values_step == 0 &&
        !charge_.grow_to(charge_.bytes() + values_step * value_bytes))
      no_memory();
    return true;
  }

  json::value_stack stack_;
  Charge& charge_;
  std::size_t values_ = 0;
};

std::string reason(const json::error_code& error) {
  if (error == json::error::too_deep)
    return fmt::format("nested deeper than {} (JSON depth)", json_depth_max);
  if (error == json::error::exponent_overflow) return "a number that is too large for a float";
  return error.message();
}

}  // namespace

Document::Document(std::string_view text, Charge& charge) {
  if (!charge.grow_to(charge.bytes() + 2 * text.size())) no_memory();
  json::parse_options options;
  options.max_depth = json_depth_max;
  // The parser has a buffer of some kilobytes. It is on the heap because event loops have small
  // stacks.
  const auto parser =
      std::make_unique<json::basic_parser<Builder>>(options, json::storage_ptr(&memory_), charge);
  json::error_code error;
  const std::size_t read = parser->write_some(false, text.data(), text.size(), error);
  if (error || read != text.size()) {
    const std::string why = error ? reason(error) : "more text after its end";
    throw Failure(
        400, error == json::error::too_deep ? code::too_large : code::protocol,
        fmt::format("the body is no JSON document that can be read: {}, near byte {}", why, read));
  }
  root_ = parser->handler().release();
}

std::string Node::place() const {
  std::string own;
  if (index_ != not_in_array) {
    own = fmt::format("[{}]", index_);
  } else if (!key_.empty()) {
    own = key_;
  }
  if (parent_ == nullptr) return own;
  const std::string before = parent_->place();
  return before.empty() || index_ != not_in_array ? before + own : before + "." + own;
}

void Node::fail(std::string_view what) const {
  const std::string where = place();
  throw Failure(400, code::protocol,
                fmt::format("{} {}", where.empty() ? "the body" : where, what));
}

void Node::too_large(std::string_view what) const {
  const std::string where = place();
  throw Failure(400, code::too_large,
                fmt::format("{} {}", where.empty() ? "the body" : where, what));
}

std::optional<Node> Node::find(std::string_view key) const {
  const auto* object = value_->if_object();
  if (object == nullptr) fail("is no object");
  const auto* found = object->if_contains(key);
  if (found == nullptr || found->is_null()) return std::nullopt;
  return Node(*found, this, key, not_in_array);
}

Node Node::at(std::string_view key) const {
  const auto found = find(key);
  if (!found) fail(fmt::format("has no \"{}\"", key));
  return *found;
}

std::string_view Node::text() const {
  const auto* text = value_->if_string();
  if (text == nullptr) fail("is no string");
  return {text->data(), text->size()};
}

std::int64_t Node::integer() const {
  const auto* number = value_->if_int64();
  if (number == nullptr) fail("is no integer of 64 bits");
  return *number;
}

std::int32_t Node::id() const {
  const auto* number = value_->if_int64();
  if (number == nullptr || *number < std::numeric_limits<std::int32_t>::min() ||
      *number > std::numeric_limits<std::int32_t>::max()) {
    fail("is no integer of 32 bits");
  }
  return static_cast<std::int32_t>(*number);
}

double Node::number() const {
  if (const auto* integer = value_->if_int64()) return static_cast<double>(*integer);
  if (const auto* integer = value_->if_uint64()) return static_cast<double>(*integer);
  const auto* number = value_->if_double();
  if (number == nullptr) fail("is no number");
  return *number;
}

bool Node::flag() const {
  const auto* flag = value_->if_bool();
  if (flag == nullptr) fail("is neither true nor false");
  return *flag;
}

std::size_t Node::size(std::size_t limit, std::string_view limit_name) const {
  const auto* array = value_->if_array();
  if (array == nullptr) fail("is no array");
  if (array->size() > limit)
    too_large(fmt::format("has {} entries; at most {} ({})", array->size(), limit, limit_name));
  return array->size();
}

Node Node::item(std::size_t index) const {
  return Node(value_->get_array()[index], this, {}, index);
}

}  // namespace termgate::hrana
