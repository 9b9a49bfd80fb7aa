#include "front/admissions.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace termgate::sqlite_front {
namespace {

claim::Rule rule_of(const conversation::TermSource& source, bool overridable) {
  const auto standing = source.now();
  claim::Rule rule;
  rule.overridable = overridable;
  if (standing.scope && standing.term) {
    rule.claim = {standing.scope->name(), standing.term->value()};
    return rule;
  }
  using Standing = conversation::TermSource::Standing;
  const std::string_view code =
      standing.problem_code == Standing::none_taken ? "TG002" : standing.problem_code;
  rule.why_none = fmt::format("{} no term for a fenced write: {}", code, standing.why_not);
  return rule;
}

}  // namespace

Admissions::~Admissions() { forget(); }

Admissions::Answer Admissions::answer_of(const conversation::Admission& admission) {
  if (!admission.refused_sqlstate.empty())
    return claim::Refusal{403, "AUTH_REFUSED_BY_RULE", admission.refused_message};
  claim::Standing standing;
  using To = claim::Standing::WithoutTerm;
  switch (admission.without_term) {
    case conversation::WithoutTerm::reject: standing.without_term = To::reject; break;
    case conversation::WithoutTerm::read_only: standing.without_term = To::read_only; break;
    case conversation::WithoutTerm::allow: standing.without_term = To::allow; break;
  }
  standing.observe = admission.enforce == conversation::Enforce::observe;
  if (admission.rule) standing.rule = rule_of(*admission.rule, admission.overridable);
  return standing;
}

std::optional<Admissions::Answer> Admissions::at_once(const RuleSubject& subject) {
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(subject);
    if (found == sessions_.end()) return std::nullopt;
    session = found->second;
    session->used = std::chrono::steady_clock::now();
  }
  {
    const std::lock_guard lock(session->mutex);
    if (!session->settled) return std::nullopt;
  }
  return answer_of(session->admission);
}

std::shared_ptr<Admissions::Session> Admissions::find(const RuleSubject& subject) {
  auto fresh = std::make_shared<Session>();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sessions_.find(subject); found != sessions_.end()) {
      found->second->used = std::chrono::steady_clock::now();
      return found->second;
    }
    if (sessions_.size() >= sessions_max) return nullptr;
    fresh->id = ++last_id_;
  }
  conversation::ConnectRequest request;
  request.listener = subject.listener;
  request.client_host = subject.host;
  request.login.user = subject.name;
  request.login.application_name = subject.application;
  fresh->admission = authority_.admit(fresh->id, request);
  fresh->used = std::chrono::steady_clock::now();
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    session = sessions_.emplace(subject, fresh).first->second;
  }
  // Another request of the same client was faster.
  if (session != fresh) {
    authority_.ended(fresh->id);
    return session;
  }
  authority_.established(fresh->id, [fresh] {
    const std::lock_guard lock(fresh->mutex);
    fresh->settled = true;
    fresh->changed.notify_all();
  });
  return session;
}

Admissions::Answer Admissions::wait(const RuleSubject& subject) {
  const auto session = find(subject);
  if (session == nullptr)
    return claim::Refusal{503, "SERVER_BUSY",
                          "too many clients that the rules tell apart: try again"};
  std::unique_lock lock(session->mutex);
  session->changed.wait(lock, [&] { return session->settled; });
  lock.unlock();
  return answer_of(session->admission);
}

void Admissions::tick() {
  std::vector<std::shared_ptr<Session>> over;
  {
    const std::lock_guard lock(mutex_);
    const auto since = std::chrono::steady_clock::now() - kept_for;
    for (auto one = sessions_.begin(); one != sessions_.end();) {
      if (one->second->used > since) {
        ++one;
        continue;
      }
      over.push_back(std::move(one->second));
      one = sessions_.erase(one);
    }
  }
  for (const auto& session : over) authority_.ended(session->id);
}

void Admissions::forget() {
  std::map<RuleSubject, std::shared_ptr<Session>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(sessions_);
  }
  for (const auto& [subject, session] : all) authority_.ended(session->id);
}

}  // namespace termgate::sqlite_front
