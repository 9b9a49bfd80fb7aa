#include "passage.hpp"

#include <algorithm>
#include <functional>
#include <optional>

#include <termgate/pgwire/decode.hpp>
#include <termgate/pgwire/types.hpp>

#include "effects.hpp"
#include "names.hpp"

namespace termgate::pg_session {

namespace frontend = pgwire::frontend;
namespace backend = pgwire::backend;
using statements::Kind;
using Way = Effects::Way;

namespace {

constexpr std::size_t header_bytes = 5;
constexpr std::size_t passed_bytes_max = 8u << 10;  // the longest client message in a passage

struct Message {
  char type = 0;
  std::string_view frame, body;
};

// The message that `bytes` begin with, if it has arrived completely.
std::optional<Message> whole_message(std::string_view bytes) noexcept {
  if (bytes.size() < header_bytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 1; i < header_bytes; ++i)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length < header_bytes - 1 || bytes.size() - 1 < length) return std::nullopt;
  const std::string_view frame = bytes.substr(0, length + 1);
  return Message{frame.front(), frame, frame.substr(header_bytes)};
}

// Whether nothing of the statement outlasts its transaction except what it writes. Such a statement
// also passes under a seat (Seating::passes_seated).
bool outlives_nothing(const Effects& effects) noexcept {
  return (effects.kind == Kind::write || effects.kind == Kind::provably_read) &&
         (effects.way == Way::write || effects.way == Way::read) && effects.prepares.name.empty() &&
         !effects.has(Effect::calls_unknown | Effect::input_runs_code |
                      Effect::changes_declaration | Effect::unsettles | Effect::runs_prepared |
                      Effect::declares | Effect::own_check | Effect::sets_default_access);
}

bool is_of_a_result(char type) noexcept {
  switch (type) {
    case backend::parse_complete:
    case backend::bind_complete:
    case backend::row_description:
    case backend::no_data:
    case backend::data_row:
    case backend::command_complete:
    case backend::empty_query_response:
    // COPY (INSERT … RETURNING …) TO STDOUT counts as a write like any other.
    case backend::copy_out_response:
    case backend::copy_data:
    case backend::copy_done: return true;
    default: return false;
  }
}

}  // namespace

std::size_t Passage::pass(std::string_view bytes) {
  if (!seat_.held() || !line_.client_reader.between_messages() || pipeline_.refused() ||
      line_.server_skips || !seating_.at_rest())
    return 0;
  claims_.transaction_begins();
  if (!seating_.seat_covers()) return 0;
  const std::size_t passed =
      !bytes.empty() && bytes.front() == frontend::query ? query_in(bytes) : group_in(bytes);
  if (passed == 0) return 0;
  seating_.forget_peeked();
  claims_.hand_over(true);
  seat_.used(line_.now);
  texts_.outstanding.functions = true;  // a view or a trigger may run functions
  line_.server.add(bytes.substr(0, passed), {.request = Request::passage});
  return passed;
}

std::optional<Effects> Passage::leaving_nothing(std::string_view sql) const {
  const Text& text = seating_.peek(sql);
  if (text->statements.size() != 1 || judgement_.names_ours(*text) || judgement_.declares(*text))
    return std::nullopt;
  Effects effects = effects_of(*text, sql);
  if (!outlives_nothing(effects)) return std::nullopt;
  return effects;
}

std::size_t Passage::query_in(std::string_view bytes) {
  const auto message = whole_message(bytes);
  if (!message || message->frame.size() > passed_bytes_max) return 0;
  const auto query = pgwire::decode_query(message->body);
  if (!query || !leaving_nothing(query->sql)) return 0;
  names_.statements.erase("");
  judgement_.unit_is(query->sql);
  return message->frame.size();
}

// Parse of the unnamed statement, or none; then Bind, Describe and Execute of the unnamed portal,
// in any number; Sync.
std::size_t Passage::group_in(std::string_view bytes) {
  std::optional<Known> parsed;
  std::string_view sql;
  bool bound = false;
  std::size_t at = 0;
  for (;;) {
    const auto message = whole_message(bytes.substr(at));
    if (!message || message->frame.size() > passed_bytes_max) return 0;
    at += message->frame.size();
    switch (message->type) {
      case frontend::parse: {
        const auto parse = pgwire::decode_parse(message->body);
        if (!parse || !parse->statement.empty() || parsed || bound) return 0;
        const std::vector<std::uint32_t> types = pgwire::decode_parse_types(message->body);
        if (std::any_of(types.begin(), types.end(),
                        [](std::uint32_t type) { return type >= first_user_oid; }))
          return 0;
        sql = parse->sql;
        std::optional<Effects> effects = leaving_nothing(sql);
        if (!effects) return 0;
        parsed.emplace();
        parsed->effects = std::move(*effects);
        parsed->identity = std::hash<std::string_view>()(sql);
        parsed->hash = parsed->effects.way == Way::read ? judgement_.hash_of(sql) : 0;
        break;
      }
      case frontend::bind: {
        const auto names = pgwire::decode_bind_names(message->body);
        if (!names || !names->portal.empty() || is_reserved(names->statement)) return 0;
        const Known* known =
            names->statement.empty() && parsed ? &*parsed : names_.known(names->statement);
        if (known == nullptr || !known->declared.empty() || known->again ||
            !outlives_nothing(known->effects))
          return 0;
        bound = true;
        break;
      }
      case frontend::describe: {
        const auto named = pgwire::decode_describe(message->body);
        if (!bound || !named || !named->portal || !named->name.empty()) return 0;
        break;
      }
      case frontend::execute: {
        const auto execute = pgwire::decode_execute(message->body);
        if (!bound || !execute || !execute->portal.empty() || execute->rows_max != 0) return 0;
        break;
      }
      case frontend::sync:
        if (!bound || message->frame.size() != header_bytes) return 0;
        if (parsed) {
          judgement_.unit_is(sql);
          names_.statements.insert_or_assign("", std::move(*parsed));
        }
        return at;
      default: return 0;
    }
  }
}

std::string_view Passage::answers_in(std::string_view bytes) const noexcept {
  if (line_.server.replies.empty() || line_.server.replies.head().request != Request::passage ||
      !line_.server_reader.between_messages())
    return {};
  std::size_t at = 0;
  for (auto message = whole_message(bytes); message && is_of_a_result(message->type);
       message = whole_message(bytes.substr(at)))
    at += message->frame.size();
  return bytes.substr(0, at);
}

}  // namespace termgate::pg_session
