// Reads the file that the option --tokens names.
#pragma once

#include <string>

#include <fmt/format.h>

#include <termgate/http/tokens.hpp>

#include "command.hpp"

namespace termgate::cli {

inline http::Tokens read_tokens(const std::string& path) {
  try {
    return http::Tokens::from_file(path);
  } catch (const http::BadTokens& wrong) {
    throw UsageError(fmt::format("--tokens: {}", wrong.what()));
  }
}

}  // namespace termgate::cli
