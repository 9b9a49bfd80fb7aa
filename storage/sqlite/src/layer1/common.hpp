// What the parts of layer 1 share: refusals, checks of arguments, and a reader of small files.
// Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace termgate {
inline namespace v0 {
namespace sqlite {

// Throws TG001, after reporting it to a drill's witness (witness.cpp).
[[noreturn]] void refuse_stale_write(std::string_view scope, std::int64_t term, std::int64_t fence);
[[noreturn]] void refuse_stale_seal(std::string_view scope, std::int64_t term, std::int64_t fence);

// Each throws InvalidInput (TG005) for what it does not accept.
void require_name(const std::string& text, const char* what);
// The text must not be empty, because it goes into the audit.
void require_text(const std::string& text, const char* what);
std::int64_t number_of(const std::string& text, const char* name, std::int64_t low,
                       std::int64_t high);

// The first line of a file; empty if it cannot be read.
std::string first_line(const std::string& path);

}  // namespace sqlite
}  // namespace v0
}  // namespace termgate
