// What the parts of layer 1 share: refusals, and what a caller's words must be. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace termgate::inline v0::sqlite {

// TG001, noted for a drill's witness first (witness.cpp).
[[noreturn]] void refuse_stale_write(std::string_view scope, std::int64_t term, std::int64_t fence);
[[noreturn]] void refuse_stale_seal(std::string_view scope, std::int64_t term, std::int64_t fence);

// Each throws InvalidInput (TG005) for what it does not accept.
void require_name(const std::string& text, const char* what);
// Not empty, for it goes into the audit.
void require_text(const std::string& text, const char* what);
std::int64_t number_of(const std::string& text, const char* name, std::int64_t low, std::int64_t high);

// The first line of a file, empty where it cannot be read.
std::string first_line(const std::string& path);

}  // namespace termgate::inline v0::sqlite
