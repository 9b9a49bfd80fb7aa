// storm's plain connection through ODBC: to SQL Server, and to PostgreSQL by its ODBC driver.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include <termgate/error.hpp>
#include <termgate/text/ascii.hpp>

#include "support/odbc_client.hpp"
#include "storm/sql.hpp"

namespace termgate::cli::storm {
namespace {

namespace odbc = termgate::detail::odbc;
using odbc::Family;
using odbc::Maker;
using odbc::Phase;
using Attributes = std::vector<std::pair<std::string, std::string>>;

void set(Attributes& attributes, const std::string& key, const std::string& value) {
  for (auto& [name, held] : attributes) {
    if (text::lower(name) != text::lower(key)) continue;
    held = value;
    return;
  }
  attributes.emplace_back(key, value);
}

std::string value_of(const Attributes& attributes, std::initializer_list<std::string_view> keys) {
  for (const auto& [name, value] : attributes) {
    if (std::find(keys.begin(), keys.end(), text::lower(name)) != keys.end()) return value;
  }
  return {};
}

std::string url_of(const Attributes& attributes, Maker maker) {
  std::string url = "odbc:";
  for (const auto& [key, value] : attributes)
    url += fmt::format("{}={};", key, odbc::quoted_value(key, value, maker));
  return url;
}

class Odbc final : public Sql {
 public:
  explicit Odbc(const std::string& url) : client_(url) {}

  Table run(const std::string& statement, const std::vector<std::string>& values) override {
    const std::vector<Value> bound(values.begin(), values.end());
    const std::string text = spoken(
        client_.family() == Family::sqlserver ? Engine::sqlserver : Engine::postgresql, statement);
    const Rows rows =
        client_.execute(odbc::marked(text, bound.size(), client_.family()), bound, false,
                        statement.starts_with("COMMIT") ? Phase::commit : Phase::before_commit);
    if (statement == "BEGIN") open_ = true;
    if (statement == "COMMIT") open_ = false;
    Table table;
    table.affected = rows.affected;
    for (const Row& row : rows.rows) {
      auto& cells = table.rows.emplace_back();
      for (const Value& value : row)
        cells.push_back(value.is_null() ? std::string() : value.as_text());
    }
    return table;
  }

  void run_text(const std::string&) override {
    throw InvalidInput("storm: a text of several statements goes to PostgreSQL's own wire only");
  }

  bool lost() const override { return client_.lost(); }

  void roll_back() noexcept override {
    if (!open_) return;
    open_ = false;
    client_.roll_back();
  }

 private:
  OdbcClient client_;
  bool open_ = false;  // a transaction is open that roll_back() must end
};

}  // namespace

std::unique_ptr<Sql> connect_odbc(const std::string& url) { return std::make_unique<Odbc>(url); }

Engine engine_of_odbc(const std::string& url) {
  // dialect_of() throws for databases that have no layer 1.
  return odbc::dialect_of(odbc::family_of(odbc::connection_string_of(url).maker)).family ==
                 Family::sqlserver
             ? Engine::sqlserver
             : Engine::postgresql;
}

std::string named_odbc(const std::string& url, const std::string& application_name) {
  const auto text = odbc::connection_string_of(url);
  Attributes attributes = odbc::attributes_of(text.text);
  if (odbc::family_of(text.maker) == Family::sqlserver) set(attributes, "APP", application_name);
  else {
    const std::string before = value_of(attributes, {"pqopt"});
    const auto place = before.find(" options=-csearch_path=");  // added by placed_odbc()
    set(attributes, "pqopt",
        "application_name=" + application_name +
            (place == std::string::npos ? "" : before.substr(place)));
  }
  return url_of(attributes, text.maker);
}

std::string placed_odbc(const std::string& url, const std::string& schema) {
  const auto text = odbc::connection_string_of(url);
  Attributes attributes = odbc::attributes_of(text.text);
  set(attributes, "pqopt", value_of(attributes, {"pqopt"}) + " options=-csearch_path=" + schema);
  return url_of(attributes, text.maker);
}

std::string through_odbc(const std::string& url, int port) {
  const auto text = odbc::connection_string_of(url);
  Attributes attributes = odbc::attributes_of(text.text);
  std::erase_if(attributes, [](const auto& one) { return text::lower(one.first) == "servername"; });
  if (text.maker == Maker::microsoft) {
    set(attributes, "Server", fmt::format("tcp:127.0.0.1,{}", port));
  } else {
    set(attributes, "Server", "127.0.0.1");
    set(attributes, "Port", std::to_string(port));
  }
  return url_of(attributes, text.maker);
}

std::string beside(const std::string& url, int port) {
  if (!url.starts_with("sqlserver://")) return through_odbc(url, port);
  // Change only the server's part of the text, because programs in other languages parse this URL
  // themselves. The last @ before the ? ends the login.
  const auto at = url.rfind('@', url.find('?'));
  return url.substr(0, at + 1) + fmt::format("127.0.0.1:{}", port) +
         url.substr(std::min(url.find_first_of("/?", at), url.size()));
}

std::pair<std::string, std::string> place_of_odbc(const std::string& url) {
  const auto text = odbc::connection_string_of(url);
  const bool tsql = odbc::family_of(text.maker) == Family::sqlserver;
  Odbc session(url);
  const Table encrypted = session.run(
      tsql ? "SELECT CASE WHEN encrypt_option = 'TRUE' THEN 1 ELSE 0 END FROM "
             "sys.dm_exec_connections WHERE session_id = @@SPID"
           : "SELECT CASE WHEN ssl THEN 1 ELSE 0 END FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
      {});
  if (encrypted.rows.empty() || encrypted.rows[0][0] != "0")
    throw Error("the connection is encrypted");
  const Attributes attributes = odbc::attributes_of(text.text);
  std::string host = value_of(attributes, {"server", "servername"}),
              port = value_of(attributes, {"port"});
  if (text.maker == Maker::microsoft) {
    if (host.starts_with("tcp:")) host.erase(0, 4);
    if (const auto comma = host.find(','); comma != std::string::npos) {
      port = host.substr(comma + 1);
      host.resize(comma);
    }
  }
  if (host.empty()) throw Error("the connection string does not name the server");
  return {host, port.empty() ? (tsql ? "1433" : "5432") : port};
}

bool has_high_levels(const std::string& url) {
  Odbc session(url);
  try {
    session.run("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", {});
    session.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {});
    return true;
  } catch (const DatabaseError&) { return false; }
}

}  // namespace termgate::cli::storm
