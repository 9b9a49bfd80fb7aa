// What is refused in every fenced session, whoever sends it and in whatever form: calls that could
// release the gate; transactions that could be committed after their session has ended and its gate
// is released; and what cannot be read, because it could contain these. Texts are read in the same
// way whether they come as a batch or as a parameter of an RPC, in one chunk or many. Of a text
// only the current word and a letter for each open parenthesis are stored, so it may have any
// length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <termgate/tds/request.hpp>

namespace termgate::tds_session {

// Reads the texts of one request, one after the other, word by word as SQL Server splits them. A
// string is not read as a text unless something in the request runs texts (EXEC, sp_executesql, a
// procedure): then its words count as well, whatever quotes it contains. From a point where a text
// could be split in two ways all its words count, even in strings and comments.
class Watch {
 public:
  // UTF-16, or one byte each. A byte above 127 belongs to a code page that is not known here.
  enum class Letters : std::uint8_t { wide, narrow };

  void text(std::string_view bytes, Letters letters);  // for more of a text that runs
  void text_ends();
  void value(std::string_view bytes, Letters letters);  // for more of a value, which a text may run
  void value_ends();
  // From here on values may be texts that are run.
  void runs_values() noexcept { dynamic_ = true; }
  bool runs() const noexcept { return dynamic_; }
  bool prepares() const noexcept {
    return prepares_;
  }  // prepares a text, which a later call runs by its handle
  // Begins another call: its values do not matter for the text of the one before.
  void begin();

  // Why the request is refused, or null. Whether a call's values count may be known only once its
  // text has been read.
  const char* problem() const noexcept;

 private:
  enum class In : std::uint8_t {
    plain,
    word,
    number,
    string,
    quoted,
    bracket,
    line_comment,
    comment
  };
  enum class Kind : std::uint8_t { none, word, name, string, number, sign, executed };
  struct Last {
    Kind kind = Kind::none;
    std::string text;  // a word in lower case, or a sign
    bool is(std::string_view word) const noexcept {
      return (kind == Kind::word || kind == Kind::sign) && text == word;
    }
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

  // Quotes and brackets count as blanks, and nothing is a comment.
  bool loose_ = false, loose_for_good_ = false;
  In in_ = In::plain;
  std::string name_;      // the word or name that is being read, folded
  int half_ = -1;         // the first byte of a character of two
  char sign_ = 0;         // - or /, which may begin a comment
  bool closing_ = false;  // a quote or bracket that may be doubled
  bool return_ = false;   // a carriage return in a line comment
  std::string held_;      // in a string: a backslash, which may continue its line
  unsigned depth_ = 0;    // how deeply comments are nested
  char edge_ = 0;         // in a comment: the / or * before
  bool runs_ = false;     // the string that is being read is run

  Last last_, before_chain_;
  bool chain_ = false;  // a name is being read, perhaps of several parts
  unsigned dots_ = 0;   // how many dots it has
  bool ends_in_nodes_ = false;
  // One letter for the text itself, then one for each open parenthesis. f: a list of tables; o: an
  // object's name is next; x: what EXEC runs; e: anything else.
  std::string clauses_ = "e";
  unsigned rowset_ = 0;  // 1: after OPENROWSET, 2: after its parenthesis
  bool synonym_ = false, begun_ = false, run_next_ = false;
  bool dynamic_ = false, prepares_ = false;
  const char *named_ = nullptr, *linked_ = nullptr;
  const char* value_named_ = nullptr;
  bool unreadable_ = false;
  std::unique_ptr<Watch> inner_;
};

// Judges a whole request while its bytes arrive.
class Judge final : private tds::CallSink {
 public:
  // `packet_type`: a batch or an RPC. Requests of other types are not judged.
  void begin(std::uint8_t packet_type, std::uint32_t tds_version);
  // Takes more of the body, without the headers. Returns what is refused, or null.
  const char* take(std::string_view body, bool ends);

 private:
  void call(std::uint16_t id, std::string_view name, std::uint16_t options) override;
  void parameter(std::string_view name, std::uint8_t status, const tds::TypeInfo& type,
                 bool null) override;
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
  bool reads_text_ = false,
       text_read_ = false;  // this parameter is the call's text; that text has come
  // For the rest of the session: a prepared statement may run the values that it is given.
  bool prepared_runs_ = false;
  As as_ = As::nothing;
  Watch::Letters letters_ = Watch::Letters::wide;
};

// Positions of the text that a procedure runs, and of the declaration of its parameters; -1: none.
struct TextPlaces {
  int text = -1, declared = -1;
  bool known = false;  // its other parameters are values
};
TextPlaces places_of_text(std::uint16_t id, std::string_view name);

}  // namespace termgate::tds_session
