// drill: reads a conversation with a SQL Server and reports what the server refuses. Bytes in,
// facts out; no I/O and no clock. It knows only packets and the ERROR token of TDS ([MS-TDS]
// 2.2.3.1 and 2.2.7.10):
//
//   packet: type(1) status(1, bit 0: the message ends) length(2, big endian, with these 8) spid(2) id(1) window(1) payload
//   ERROR:  0xAA length(2) number(4) state(1) class(1) text(2 + UTF-16) server(1 + UTF-16) procedure(1 + UTF-16) line(4), little endian
//
// It finds the token by its number and the first words of its text, so that it need not parse the
// tokens before it. TDS does not report what was written; the drill finds stale writes by counting
// rows.
#pragma once

#include <string>
#include <string_view>

#include "drill/wire.hpp"

namespace termgate::cli::drill {

// State of one connection. One thread.
class TdsConversation {
 public:
  void from_client(std::string_view bytes, Moment now);
  void from_server(std::string_view bytes);

  std::vector<Refusal> refusals;  // the caller removes them

 private:
  static constexpr std::size_t kept_max = 65536, token_max = 8192;
  void find_errors();

  bool readable_ = true, answered_ = true, asks_for_seal_ = false;
  Moment latest_{};  // when the client last sent something
  std::string head_, answer_;
  std::size_t left_ = 0;  // bytes of the current packet's payload that are still to come
  bool ends_ = false;     // this packet ends the message
};

}  // namespace termgate::cli::drill
