// Reads one conversation of PostgreSQL's protocol. It never changes a byte and must never fail: if
// it meets something that it cannot parse, it stops reading, and the drill relies on other
// witnesses.
//
// A write counts once its transaction has committed. open_ holds the writes of the open
// transaction; savepoints_ holds the size of open_ at each savepoint.
#include "drill/wire.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include <termgate/text/ascii.hpp>

namespace termgate::cli::drill {
namespace {

constexpr std::size_t text_bytes_kept = 400;
constexpr std::size_t names_max = 10'000;
constexpr std::size_t requests_max = 100'000;

std::string_view take_text(std::string_view& body) {
  const auto end = std::min(body.find('\0'), body.size());
  const std::string_view text = body.substr(0, end);
  body.remove_prefix(std::min(end + 1, body.size()));
  return text;
}

std::string beginning(std::string_view text) {
  return std::string(text.substr(0, text_bytes_kept));
}

bool goes_back_to_a_savepoint(std::string_view sql) {
  const std::string text = text::lower(sql);
  const auto at = text.find("rollback");
  return at != std::string::npos && text.find(" to", at) != std::string::npos;
}

// Whether the tag is that of a write: INSERT 0 3, UPDATE 1, DELETE 2, MERGE 4, COPY 10 or TRUNCATE
// TABLE. A statement that changed no rows is not a write.
bool is_write(std::string_view tag) {
  if (tag.starts_with("TRUNCATE TABLE")) return true;
  const auto word = tag.substr(0, tag.find(' '));
  if (word != "INSERT" && word != "UPDATE" && word != "DELETE" && word != "MERGE" && word != "COPY")
    return false;
  return !tag.ends_with(" 0");
}

}  // namespace

void Conversation::from_client(std::string_view bytes, Moment now) {
  latest_ = now;
  if (readable_)
    readable_ = client_.add(
        bytes, [&](char type, std::string_view body) { client_message(type, body, now); });
}

void Conversation::from_server(std::string_view bytes) {
  if (readable_)
    readable_ =
        server_.add(bytes, [&](char type, std::string_view body) { server_message(type, body); });
}

void Conversation::client_message(char type, std::string_view body, Moment now) {
  if (requests_.size() >= requests_max) {
    readable_ = false;
    return;
  }
  // Clients choose names and need not free them, so the maps are cleared when they grow large. Only
  // statement texts are lost.
  if (statements_.size() > names_max) statements_.clear();
  if (portals_.size() > names_max) portals_.clear();
  if (type == 'Q') requests_.push_back({Request::Kind::simple, now, beginning(take_text(body))});
  if (type == 'F') requests_.push_back({Request::Kind::simple, now, "a function call"});
  if (type == 'S') requests_.push_back({Request::Kind::sync, now, {}});
  if (type == 'P') {
    const std::string name(take_text(body));
    statements_[name] = beginning(take_text(body));
  }
  if (type == 'B') {
    const std::string portal(take_text(body));
    const auto found = statements_.find(std::string(take_text(body)));
    portals_[portal] = found == statements_.end() ? "" : found->second;
  }
  if (type == 'E') {
    const auto found = portals_.find(std::string(take_text(body)));
    requests_.push_back(
        {Request::Kind::execute, now, found == portals_.end() ? "" : found->second});
  }
}

void Conversation::server_message(char type, std::string_view body) {
  if (type == 'C') completed(take_text(body));
  if (type == 'H') copy_out_ = true;
  if ((type == 's' || type == 'I') && !requests_.empty() &&
      requests_.front().kind == Request::Kind::execute)
    requests_.pop_front();
  if (type == 'E') failed(body);
  if (type == 'Z') ready(body.empty() ? 'I' : body[0]);
}

void Conversation::completed(std::string_view tag) {
  const bool copied_out = copy_out_;
  copy_out_ = false;
  const Request one =
      requests_.empty() ? Request{Request::Kind::simple, latest_, {}} : requests_.front();
  if (!requests_.empty() && one.kind == Request::Kind::execute) requests_.pop_front();
  if (tag == "SAVEPOINT") savepoints_.push_back(open_.size());
  if (tag == "COMMIT") {
    // The time of the COMMIT counts: a write that was sent before the takeover and committed after
    // it is stale.
    for (Write& write : open_) write.requested = one.when;
    writes.insert(writes.end(), open_.begin(), open_.end());
    open_.clear();
    savepoints_.clear();
  }
  if (tag == "ROLLBACK" && goes_back_to_a_savepoint(one.text)) {
    if (!savepoints_.empty()) open_.resize(std::min(open_.size(), savepoints_.back()));
    failed_ = false;
  } else if (tag == "ROLLBACK" || tag == "PREPARE TRANSACTION") {
    open_.clear();
    savepoints_.clear();
    failed_ = false;
  }
  if (is_write(tag) && !(copied_out && tag.starts_with("COPY")))
    open_.push_back({std::string(tag), one.text, one.when});
}

void Conversation::failed(std::string_view body) {
  copy_out_ = false;
  std::map<char, std::string> fields;
  while (!body.empty() && body[0] != '\0') {
    const char field = body[0];
    body.remove_prefix(1);
    fields[field] = std::string(take_text(body));
  }
  const Moment requested = requests_.empty() ? latest_ : requests_.front().when;
  if (fields['C'].starts_with("TG"))
    refusals.push_back({fields['C'], fields['M'], fields['W'], requested, fields['H']});
  if (fields['V'] == "FATAL") endings.push_back(fields['C'] + " " + fields['M']);
  failed_ = true;
  // After an error in an extended query the server skips everything up to Sync.
  while (!requests_.empty() && requests_.front().kind == Request::Kind::execute)
    requests_.pop_front();
}

void Conversation::ready(char status) {
  while (!requests_.empty()) {
    const bool executes = requests_.front().kind == Request::Kind::execute;
    requests_.pop_front();
    if (!executes) break;
  }
  copy_out_ = false;
  if (status == 'E') return;
  if (status == 'I') {
    if (!failed_) writes.insert(writes.end(), open_.begin(), open_.end());
    open_.clear();
    savepoints_.clear();
  }
  failed_ = false;
}

}  // namespace termgate::cli::drill
