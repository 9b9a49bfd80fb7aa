#include "front/core.hpp"

#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <termgate/text/ascii.hpp>

#include "claim/token.hpp"
#include "hrana/failure.hpp"

namespace termgate::sqlite_front {
namespace {

constexpr std::size_t writers_max = 512, readers_max = 32, cursors_max = 64, admissions_max = 32;

Workers::Limits limits_of(const Options& options) {
  Workers::Limits limits;
  const auto set = [&limits](Lane lane, std::size_t threads, std::size_t waiting) {
    limits[static_cast<std::size_t>(lane)] = {threads, waiting};
  };
  // One thread for each open transaction, and some for work that ends one.
  set(Lane::transactions, options.transactions_max + 16, options.streams_max + 10'000);
  set(Lane::writers, writers_max, 0);
  set(Lane::reads, readers_max, 2'000);
  set(Lane::cursors, cursors_max, 0);
  set(Lane::admissions, admissions_max, 2'000);
  return limits;
}

hrana::Seal seal_of_process() {
  std::array<unsigned char, 32> key;
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1)
    throw std::runtime_error("no random numbers are to be had for batons");
  return [key](std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> whole{};
    unsigned length = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), whole.data(), &length);
    std::array<std::uint8_t, 16> seal;
    std::copy_n(whole.begin(), seal.size(), seal.begin());
    return seal;
  };
}

hrana::StreamSettings stream_settings(const Options& options, Files& files) {
  hrana::StreamSettings settings;
  settings.factory = [&files] { return files.make(); };
  settings.seal = seal_of_process();
  settings.clock = [] { return std::chrono::steady_clock::now(); };
  settings.records_max = options.streams_max;
  settings.answer_bytes_max = options.answer_bytes_max;
  settings.memory_bytes_max = options.memory_bytes_max;
  settings.transaction_idle_timeout = options.transaction_idle;
  return settings;
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string_view> all_of(const http::Head& head, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : head.headers)
    if (text::same(key, name)) values.push_back(value);
  return values;
}

claim::Level level_of(http::Level level) {
  switch (level) {
    case http::Level::read: return claim::Level::read;
    case http::Level::write: return claim::Level::write;
    case http::Level::lead: return claim::Level::lead;
    case http::Level::operate: return claim::Level::operate;
  }
  return claim::Level::read;
}

FileSettings file_settings(const Core& core) {
  const Options& options = core.options;
  FileSettings settings;
  settings.path = options.path;
  settings.idle_holder_max = options.idle_holder;
  settings.transactions_max = options.transactions_max;
  settings.session.statement_time_max = options.statement_time;
  settings.session.reading_time_max = options.read_time;
  settings.happened = [&core](std::string_view event, const Whose& whose, std::string_view code,
                              std::string_view message) {
    core.log(false, event,
             {{"code", std::string(code)},
              {"user", whose.principal},
              {"client", whose.client},
              {"message", std::string(message)}},
             true);
  };
  return settings;
}

}  // namespace

Core::Core(Options the_options)
    : options(std::move(the_options)),
      workers(limits_of(options)),
      files(file_settings(*this), workers, counts),
      streams(stream_settings(options, files)) {
  use(read_doors());
  if (options.authority != nullptr) admissions.emplace(*options.authority);
}

std::shared_ptr<const claim::Doors> Core::read_doors() const {
  auto doors = std::make_shared<claim::Doors>();
  if (!options.tokens_path.empty()) {
    auto tokens =
        std::make_shared<const http::Tokens>(http::Tokens::from_file(options.tokens_path));
    doors->by_secret = [tokens](std::string_view secret) -> std::optional<claim::Known> {
      const auto caller = tokens->caller_of_token(secret);
      if (!caller) return std::nullopt;
      return claim::Known{caller->name, level_of(caller->level)};
    };
  }
  for (const std::string& path : options.jwt_key_paths) {
    try {
      doors->keys.push_back(claim::JwtKey::from_file(path));
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(fmt::format("--jwt-key {}", error.what()));
    }
  }
  return doors;
}

void Core::use(std::shared_ptr<const claim::Doors> doors) {
  const std::lock_guard lock(doors_mutex_);
  doors_ = std::move(doors);
}

std::variant<Sender, claim::Refusal> Core::sender(const http::Head& head,
                                                  std::optional<std::string_view> token) const {
  std::shared_ptr<const claim::Doors> doors;
  {
    const std::lock_guard lock(doors_mutex_);
    doors = doors_;
  }
  if (!token) token = claim::bearer_of(all_of(head, "Authorization"));
  if (!token)
    return claim::Refusal{401, "AUTH_HTTP_HEADER_INVALID",
                          "the header Authorization must be Bearer TOKEN, once"};
  auto caller = claim::identify(*token, *doors, seconds_now());
  if (auto* refusal = std::get_if<claim::Refusal>(&caller)) return std::move(*refusal);
  Sender sender;
  sender.caller = std::get<claim::Caller>(std::move(caller));
  if (sender.caller.name.empty()) sender.caller.name = head.peer.certificate;
  const auto application = head.header("Termgate-Application");
  sender.subject = {
      head.peer.listener, head.peer.address.host(), sender.caller.name,
      std::string(application.empty() ? head.header("x-libsql-client-version") : application)};
  sender.whose = {sender.caller.name, head.peer.address.text()};
  sender.headers = {all_of(head, "Termgate-Scope"), all_of(head, "Termgate-Term")};
  return sender;
}

claim::Standing Core::standing() const {
  claim::Standing standing;
  using To = claim::Standing::WithoutTerm;
  standing.without_term = options.without_term == conversation::WithoutTerm::reject ? To::reject
                          : options.without_term == conversation::WithoutTerm::read_only
                              ? To::read_only
                              : To::allow;
  standing.observe = options.enforce == conversation::Enforce::observe;
  return standing;
}

std::variant<hrana::Permit, claim::Refusal> Core::permit_by(const Sender& sender,
                                                            const Admissions::Answer& answer) {
  if (const auto* refusal = std::get_if<claim::Refusal>(&answer)) {
    counts.turned_away.add("rule");
    return *refusal;
  }
  auto permit = claim::permit_of(sender.caller, sender.headers, std::get<claim::Standing>(answer));
  if (std::holds_alternative<claim::Refusal>(permit)) counts.turned_away.add("claim");
  return permit;
}

std::optional<std::variant<hrana::Permit, claim::Refusal>> Core::permit_at_once(
    const Sender& sender) {
  if (!admissions) return permit_by(sender, standing());
  const auto answer = admissions->at_once(sender.subject);
  if (!answer) return std::nullopt;
  return permit_by(sender, *answer);
}

std::variant<hrana::Permit, claim::Refusal> Core::permit(const Sender& sender) {
  return permit_by(sender, admissions ? admissions->wait(sender.subject) : standing());
}

std::unique_ptr<http::Room> Core::room() {
  class Share final : public http::Room {
   public:
    explicit Share(hrana::Budget& budget) : charge_(budget) {}
    bool hold(std::size_t bytes) override {
      charge_.shrink_to(bytes);
      return charge_.grow_to(bytes);
    }

   private:
    hrana::Charge charge_;
  };
  return std::make_unique<Share>(streams.budget());
}

void Core::log(bool warning, std::string_view name,
               std::vector<std::pair<std::string_view, std::string>> fields, bool seldom) const {
  if (options.log) options.log({warning, seldom, name, std::move(fields)});
}

http::Reply error_reply(unsigned status, std::string_view code, std::string_view message) {
  http::Reply reply{status, hrana::failure_body(code, message)};
  if (status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 503) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

http::Reply refusal_reply(const claim::Refusal& refusal) {
  return error_reply(refusal.status, refusal.code, refusal.message);
}

}  // namespace termgate::sqlite_front
