// sql …: a shell for an SQLite file that is served over HTTP. It sends statements one by one and
// unchanged.
#include <sqlite3.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <termgate/error.hpp>

#include "command.hpp"
#include "input.hpp"
#include "output.hpp"
#include "secrets.hpp"
#include "support/hrana_client.hpp"

namespace po = boost::program_options;

namespace termgate::cli {
namespace {

constexpr std::size_t statement_bytes_max = 1024 * 1024;  // the server's limit

constexpr const char* dot_commands =
    ".mode table|json   how rows are printed\n"
    ".tables            the tables and views\n"
    ".schema [NAME]     how they were made\n"
    ".quit              the end; an open transaction is rolled back";

// ------------------------------------------------------------------------------------------------
// output

std::string number_text(double number) {
  if (std::isnan(number)) return "NULL";
  std::string text = fmt::format("{}", number);
  // Like SQLite, print a float with a point or an exponent.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string cell(const HranaValue& value) {
  struct Cell {
    std::string operator()(std::monostate) const { return "NULL"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const std::string& text) const { return printable(text); }
    std::string operator()(const HranaBlob& blob) const {
      std::string text = "x'";
      for (const char byte : blob.bytes)
        text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      return text + "'";
    }
  };
  return std::visit(Cell(), value);
}

boost::json::value json_of(const HranaValue& value) {
  struct Json {
    boost::json::value operator()(std::monostate) const { return nullptr; }
    boost::json::value operator()(std::int64_t number) const { return number; }
    boost::json::value operator()(double number) const {
      if (std::isfinite(number)) return number;
      return nullptr;
    }
    boost::json::value operator()(const std::string& text) const {
      return boost::json::string(is_utf8(text) ? text : printable(text));
    }
    boost::json::value operator()(const HranaBlob& blob) const {
      boost::json::object object;
      put_payload(object, blob.bytes);
      return object;
    }
  };
  return std::visit(Json(), value);
}

void print_rows(const HranaRows& result, bool json) {
  if (json) {
    boost::json::array rows;
    for (const auto& values : result.rows) {
      boost::json::object row;
      for (std::size_t i = 0; i < values.size(); ++i) row[result.columns[i]] = json_of(values[i]);
      rows.push_back(std::move(row));
    }
    return print_json(rows);
  }
  if (result.columns.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const auto& values : result.rows) {
    auto& row = rows.emplace_back();
    for (const HranaValue& value : values) row.push_back(cell(value));
  }
  std::vector<std::string> head;
  for (const std::string& column : result.columns) head.push_back(printable(column));
  print_table(head, rows);
}

// ------------------------------------------------------------------------------------------------
// statements

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n;") == std::string_view::npos;
}

// The end of the first statement: after its semicolon. SQLite decides which semicolons belong to
// strings, comments and triggers. npos if the statement is incomplete.
std::size_t statement_end(const std::string& text) {
  for (auto at = text.find(';'); at != std::string::npos; at = text.find(';', at + 1)) {
    if (sqlite3_complete(text.substr(0, at + 1).c_str()) == 1) return at + 1;
  }
  return std::string::npos;
}

class Shell {
 public:
  Shell(HranaClient& client, bool json) : client_(client), json_(json) {}

  // Runs the complete statements of the text; what follows the last semicolon stays in it.
  void run(std::string& text) {
    for (auto end = statement_end(text); end != std::string::npos; end = statement_end(text)) {
      const std::string statement = text.substr(0, end);
      text.erase(0, end);
      run_one(statement);
    }
    if (blank(text)) text.clear();
  }
  void run_one(const std::string& statement) {
    if (!blank(statement)) print_rows(client_.execute(statement), json_);
  }

  // Runs a dot command. Returns whether to go on.
  bool point(const std::string& line) {
    const auto blank_at = line.find_first_of(" \t");
    const std::string word = line.substr(0, blank_at);
    std::string rest =
        blank_at == std::string::npos ? "" : line.substr(line.find_first_not_of(" \t", blank_at));
    if (word == ".quit" || word == ".exit") return false;
    if (word == ".mode" && (rest == "table" || rest == "json")) json_ = rest == "json";
    else if (word == ".tables")
      print_rows(client_.execute("SELECT name, type FROM sqlite_schema WHERE type IN ('table', "
                                 "'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE "
                                 "'\\' ORDER BY name"),
                 json_);
    else if (word == ".schema")
      for (const auto& row : client_
                                 .execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND "
                                          "(?1 = '' OR tbl_name = ?1) ORDER BY name",
                                          {rest})
                                 .rows)
        print_line(escaped(cell(row[0])) + ";");
    else print_line(dot_commands);
    return true;
  }

 private:
  HranaClient& client_;
  bool json_;
};

// Reads lines until the end of the input. On a terminal an error is shown and the shell goes on;
// otherwise it ends the command, with its status.
void read_lines(Shell& shell, const HranaClient& client) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  const Interrupts interrupts;
  Input input("-");
  std::string text;
  for (std::string line;;) {
    if (terminal) {
      std::fputs(!text.empty()   ? "     ...> "
                 : client.open() ? "termgate*> "
                                 : "termgate> ",
                 stdout);
      std::fflush(stdout);
    }
    const auto next =
        input.line(line, statement_bytes_max, std::chrono::milliseconds(-1), interrupts);
    if (next != Input::Next::line) break;
    try {
      if (text.empty() && line.starts_with('.')) {
        if (!shell.point(line)) return;
        continue;
      }
      text += line + "\n";
      if (text.size() > statement_bytes_max)
        throw UsageError(
            fmt::format("a statement may have {} bytes, and the one that is being read has more",
                        statement_bytes_max));
      shell.run(text);
    } catch (const UsageError& error) {
      if (!terminal) throw;
      print_message(error.what());
      text.clear();
    } catch (const Error& error) {
      if (!terminal) throw;
      const std::string_view message = error.what();
      print_message(escaped(error.code().empty() || message.starts_with(error.code())
                                ? std::string(message)
                                : fmt::format("{}: {}", error.code(), message)));
      // Drop the rest of the line, which was written for the case that all went well.
      text.clear();
    }
  }
  if (terminal) print_line("");
  else if (!text.empty())
    throw UsageError(
        "the input ends within a statement: its semicolon is missing, and it was not sent");
}

HranaClient::Options options_of(const Arguments& arguments) {
  HranaClient::Options options;
  options.url = arguments.text("url");
  if (arguments.has("scope") != arguments.has("term"))
    throw UsageError("--scope and --term belong together");
  if (arguments.has("scope")) {
    options.scope = arguments.scope().name();
    options.term = arguments.term().value();
  }
  if (const auto file = arguments.maybe("token-file")) {
    options.token = url_in_file("token-file", *file);
    know_secret(options.token);
  }
  options.ca_file = arguments.text_or("tls-ca", "");
  options.timeout = arguments.duration_or("timeout", std::chrono::seconds(30));
  return options;
}

int run_sql(const Arguments& arguments) {
  HranaClient client(options_of(arguments));
  Shell shell(client, arguments.json());
  if (!arguments.has("command")) {
    read_lines(shell, client);
    return Exit::done;
  }
  for (std::string text : arguments.list("command")) {
    // Other shells have -c SQL. No option here begins with one hyphen, so ignore it.
    if (text == "-c") continue;
    shell.run(text);
    shell.run_one(text);
  }
  return Exit::done;
}

}  // namespace

void add_sql_command(std::vector<Command>& commands) {
  Command command{
      "sql",
      "send SQL to an SQLite file that is served over HTTP",
      "Reads statements from standard input, each up to its semicolon, or takes them as arguments. "
      "BEGIN opens a transaction that "
      "lasts until COMMIT.\nA write needs a scope and a term.\n"
      "  termgate sql --url http://127.0.0.1:8080\n"
      "  termgate sql --url http://127.0.0.1:8080 --scope billing --term 5 -c \"UPDATE accounts "
      "SET balance = 8\"\n"
      "At a terminal: .tables, .schema, .mode json, .quit. An error is shown with its code. Where "
      "the input is no terminal, the "
      "first error ends the command with its exit status.",
      [](po::options_description& o) {
        o.add_options()("url", po::value<std::string>(),
                        "the server: http://HOST:PORT or https://HOST:PORT")(
            "scope", po::value<std::string>(), "the scope that is written to")(
            "term", po::value<std::string>(), "the leader's term")(
            "token-file", po::value<std::string>(), "a file whose first line is the token")(
            "tls-ca", po::value<std::string>(),
            "certificates of the authority that https:// is trusted for (the system's)")(
            "timeout", po::value<std::string>(), "how long a statement may take (30s)")(
            "command", po::value<std::vector<std::string>>(),
            "SQL, in place of standard input; also after -c");
      },
      {"command"},
      run_sql};
  command.own_database = true;
  commands.push_back(std::move(command));
}

}  // namespace termgate::cli
