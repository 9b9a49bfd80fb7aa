// Core: the state that the parts of the front share, and the decision who may do what. Private to
// front/.
//
// Owner: Front. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <termgate/http/handler.hpp>
#include <termgate/http/tokens.hpp>
#include <termgate/sqlite_front/front.hpp>

#include "claim/claim.hpp"
#include "front/admissions.hpp"
#include "front/counts.hpp"
#include "front/files.hpp"
#include "front/workers.hpp"
#include "hrana/streams.hpp"

namespace termgate::sqlite_front {

// A caller and what the rules look at.
struct Sender {
  claim::Caller caller;
  RuleSubject subject;
  Whose whose;
  // Views of the headers, which the request owns.
  claim::Headers headers;
};

class Core {
 public:
  explicit Core(Options the_options);

  // Identified by the headers, and by `token` if a WebSocket's message brings one.
  std::variant<Sender, claim::Refusal> sender(const http::Head& head,
                                              std::optional<std::string_view> token = {}) const;
  // The permit that its writes are checked with. nullopt: call permit(), which may block until the
  // rules have an answer.
  std::optional<std::variant<hrana::Permit, claim::Refusal>> permit_at_once(const Sender& sender);
  std::variant<hrana::Permit, claim::Refusal> permit(const Sender& sender);

  void log(bool warning, std::string_view name,
           std::vector<std::pair<std::string_view, std::string>> fields, bool seldom = false) const;
  // A share of --max-memory, for a body or message while it arrives.
  std::unique_ptr<http::Room> room();
  // Reads tokens and keys from their files. Throws std::runtime_error.
  std::shared_ptr<const claim::Doors> read_doors() const;
  void use(std::shared_ptr<const claim::Doors> doors);

  const Options options;
  Counts counts;
  Workers workers;
  Files files;
  hrana::Streams streams;

 private:
  std::variant<hrana::Permit, claim::Refusal> permit_by(const Sender& sender,
                                                        const Admissions::Answer& answer);
  claim::Standing standing() const;

  mutable std::mutex doors_mutex_;  // guards doors_
  std::shared_ptr<const claim::Doors> doors_;

 public:
  std::optional<Admissions> admissions;  // none: there are no rules
};

http::Reply refusal_reply(const claim::Refusal& refusal);
http::Reply error_reply(unsigned status, std::string_view code, std::string_view message);

}  // namespace termgate::sqlite_front
