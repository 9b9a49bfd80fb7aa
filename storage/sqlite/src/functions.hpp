// Names that the driver and the functions share, under which arrays are passed by pointer.
#pragma once

namespace termgate {
inline namespace v0 {
namespace sqlite {

// sqlite3_bind_pointer compares these by content. The pointed-to vectors are borrowed for the
// statement.
inline constexpr const char* bytes_array_pointer =
    "termgate::BytesArray";  // std::vector<std::string>
inline constexpr const char* bytes_view_pointer = "termgate::BytesArrayView";  // BytesArrayView
inline constexpr const char* text_array_pointer =
    "termgate::TextArray";  // std::vector<std::optional<std::string>>

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
