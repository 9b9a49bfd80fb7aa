// Values as the protocol writes them: {"type":"integer","value":"42"}. An integer is a string,
// because JavaScript's numbers are exact only up to 2^53; a float is a number with a decimal point
// or an exponent, or NULL if it is infinite, because JSON has no infinity; a blob is base64 without
// padding. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "port.hpp"

namespace termgate::hrana {

// A JSON string with its quotes. Bytes of `text` that are not UTF-8 are replaced by U+FFFD, so that
// the document stays valid. Values of rows are always UTF-8 (port.hpp).
void append_string(std::string& out, std::string_view text);
void append_number(std::string& out, std::int64_t number);
// The shortest text that reads back as the same float: 42.0, 0.1, 1e+300; null if it is infinite or
// not a number.
void append_float(std::string& out, double number);
void append_base64(std::string& out, std::string_view bytes);
void append_value(std::string& out, const ValueView& value);
// The form of v0: 42, 0.5, "text", {"base64": "AQI"}, null.
void append_plain_value(std::string& out, const ValueView& value);

// With or without padding. nullopt: a character that is not base64, wrong padding, an impossible
// length, or leftover bits that are not zero.
std::optional<std::string> base64_bytes(std::string_view text);
// Base64 with the URL's alphabet, without padding, for batons.
std::string base64url(std::string_view bytes);
std::optional<std::string> base64url_bytes(std::string_view text);

}  // namespace termgate::hrana
