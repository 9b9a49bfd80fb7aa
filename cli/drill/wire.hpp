// drill: reads along a client's conversation with a PostgreSQL server, and says which of its statements were refused and which of its
// writes were committed. Bytes in, facts out; no I/O and no clock. Follows the messages of "Frontend/Backend Protocol", 3.0 and 3.2; what
// it does not know it passes over, and it never keeps more of a message than message_bytes_kept.
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

struct Refusal {  // an error of Termgate's: the code starts with TG
  std::string code, message;
  std::string context;  // where in the server's functions
  Moment requested;     // when the statement came from the client
  std::string hint = {};
};

struct Write {            // a committed one
  std::string tag;        // "INSERT 0 3"
  std::string statement;  // its beginning
  Moment requested;       // of a transaction block: when its COMMIT came
};

// Cuts a stream of bytes into messages.
class Messages {
 public:
  static constexpr std::size_t message_bytes_kept = 8192;
  explicit Messages(bool first_has_no_type) : no_type_(first_has_no_type) {}
  // Adds bytes; false: this is no such protocol, and nothing more can be read.
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
        for (const char byte : std::string_view(head_).substr(wanted - 4)) length = length << 8 | static_cast<unsigned char>(byte);
        if (length < 4) return false;
        type_ = no_type_ ? '\0' : head_[0];
        head_.clear();
        no_type_ = false;
        left_ = length - 4;
      }
      const std::size_t some = std::min<std::size_t>(left_, bytes.size());
      if (body_.size() < message_bytes_kept) body_.append(bytes.substr(0, std::min(some, message_bytes_kept - body_.size())));
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

// One connection. One thread.
class Conversation {
 public:
  // From the start-up message on: requests for encryption are not part of it.
  void from_client(std::string_view bytes, Moment now);
  void from_server(std::string_view bytes);

  std::vector<Refusal> refusals;  // the reader takes them away
  std::vector<Write> writes;
  std::vector<std::string> endings;  // what the server said when it ended the session by itself: SQLSTATE and message

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
  Moment latest_{};                                                    // when the client last sent something
  std::deque<Request> requests_;                                       // and not yet answered
  std::unordered_map<std::string, std::string> statements_, portals_;  // texts by name
  std::vector<Write> open_;                                            // of the open transaction
  std::vector<std::size_t> savepoints_;
  bool failed_ = false;  // the open transaction is
  bool copy_out_ = false;
};

}  // namespace termgate::cli::drill
