// A replication connection, if a rule admits it: what passes in each direction.
#pragma once

#include <string_view>

#include <termgate/statements/settings.hpp>

#include "claims.hpp"
#include "line.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Replication {
 public:
  Replication(Line& line, const Claims& claims, statements::Settings& settings) noexcept
      : line_(line), claims_(claims), settings_(settings) {}

  void from_client(std::string_view bytes);
  void from_server(std::string_view bytes);

 private:
  Line& line_;
  const Claims& claims_;
  statements::Settings& settings_;
  bool query_unanswered_ = false;
};

}  // namespace termgate::pg_session
