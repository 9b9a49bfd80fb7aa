// A passage: a query, or a group up to its Sync, that goes to the server in one piece while the
// session has a seat. It has arrived completely and does nothing that the session would have to
// remember. The text of a Query or Parse is classified once. Of the other messages only headers,
// names and the row limit of an Execute are parsed, of the replies only headers. Everything else
// takes the path of client.cpp and server.cpp, under the same seat.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "claims.hpp"
#include "effects.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "parts.hpp"
#include "seat.hpp"
#include "seating.hpp"

namespace termgate::pg_session {

// Owner: the session's State; its thread.
class Passage {
 public:
  Passage(Line& line, Claims& claims, Texts& texts, ClientNames& names, Seat& seat,
          Judgement& judgement, Seating& seating, const Pipeline& pipeline) noexcept
      : line_(line),
        claims_(claims),
        texts_(texts),
        names_(names),
        seat_(seat),
        judgement_(judgement),
        seating_(seating),
        pipeline_(pipeline) {}

  // Returns how many of the client's bytes were passed on. 0: the next message has to be parsed.
  std::size_t pass(std::string_view bytes);
  // The leading part of `bytes` that answers what has passed, up to the reply that the session has
  // to see.
  std::string_view answers_in(std::string_view bytes) const noexcept;

 private:
  // The effects of a text, if it may pass.
  std::optional<Effects> leaving_nothing(std::string_view sql) const;
  std::size_t query_in(std::string_view bytes);
  std::size_t group_in(std::string_view bytes);

  Line& line_;
  Claims& claims_;
  Texts& texts_;
  ClientNames& names_;
  Seat& seat_;
  Judgement& judgement_;
  Seating& seating_;
  const Pipeline& pipeline_;
};

}  // namespace termgate::pg_session
