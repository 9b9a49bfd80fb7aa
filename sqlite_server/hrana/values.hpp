// Values as the protocol writes them: {"type":"integer","value":"42"}. An integer is a string, for JavaScript's numbers end at 2^53; a
// float is a number with a point, and null where it is infinite, for JSON has no infinity; a blob is base64 without padding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "port.hpp"

namespace termgate::hrana {

// A JSON string with its quotes. `text` is UTF-8; what is none is replaced by U+FFFD, so that the document stays one. Values of rows come
// here only as UTF-8 (port.hpp).
void append_string(std::string& out, std::string_view text);
void append_number(std::string& out, std::int64_t number);
// The shortest text that reads back as the same float: 42.0, 0.1, 1e+300; null where it is infinite or no number.
void append_float(std::string& out, double number);
void append_base64(std::string& out, std::string_view bytes);
void append_value(std::string& out, const ValueView& value);
// As v0 has them: 42, 0.5, "text", {"base64": "AQI"}, null.
void append_plain_value(std::string& out, const ValueView& value);

// With padding or without. None: a letter that is no base64, or bits left over.
std::optional<std::string> base64_bytes(std::string_view text);
// The URL's alphabet, without padding: batons.
std::string base64url(std::string_view bytes);
std::optional<std::string> base64url_bytes(std::string_view text);

}  // namespace termgate::hrana
