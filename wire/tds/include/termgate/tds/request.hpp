// What a client asks for: the payload of a batch, an RPC or a request to the transaction manager. Views point into that payload.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <termgate/tds/malformed.hpp>
#include <termgate/tds/type_info.hpp>
#include <termgate/tds/types.hpp>

namespace termgate::tds {

// In front of every batch, RPC and transaction request from TDS 7.2 on.
struct Headers {
  std::uint64_t transaction = 0;  // its descriptor, as a number of the 8 bytes; 0: none is open
  std::uint32_t outstanding = 1;
  bool has_transaction = false;  // without that header a request belongs to no transaction
  std::size_t bytes = 0;         // of the payload; 0: there are no headers (TDS 7.1)
};
// `payload`: at least its first bytes; what lies behind the headers does not matter. Malformed: lengths that do not fit, a header that is
// there twice, more than 4096 bytes of them.
Decoded<Headers> decode_headers(std::string_view payload, std::uint32_t tds_version);
// The headers of a request of our own in the transaction that `transaction` names.
void append_headers(std::string& out, std::uint64_t transaction);

struct Parameter {
  std::string_view name;  // UTF-16, with its @
  std::uint8_t status = 0;
  TypeInfo type;
  ValueRead value;
};

struct Call {
  std::uint16_t id = procedure::none;
  std::string_view name;  // UTF-16; empty where there is an id
  std::uint16_t options = 0;
  std::vector<Parameter> parameters;
};

// All calls of one RPC message, and how far it could be read.
struct Calls {
  std::vector<Call> all;
  // To the end. False: something stands in it that is not understood here (a table as a parameter, an encrypted one) or that is malformed;
  // `all` is what came before it, the last call without its further parameters.
  bool whole = false;
};
// `body`: behind the headers. At most 10,000 parameters are read in all.
Calls decode_rpc(std::string_view body, std::uint32_t tds_version);

struct TransactionRequest {
  std::uint16_t kind = 0;
  std::uint8_t isolation = 0;  // of begin; 5: SNAPSHOT
  bool begins_next = false;    // of commit and rollback
  std::string_view name;       // UTF-16; of rollback: a savepoint
};
Decoded<TransactionRequest> decode_transaction_request(std::string_view body);

// A call of our own, parameter by parameter; named, so that their order does not matter.
class CallWriter {
 public:
  // `name` as UTF-8, in as many parts as it needs, brackets included.
  CallWriter(std::string& out, std::uint32_t tds_version, std::uint64_t transaction, std::string_view name);

  void text(std::string_view name, const std::string_view* value, bool output = false);  // nvarchar(4000); nullptr: NULL
  void integer(std::string_view name, const std::int64_t* value, bool output = false);   // bigint
  void binary(std::string_view name, std::string_view value);                            // varbinary(8000)

 private:
  void begin(std::string_view name, bool output);
  std::string& out_;
};

}  // namespace termgate::tds
