#include "gate.hpp"

#include <termgate/tds/request.hpp>
#include <termgate/tds/text.hpp>

namespace termgate::tds_session {
namespace {

// A waiting raise is reported repeatedly. One that is not reported for this long has given up.
constexpr std::chrono::milliseconds raise_seen_again{500};
// How much longer than the grace the proxy waits. Before that, the server ends the sessions that it
// can, or the raise gives up.
constexpr std::chrono::milliseconds server_first{250};

std::string bracketed(std::string_view name) {
  std::string result = "[";
  for (const char c : name) {
    result += c;
    if (c == ']') result += c;
  }
  return result + "]";
}

}  // namespace

void Gate::becomes(Is is) {
  is_ = is;
  if (is == Is::open) {
    wanted_ = false;
    raise_waits_.reset();
  }
  channel_.host.holds_gate(is == Is::open ? std::string_view() : pair_.scope);
}

// --- our calls ---

std::string Gate::name_of(std::string_view procedure) const {
  const std::string name = bracketed(channel_.options.schema) + "." + bracketed(procedure);
  return channel_.options.database.empty() ? name
                                           : bracketed(channel_.options.database) + "." + name;
}

void Gate::begin_call(Instant now) {
  answer_ = {};
  called_at_ = now;
  ++proof_;
}

std::string Gate::hello(Instant now) {
  begin_call(now);
  std::string payload;
  tds::CallWriter call(payload, channel_.tds_version, 0, name_of("gate_hello"));
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@declared", "@grace_ms"}) call.integer(name, nullptr, true);
  return payload;
}

std::string Gate::enter(const ScopedTerm& pair, std::uint64_t transaction, Instant now) {
  becomes(Is::open);
  pair_ = pair;
  begin_call(now);
  std::string payload;
  tds::CallWriter call(payload, channel_.tds_version, transaction, name_of("gate_enter"));
  const std::string_view scope = pair_.scope;
  call.text("@scope", pair_.complete() ? &scope : nullptr, true);
  call.integer("@term", pair_.complete() ? &pair_.term : nullptr, true);
  call.binary("@secret", channel_.peer.secret);
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@code", "@fence", "@raise", "@trancount"})
    call.integer(name, nullptr, true);
  call.text("@message", nullptr, true);
  becomes(Is::unsure);
  return payload;
}

std::string Gate::leave(std::uint64_t transaction, Instant now) {
  begin_call(now);
  std::string payload;
  tds::CallWriter call(payload, channel_.tds_version, transaction, name_of("gate_leave"));
  const std::string_view scope = pair_.scope;
  call.text("@scope", &scope);
  call.binary("@secret", channel_.peer.secret);
  call.integer("@proof", &proof_, true);
  for (const char* name : {"@code", "@trancount"}) call.integer(name, nullptr, true);
  call.text("@message", nullptr, true);
  return payload;
}

void Gate::take(const tds::ReturnValue& value) {
  const std::string name = tds::utf8_of(value.name);
  const auto number = value.integer();
  if (name == "@proof") answer_.proven = number == -proof_ - 1;
  else if (name == "@code") answer_.code = number.value_or(-1);
  else if (name == "@fence") answer_.fence = number.value_or(0);
  else if (name == "@raise") answer_.raise = number.value_or(0) == 1;
  else if (name == "@trancount") answer_.trancount = number.value_or(0);
  else if (name == "@declared") answer_.declared = number.value_or(0);
  else if (name == "@grace_ms") answer_.grace_ms = number.value_or(0);
  else if (name == "@term") answer_.term = number.value_or(0);
  else if (name == "@scope") answer_.scope = tds::utf8_of(value.data);
  else if (name == "@message") answer_.message = tds::utf8_of(value.data);
}

void Gate::failed(const tds::Report& report) {
  answer_.error = std::to_string(report.number) + " " + tds::utf8_of(report.text);
  answer_.error_number = report.number;
}

void Gate::learn_pair() {
  if (!pair_.complete() && !answer_.scope.empty() && answer_.term > 0)
    pair_ = {answer_.scope, answer_.term};
}

// --- how long it is held ---

void Gate::wanted(bool certain, Instant now) {
  wanted_ = true;
  if (!certain) return;
  if (!raise_waits_ || now - raise_seen_ > raise_seen_again) raise_waits_ = now;
  raise_seen_ = now;
}

bool Gate::grace_is_over(Instant now) const noexcept {
  return raise_waits_ && now - *raise_waits_ >= grace_ + server_first;
}

}  // namespace termgate::tds_session
