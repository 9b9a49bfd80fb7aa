// drill: reads a client's conversation with a PostgreSQL server and reports which statements were
// refused and which writes were committed. Bytes in, facts out; no I/O and no clock. It follows
// "Frontend/Backend Protocol" 3.0 and 3.2, ignores messages that it does not know, and keeps at
// most message_bytes_kept of a message.
//
//   message: type(1) length(4, with itself) body(length - 4); the client's first one has no type
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace termgate::cli::drill {

using Moment = std::chrono::steady_clock::time_point;

// An error of Termgate's: its code starts with TG.
struct Refusal {
  std::string code, message;
  std::string context;  // the server's context field: the functions that were running
  Moment requested;     // when the client sent the statement
  std::string hint = {};
};

// A committed write.
struct Write {
  std::string tag;        // "INSERT 0 3"
  std::string statement;  // the beginning of it
  // When the client sent the statement; in a transaction block, when it sent COMMIT.
  Moment requested;
};

// Cuts a stream of bytes into messages.
class Messages {
 public:
  static constexpr std::size_t message_bytes_kept = 8192;
  explicit Messages(bool first_has_no_type) : no_type_(first_has_no_type) {}
  // Adds bytes. Returns false if this is not the protocol; nothing more can be read then.
  template <typename Take>
  bool add(std::string_view bytes, Take take) {
    while (!bytes.empty()) {
      if (left_ == 0) {
        const std::size_t wanted = no_type_ ? 4 : 5;
        const std::size_t some = std::min(wanted - head_.size(), bytes.size());
        head_.append(bytes.substr(0, some));
        bytes.remove_prefix(some);
        if (head_.size() < wanted) return true;
        std::uint32_t length = 0;
        for (const char byte : std::string_view(head_).substr(wanted - 4))
          length = length << 8 | static_cast<unsigned char>(byte);
        if (length < 4) return false;
        type_ = no_type_ ? '\0' : head_[0];
        head_.clear();
        no_type_ = false;
        left_ = length - 4;
      }
      const std::size_t some = std::min<std::size_t>(left_, bytes.size());
      if (body_.size() < message_bytes_kept)
        body_.append(bytes.substr(0, std::min(some, message_bytes_kept - body_.size())));
      bytes.remove_prefix(some);
      left_ -= some;
      if (left_ > 0) return true;
      take(type_, std::string_view(body_));
      body_.clear();
    }
    return true;
  }

 private:
  bool no_type_;
  char type_ = '\0';
  std::string head_, body_;
  std::size_t left_ = 0;
};

// State of one connection. One thread.
class Conversation {
 public:
  // Takes the client's bytes from the start-up message on, without requests for encryption.
  void from_client(std::string_view bytes, Moment now);
  void from_server(std::string_view bytes);

  std::vector<Refusal> refusals;  // the caller empties this one and the two below
  std::vector<Write> writes;
  // SQLSTATE and message of errors with which the server ended the session.
  std::vector<std::string> endings;

 private:
  struct Request {
    enum class Kind { simple, execute, sync } kind;
    Moment when;
    std::string text;
  };
  void client_message(char type, std::string_view body, Moment now);
  void server_message(char type, std::string_view body);
  void completed(std::string_view tag);
  void failed(std::string_view body);
  void ready(char status);

  Messages client_{true}, server_{false};
  bool readable_ = true;
  Moment latest_{};               // when the client last sent something
  std::deque<Request> requests_;  // not yet answered
  std::unordered_map<std::string, std::string> statements_, portals_;  // texts by name
  std::vector<Write> open_;  // writes of the open transaction
  std::vector<std::size_t> savepoints_;
  bool failed_ = false;  // the open transaction has failed
  bool copy_out_ = false;
};

}  // namespace termgate::cli::drill
