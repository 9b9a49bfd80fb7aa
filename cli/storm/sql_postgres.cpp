// storm's plain connection to PostgreSQL, on libpq.
#include <libpq-fe.h>

#include <fmt/format.h>

#include <termgate/detail/error_from_message.hpp>
#include <termgate/error.hpp>

#include "storm/sql.hpp"

namespace termgate::cli::storm {
namespace {

struct ResultDeleter {
  void operator()(PGresult* result) const { PQclear(result); }
};

class Postgres final : public Sql {
 public:
  explicit Postgres(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_) != CONNECTION_OK) {
      const std::string why = PQerrorMessage(connection_);
      PQfinish(connection_);
      throw Unavailable("no connection: " + why.substr(0, why.find('\n')));
    }
    PQsetNoticeProcessor(
        connection_, [](void*, const char*) {}, nullptr);
  }
  ~Postgres() override { PQfinish(connection_); }
  Postgres(const Postgres&) = delete;
  Postgres& operator=(const Postgres&) = delete;

  Table run(const std::string& statement, const std::vector<std::string>& values) override {
    std::vector<const char*> pointers;
    for (const std::string& value : values) pointers.push_back(value.c_str());
    const std::unique_ptr<PGresult, ResultDeleter> result(
        PQexecParams(connection_, statement.c_str(), static_cast<int>(pointers.size()), nullptr,
                     pointers.data(), nullptr, nullptr, 0));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail(statement, result.get());
    // PostgreSQL answers COMMIT of a failed transaction with success, but has rolled it back.
    if (statement == "COMMIT" && std::string_view(PQcmdStatus(result.get())) != "COMMIT")
      throw DatabaseError("the transaction had failed and was rolled back", "25P02");
    Table table;
    const char* affected = PQcmdTuples(result.get());
    table.affected = *affected == '\0' ? 0 : std::stoll(affected);
    for (int row = 0; row < PQntuples(result.get()); ++row) {
      auto& cells = table.rows.emplace_back();
      for (int column = 0; column < PQnfields(result.get()); ++column)
        cells.emplace_back(PQgetvalue(result.get(), row, column));
    }
    return table;
  }

  void run_text(const std::string& text) override {
    const std::unique_ptr<PGresult, ResultDeleter> result(PQexec(connection_, text.c_str()));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
      fail(text.ends_with("COMMIT") ? "COMMIT" : text, result.get());
    if (text.ends_with("COMMIT") && std::string_view(PQcmdStatus(result.get())) != "COMMIT")
      throw DatabaseError("the transaction had failed and was rolled back", "25P02");
  }

  bool lost() const override { return PQstatus(connection_) != CONNECTION_OK; }

  void roll_back() noexcept override {
    if (PQtransactionStatus(connection_) != PQTRANS_IDLE) PQclear(PQexec(connection_, "ROLLBACK"));
  }

 private:
  [[noreturn]] void fail(const std::string& statement, const PGresult* result) {
    const char* field = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const std::string message = field != nullptr ? field : "the connection was lost";
    const std::string code = state != nullptr ? state : "";
    if (lost()) {
      if (statement.starts_with("COMMIT")) throw OutcomeUnknown(message, code);
      throw Unavailable(message, code);
    }
    detail::throw_if_tg(message);
    if (code.starts_with("40")) throw Conflict(message, code);
    throw DatabaseError(message, code);
  }

  PGconn* connection_;
};

}  // namespace

std::unique_ptr<Sql> connect_postgres(const std::string& url) {
  return std::make_unique<Postgres>(url);
}

}  // namespace termgate::cli::storm
