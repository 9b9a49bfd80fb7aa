// What a client requests: the payload of a batch, an RPC or a request to the transaction manager.
// Views point into that payload; std::string members own their bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/malformed.hpp>
#include <termgate/tds/type_info.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

// ALL_HEADERS, which from TDS 7.2 on precedes every batch, RPC and transaction request.
struct Headers {
  // The transaction's descriptor, its 8 bytes read as a number. 0: none is open.
  std::uint64_t transaction = 0;
  std::uint32_t outstanding = 1;
  bool has_transaction = false;  // without this header a request belongs to no transaction
  std::size_t bytes = 0;         // how long they are; 0: there are none (TDS 7.1)
};
// `payload`: at least all headers; what follows them does not matter. Malformed: lengths that do
// not fit, a second header of a transaction, more than 4096 bytes of headers.
Decoded<Headers> decode_headers(std::string_view payload, std::uint32_t tds_version);
// Appends the headers of a request of our own, in the transaction `transaction`.
void append_headers(std::string& out, std::uint64_t transaction);

// Receives the parts of an RPC message, in the order of its bytes.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void call(std::uint16_t id, std::string_view name,
                    std::uint16_t options) = 0;  // UTF-16; empty if there is an id
  virtual void parameter(std::string_view name, std::uint8_t status, const TypeInfo& type,
                         bool null) = 0;
  virtual void data(
      std::string_view bytes) = 0;  // more of the parameter's value; not called for a table
  virtual void parameter_ends() = 0;
};

// Reads an RPC message as it arrives, in pieces of any size. It stores the fields that precede a
// value, up to 256 kB, and the types of a table's columns, but no value, so a value may have any
// length.
class CallReader {
 public:
  static constexpr std::size_t table_columns_max = 1024;  // of a table type of SQL Server's

  explicit CallReader(std::uint32_t tds_version = version::v7_4) noexcept
      : tds_version_(tds_version) {}

  // False: the message is malformed, has a type that is not known here, or exceeds one of these
  // limits. Every later call returns false too. What came before was reported.
  bool take(std::string_view bytes, CallSink& sink);
  // Whether it stopped at a table of more columns than table_columns_max.
  bool too_many_columns() const noexcept { return too_many_columns_; }
  // Whether the message may end here. Some drivers send a separator even after the last call.
  bool may_end() const noexcept {
    return good_ && head_.empty() && (in_ == In::between || (in_ == In::call && any_));
  }

 private:
  enum class In : std::uint8_t {
    call,
    between,
    parameter,
    value,
    chunk,
    cipher,
    table,
    column,
    table_option,
    row
  };
  // Returns how many bytes head_ still needs for this step; 0: the step is done.
  std::size_t step(CallSink& sink);
  std::size_t begin_value(const TypeInfo& type, std::size_t at, bool tells, CallSink& sink,
                          std::string_view name, std::uint8_t status);
  std::size_t read_call(CallSink& sink);
  std::size_t read_parameter(CallSink& sink);
  std::size_t read_chunk();
  std::size_t read_cipher();
  std::size_t read_table();
  std::size_t read_column();
  std::size_t read_table_option();
  std::size_t read_row(CallSink& sink);
  std::size_t lost() noexcept;
  void value_ends(CallSink& sink);

  std::uint32_t tds_version_;
  In in_ = In::call;
  bool good_ = true, any_ = false, too_many_columns_ = false;
  std::string head_;
  std::uint64_t left_ = 0;   // bytes left of a value, or of one of its chunks
  std::uint64_t total_ = 0;  // size of all chunks, as the value declares
  std::uint64_t sum_ = 0;    // size of the chunks so far
  // tells_: the value is a parameter's own, and not one in a table.
  bool tells_ = false, in_chunks_ = false, encrypted_ = false;
  std::size_t columns_left_ = 0, column_ = 0;
  std::vector<TypeInfo> columns_;  // of a table: the columns that its rows have
};

struct Parameter {
  std::string name;  // UTF-16, including its @
  std::uint8_t status = 0;
  TypeInfo type;
  bool null = false;
  std::string data;  // complete, even if it came in chunks; empty for a table

  bool is_wide() const noexcept {
    return type.type == type::nvarchar || type.type == type::nchar || type.type == type::ntext;
  }
};

struct Call {
  std::uint16_t id = procedure::none;
  std::string name;  // UTF-16; empty if there is an id
  std::uint16_t options = 0;
  std::vector<Parameter> parameters;
};

// All calls of one RPC message, as far as it could be read.
struct Calls {
  std::vector<Call> all;
  // The message was read to its end. False: it is malformed or incomplete, or has a type that is
  // not known here, or too many parameters; `all` has what came before that.
  bool whole = false;
};
// `body`: without the headers. At most 10,000 parameters are kept in total.
Calls decode_rpc(std::string_view body, std::uint32_t tds_version);

struct TransactionRequest {
  std::uint16_t kind = 0;
  std::uint8_t isolation = 0;  // for begin, or of the transaction that begins next; 5: SNAPSHOT
  bool begins_next = false;    // for commit and rollback
  std::string_view name;       // UTF-16; for rollback: a savepoint
};
Decoded<TransactionRequest> decode_transaction_request(std::string_view body);

// Writes a call of our own. Its parameters are named, so that their order does not matter.
class CallWriter {
 public:
  // `out` must outlive the writer. `transaction`: Headers::transaction. `name`: the procedure as
  // T-SQL writes it, for example [database].[schema].[procedure]; UTF-8.
  CallWriter(std::string& out, std::uint32_t tds_version, std::uint64_t transaction,
             std::string_view name);

  void text(std::string_view name, const std::string_view* value,
            bool output = false);  // nvarchar(4000), a longer value is cut; nullptr: NULL
  void integer(std::string_view name, const std::int64_t* value, bool output = false);  // bigint
  void binary(std::string_view name, std::string_view value);  // varbinary, at most 8000 bytes

 private:
  void begin(std::string_view name, bool output);
  std::string& out_;
};

}  // namespace termgate::tds
