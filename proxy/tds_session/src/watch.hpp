// What is refused in every fenced session, whoever sends it and however: calls that could give the gate away, and transactions that can be
// committed after their session has ended, with its gate. One reading of a text, whether it comes as a batch, as a parameter of an RPC, in
// one chunk or in many. Nothing is kept of a text but the word that it is in, so it may have any length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/tds/request.hpp>

namespace termgate::tds_session {

// One request's texts, one after the other. A text is read by words, as SQL Server cuts them. What stands in a string is no text, unless
// something in the request runs texts (EXEC, sp_executesql, a procedure): then its words count as well, whatever quotes are within.
// From where a text may be cut in two ways all of its words count, in strings and comments too.
class Watch {
 public:
  enum class Letters : std::uint8_t { wide, narrow };  // UTF-16, or a byte each; a byte above 127 is of a code page that nobody names here

  void text(std::string_view bytes, Letters letters);  // more of a text that runs
  void text_ends();
  void value(std::string_view bytes, Letters letters);  // more of a value, which a text may run
  void value_ends();
  void runs_values() noexcept { dynamic_ = true; }  // values are texts for all that is known here
  bool runs() const noexcept { return dynamic_; }
  bool prepares() const noexcept { return prepares_; }  // a text, which a later call runs by its number
  void begin();                                         // another call: what its values say is no concern of the last one's text

  // What is refused, or null. A call's values may count only when its text has been read.
  const char* problem() const noexcept;

 private:
  enum class In : std::uint8_t { plain, word, number, string, quoted, bracket, line_comment, comment };
  enum class Kind : std::uint8_t { none, word, name, string, number, sign, executed };
  struct Last {
    Kind kind = Kind::none;
    std::string text;  // a word in small letters, a sign
    bool is(std::string_view word) const noexcept { return (kind == Kind::word || kind == Kind::sign) && text == word; }
  };

  void unit(std::uint32_t c);
  void plain(std::uint32_t c);
  void in_string(std::uint32_t c, std::uint32_t close);
  void in_line_comment(std::uint32_t c);
  void in_comment(std::uint32_t c);
  void add(std::uint32_t c);
  void inner_ends();
  void string_ends();
  void literal(Kind kind);
  void word_ends();
  void number_ends();
  void name(Kind kind);
  void sign(char c);
  void keyword();
  void chain_ends();
  void named();
  bool object_may_stand() const noexcept;
  char& clause();
  Watch& inner();

  bool loose_ = false, loose_for_good_ = false;  // quotes and brackets are blanks, and nothing is a comment
  In in_ = In::plain;
  std::string name_;      // of the word or name that is being read, folded
  int half_ = -1;         // the first byte of a letter of two
  char sign_ = 0;         // - or /, which may begin a comment
  bool closing_ = false;  // a quote or bracket that may be doubled
  bool return_ = false;   // a carriage return in a line's comment
  std::string held_;      // of a string: a backslash, which may continue its line
  unsigned depth_ = 0;    // of comments
  char edge_ = 0;         // of a comment: the / or * before
  bool runs_ = false;     // the string that is being read is run

  Last last_, before_chain_;
  bool chain_ = false;  // a name is being read, perhaps of several parts
  unsigned dots_ = 0;   // in it
  bool ends_in_nodes_ = false;
  std::string clauses_ =
      "e";               // f: a list of tables, o: an object's name is next, x: what EXEC runs, e: else; one for each open parenthesis
  unsigned rowset_ = 0;  // 1: OPENROWSET, 2: and its parenthesis
  bool synonym_ = false, begun_ = false, run_next_ = false;
  bool dynamic_ = false, prepares_ = false;
  const char *named_ = nullptr, *linked_ = nullptr;
  const char* value_named_ = nullptr;
  bool unreadable_ = false;
  std::unique_ptr<Watch> inner_;
};

// A whole request, as its bytes come.
class Judge final : private tds::CallSink {
 public:
  // `packet_type`: a batch or an RPC. Of anything else nothing is said.
  void begin(std::uint8_t packet_type, std::uint32_t tds_version);
  // More of the body, behind the headers. What is refused, or null.
  const char* take(std::string_view body, bool ends);

 private:
  void call(std::uint16_t id, std::string_view name, std::uint16_t options) override;
  void parameter(std::string_view name, std::uint8_t status, const tds::TypeInfo& type, bool null) override;
  void data(std::string_view bytes) override;
  void parameter_ends() override;

  enum class As : std::uint8_t { nothing, text, value };
  Watch watch_;
  tds::CallReader reader_;
  std::uint8_t packet_type_ = 0;
  const char* problem_ = nullptr;
  std::size_t calls_ = 0, parameter_ = 0;
  int text_at_ = -1, declared_at_ = -1;
  bool resets_ = false;
  bool reads_text_ = false, text_read_ = false;  // this parameter is the call's text; it has come
  bool prepared_runs_ = false;                   // for the session: a prepared statement may run what it is given
  As as_ = As::nothing;
  Watch::Letters letters_ = Watch::Letters::wide;
};

// Where the text is that a procedure runs, and what declares its parameters; -1: nowhere, and none is known of its parameters.
struct TextPlaces {
  int text = -1, declared = -1;
  bool known = false;  // its other parameters are values
};
TextPlaces places_of_text(std::uint16_t id, std::string_view name);

}  // namespace termgate::tds_session
