// TYPE_INFO: what a column or a parameter is, as far as one must know it to find its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace termgate::tds {

// How a value says how long it is.
enum class ValueForm : std::uint8_t {
  fixed,         // by its type: `size` bytes
  length_1,      // a byte; 0: NULL
  length_2,      // two bytes; 0xFFFF: NULL
  length_4,      // four bytes; 0xFFFFFFFF: NULL. TEXT, NTEXT and IMAGE in a parameter
  text_pointer,  // the same in a row: a pointer with its length in a byte (0: NULL), 8 bytes of time stamp, then four bytes
  variant,       // four bytes; 0: NULL
  partial,       // 8 bytes of length (all 0xFF: NULL), then chunks with four bytes of length each, up to an empty one
};

// Where a TYPE_INFO stands: some types say more in a result than in a request.
enum class TypePlace : std::uint8_t { column, parameter };

struct TypeInfo {
  std::uint8_t type = 0;
  ValueForm form = ValueForm::fixed;
  std::uint32_t size = 0;  // of a fixed value; else the most that its type allows
  std::size_t bytes = 0;   // of the TYPE_INFO itself

  bool is_text() const noexcept;  // TEXT, NTEXT or IMAGE: a column of it names its table
};

// A type at the beginning of `bytes`.
struct TypeRead {
  enum class Kind : std::uint8_t { read, need_more, unknown };
  Kind kind = Kind::unknown;
  TypeInfo info{};
  std::size_t needed = 0;  // need_more: at least so many bytes
};
// Tables as parameters are unknown here, and types that no server has sent since TDS 7.0.
TypeRead read_type(std::string_view bytes, TypePlace place) noexcept;

}  // namespace termgate::tds
