// What goes through unread under a seat: a query, or a group up to its Sync, that is here from its
// first byte to its last and does nothing that the session would have to remember. Of its messages
// the headers and the names are read, of the answers the headers. Everything else takes the way of
// client.cpp and server.cpp, under the same seat.
#pragma once

#include <cstddef>
#include <string_view>

#include <termgate/statements/classify.hpp>

#include "claims.hpp"
#include "judgement.hpp"
#include "line.hpp"
#include "parts.hpp"
#include "seat.hpp"
#include "seating.hpp"

namespace termgate::session {

// Owner: the session's State; its thread.
class Passage {
 public:
  Passage(Line& line, Claims& claims, Texts& texts, ClientNames& names, Seat& seat, Judgement& judgement, Seating& seating,
          const Pipeline& pipeline) noexcept
      : line_(line),
        claims_(claims),
        texts_(texts),
        names_(names),
        seat_(seat),
        judgement_(judgement),
        seating_(seating),
        pipeline_(pipeline) {}

  // How much of the client's bytes was passed on; nothing: what comes next has to be looked at.
  std::size_t pass(std::string_view bytes);
  // The answers to what has passed, up to the one that the session has to see.
  std::string_view answers_in(std::string_view bytes) const noexcept;

 private:
  bool leaves_nothing(const statements::Classified& text, std::string_view sql) const;
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

}  // namespace termgate::session
