// TYPE_INFO: the type of a column or a parameter, as far as it is needed to find the end of a
// value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace termgate::tds {

// How the length of a value is encoded.
enum class ValueForm : std::uint8_t {
  fixed,     // given by the type: `size` bytes
  length_1,  // one byte; 0: NULL
  length_2,  // two bytes; 0xFFFF: NULL
  length_4,  // four bytes; 0xFFFFFFFF: NULL. TEXT, NTEXT and IMAGE in a parameter
  // TEXT, NTEXT and IMAGE in a row: a pointer after its length in one byte (0: NULL), 8 bytes of
  // time stamp, then a length in four bytes.
  text_pointer,
  variant,  // four bytes; 0: NULL
  // 8 bytes of length (all 0xFF: NULL), then chunks, each after its length in four bytes, up to an
  // empty one.
  partial,
};

// Where a TYPE_INFO occurs: some types have more fields in a result than in a request.
enum class TypePlace : std::uint8_t { column, parameter };

struct TypeInfo {
  std::uint8_t type = 0;
  ValueForm form = ValueForm::fixed;
  std::uint32_t size = 0;  // of a fixed value; otherwise the size or scale that the type declares
  std::size_t bytes = 0;   // length of the TYPE_INFO itself

  // TEXT, NTEXT or IMAGE: a column of these types also has the name of its table.
  bool is_text() const noexcept;
};

// The result of reading a type at the beginning of `bytes`.
struct TypeRead {
  enum class Kind : std::uint8_t { read, need_more, unknown };
  Kind kind = Kind::unknown;
  TypeInfo info{};
  std::size_t needed = 0;  // for need_more: at least this many bytes
};
// Unknown here are, among others, JSON, vector, and a table as a parameter (which CallReader
// reads).
TypeRead read_type(std::string_view bytes, TypePlace place) noexcept;

}  // namespace termgate::tds
