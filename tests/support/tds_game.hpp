// A client of TDS, the proxy's session and the model of a server (tds_model.hpp), between which
// bytes travel in pieces.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/statements/cache.hpp>
#include <termgate/tds_session/tds_session.hpp>

#include "tds_model.hpp"
#include "unit/wire/tds/login7.hpp"

namespace termgate::test {

struct TdsNeighbours final : conversation::SessionHost {
  std::int64_t highest_fence(std::string_view) const override { return fence; }
  void saw_fence(std::string_view, std::int64_t) override {}
  std::string untrusted(std::string_view) const override { return doubt; }
  statements::Cache& statements() override {
    static statements::Cache cache;
    return cache;
  }
  void holds_gate(std::string_view scope) override { gate = scope; }
  void happened(const conversation::Incident& incident) override {
    incidents.emplace_back(incident.kind, std::string(incident.code));
    messages.emplace_back(incident.message);
  }

  std::int64_t fence = 0;
  std::string doubt;
  std::string gate;  // that the session says it holds
  std::vector<std::pair<conversation::Incident::Kind, std::string>> incidents;
  std::vector<std::string> messages;
  int count(conversation::Incident::Kind kind) const {
    return static_cast<int>(std::count_if(incidents.begin(), incidents.end(),
                                          [&](const auto& one) { return one.first == kind; }));
  }
};

struct TdsGame {
  explicit TdsGame(std::size_t piece_bytes = 0, tds_session::Options chosen = {},
                   bool strict = false)
      : piece(piece_bytes), options(std::move(chosen)) {
    options.database = "app";
    session = std::make_unique<tds_session::TdsSession>(
        options, tds_session::Peer{true, strict, "secret of 1"}, host, now);
  }

  // --- the client ---
  std::string request(std::string_view body, std::uint64_t transaction) const {
    std::string payload;
    if (tds::is_7_2(model.tds_version)) tds::append_headers(payload, transaction);
    return payload + std::string(body);
  }
  void send(std::uint8_t type, std::string_view payload, std::uint8_t status = 0,
            std::size_t packet = 512) {
    std::string bytes;
    tds::append_message(bytes, type, payload, packet, status);
    give(bytes);
  }
  void batch(std::string_view text, std::uint8_t status = 0) {
    send(tds::packet::sql_batch, request(tds::utf16_of(text), descriptor), status);
  }
  void manage(std::string_view body, std::uint8_t status = 0) {
    send(tds::packet::transaction, request(body, descriptor), status);
  }
  void rpc(std::string_view body, std::uint8_t status = 0) {
    send(tds::packet::rpc, request(body, descriptor), status);
  }
  void attention() { send(tds::packet::attention, ""); }
  // The same, and what is heard by then.
  std::string after_batch(std::string_view text, std::uint8_t status = 0) {
    return batch(text, status), heard();
  }
  std::string after_manage(std::string_view body) { return manage(body), heard(); }
  std::string after_rpc(std::string_view body) { return rpc(body), heard(); }
  std::string after_rows() { return send(tds::packet::bulk, "rows"), heard(); }
  void prelogin() {
    tds::Prelogin one;
    one.version = std::string_view("\x10\0\0\0\0\0", 6);
    one.encryption = tds::Encryption::not_supported;
    std::string payload;
    tds::append_prelogin(payload, one);
    send(tds::packet::prelogin, payload);
  }
  // PRELOGIN, then this login.
  void offers(const tds::TestLogin7& one) {
    prelogin();
    answers.clear();
    send(tds::packet::login7, tds::test_login7(one), 0, 4096);
  }
  void login(std::string application) {
    prelogin();
    tds::TestLogin7 one;
    one.application = std::move(application);
    one.database = "app";
    one.tds_version = model.tds_version;
    send(tds::packet::login7, tds::test_login7(one), 0, 4096);
    answers.clear();
  }
  // With scope and term by the application name, and logged in.
  void login_with_term(std::int64_t term) {
    login("termgate.scope=s;termgate.term=" + std::to_string(term) + ";");
  }

  // --- what carries the bytes ---
  void give(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string some(bytes.substr(0, piece == 0 ? bytes.size() : piece));
      bytes.remove_prefix(some.size());
      session->resume(conversation::ClientBytes{some}, now);
      pump();
    }
  }
  void pump() {
    for (bool more = true; more;) {
      more = false;
      for (const conversation::Action action : session->take_actions()) {
        more = true;
        act(action.kind);
      }
      if (server_open && !stalled && !session->to_server().empty()) {
        more = true;
        const std::string bytes(session->to_server());
        session->sent_to_server(bytes.size());
        model.feed(bytes);
      }
      if (!model.out.empty() && server_open && !stalled) {
        more = true;
        std::string bytes = std::move(model.out);
        model.out.clear();
        for (std::size_t at = 0; at < bytes.size();) {
          const std::string some = bytes.substr(at, piece == 0 ? bytes.size() : piece);
          at += some.size();
          session->resume(conversation::ServerBytes{some}, now);
          take();
        }
      }
      take();
    }
    see_descriptor();
  }
  void take() {
    answers += session->to_client();
    session->sent_to_client(session->to_client().size());
  }
  void act(conversation::Action::Kind kind) {
    using Kind = conversation::Action::Kind;
    switch (kind) {
      case Kind::admit: session->resume(conversation::Admitted{admission}, now); break;
      case Kind::connect_server:
        if (!reachable) return session->resume(conversation::ServerLost{"refused"}, now);
        server_open = true;
        session->resume(conversation::ServerConnected{}, now);
        break;
      case Kind::start_server_tls:
        ++tls_to_server;
        // Nothing has been sent in front of it.
        if (session->to_server().empty()) session->resume(conversation::ServerTls{}, now);
        break;
      case Kind::close_server: server_open = false; break;
      case Kind::close_client: client_open = false; break;
      case Kind::raise:
        ++raises;
        if (raise_fails) return session->resume(conversation::Raised{"TG001", "TG001 stale"}, now);
        model.raise(session->raise_term());
        session->resume(conversation::Raised{}, now);
        break;
      default: break;
    }
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    if (const auto deadline = session->deadline(); deadline && *deadline <= now)
      session->resume(conversation::Tick{}, now);
    pump();
  }
  // A raise waits for the gate (or may), as the proxy's own connection hears again and again for so
  // long.
  void want(std::chrono::milliseconds time = {}, bool certain = true) {
    constexpr std::chrono::milliseconds pause{150};
    for (;;) {
      session->resume(conversation::GateWanted{"s", certain}, now);
      pump();
      if (time <= std::chrono::milliseconds(0)) return;
      pass(std::min(time, pause));
      time -= pause;
    }
  }
  // As a client knows it, from what it has been told.
  void see_descriptor() { descriptor = model.transaction; }

  // What the client has been told since the last call: "done", "done 2" (its status), "error
  // 50001", "env 8".
  std::string heard() {
    std::string text;
    tds::PacketReader reader(tds::Direction::from_server);
    tds::TokenReader tokens(model.tds_version);
    std::string_view left = answers;
    for (;;) {
      const tds::PacketEvent event = reader.next(left);
      left.remove_prefix(event.used);
      if (event.kind == tds::PacketEvent::Kind::need_more) break;
      if (event.kind == tds::PacketEvent::Kind::malformed) {
        text += "malformed";
        break;
      }
      std::string_view payload =
          event.kind == tds::PacketEvent::Kind::payload ? event.raw : std::string_view{};
      for (;;) {
        const tds::TokenEvent token = tokens.next(payload);
        payload.remove_prefix(token.used);
        if (token.kind == tds::TokenEvent::Kind::need_more) break;
        if (!text.empty()) text += ' ';
        if (token.token >= tds::token::done)
          text += "done " + std::to_string(tds::decode_done(token.token, token.body)->status);
        else if (token.token == tds::token::error)
          text += "error " +
                  std::to_string(
                      tds::decode_report(token.token, token.body, model.tds_version)->number);
        else if (token.token == tds::token::environment_change)
          text += "env " + std::to_string(tds::decode_environment_change(token.body)->type);
        else text += "token " + std::to_string(token.token);
      }
      if (event.ends_message) {
        (void)tokens.end_of_message();
        text += ';';
      }
    }
    answers.clear();
    return text;
  }

  const std::size_t piece;
  conversation::Instant now{std::chrono::hours(1)};
  tds_session::Options options;
  TdsNeighbours host;
  TdsModel model;
  conversation::Admission admission = [] {
    conversation::Admission one;
    one.without_term = conversation::WithoutTerm::reject;
    return one;
  }();
  bool reachable = true, server_open = false, client_open = true, stalled = false,
       raise_fails = false;
  int raises = 0, tls_to_server = 0;
  std::uint64_t descriptor = 0;
  std::string answers;
  std::unique_ptr<tds_session::TdsSession> session;
};

}  // namespace termgate::test
