// Statements that a session carries out itself, parsed; and those that are accepted and do nothing.
#include <algorithm>

#include "names.hpp"
#include "writer.hpp"

namespace termgate::dialect {
namespace {

bool as_bool(const std::string& option, const std::string& value) {
  const std::string word = lowered(value);
  if (word.empty() || word == "true" || word == "on" || word == "1") return true;
  if (word == "false" || word == "off" || word == "0") return false;
  refuse_as("42601", option + " requires a Boolean value");
}

}  // namespace

void Writer::accept(std::string_view tag, std::string_view notice) {
  out_.effect = Effect::none;
  out_.tag = tag;
  if (!notice.empty()) out_.notices.emplace_back(notice);
}

std::shared_ptr<Translated> Writer::inner(Node node) {
  auto result = std::make_shared<Translated>();
  result->parameters = out_.parameters;
  Writer writer(*result, sql_, depth_, relations_);
  out_.typed = relations_ != nullptr;
  writer.statement(node);
  for (std::size_t i = 0; i < result->parameters.size(); ++i) {
    if (out_.parameters.size() <= i) out_.parameters.push_back(result->parameters[i]);
    else if (out_.parameters[i] == 0) out_.parameters[i] = result->parameters[i];
  }
  return result;
}

// A value of SET, or of an option in parentheses.
std::string Writer::setting_text(Node node) const {
  if (node.is("String")) return node.body().text("sval");
  if (node.is("Integer")) return std::to_string(node.body().integer("ival"));
  if (node.is("Float")) return node.body().text("fval");
  if (node.is("Boolean")) return node.body().flag("boolval") ? "true" : "false";
  if (node.is("TypeName")) return last_name(node.body()["names"]);
  if (const Node constant = node.as("A_Const")) {
    if (constant["sval"]) return constant["sval"].text("sval");
    if (constant["ival"]) return std::to_string(whole(constant));
    if (constant["fval"]) return constant["fval"].text("fval");
    if (constant["boolval"]) return constant["boolval"].flag("boolval") ? "true" : "false";
  }
  // SET TIME ZONE INTERVAL '…'
  if (const Node cast_node = node.as("TypeCast")) return setting_text(cast_node["arg"]);
  return {};
}

void Writer::set_variable(Node body) {
  const std::string_view kind = body["kind"].string();
  if (kind == "VAR_SET_MULTI") {
    const std::string name = body.text("name");
    if (name == "TRANSACTION SNAPSHOT") refuse("SET TRANSACTION SNAPSHOT");
    SetTransaction set;
    set.session = name == "SESSION CHARACTERISTICS";
    for (const Node item : body["args"].items()) {
      const Node option = item.as("DefElem");
      const std::string which = option.text("defname");
      const std::string value = setting_text(option["arg"]);
      if (which == "transaction_isolation") set.modes.isolation = value;
      else if (which == "transaction_read_only") set.modes.read_only = value == "1";
      else if (which == "transaction_deferrable") set.modes.deferrable = value == "1";
    }
    out_.utility = std::move(set);
    out_.tag = "SET";
    return;
  }
  SetVariable set;
  set.name = kind == "VAR_RESET_ALL" ? "all" : lowered(body.text("name"));
  set.local = body.flag("is_local");
  if (kind == "VAR_SET_CURRENT") refuse("SET … FROM CURRENT");
  if (kind == "VAR_SET_VALUE") {
    for (const Node item : body["args"].items()) set.values.push_back(setting_text(item));
  }
  out_.tag = kind == "VAR_RESET" || kind == "VAR_RESET_ALL" ? "RESET" : "SET";
  out_.utility = std::move(set);
}

void Writer::transaction(Node body) {
  const std::string_view kind = body["kind"].string();
  TransactionControl control;
  control.chain = body.flag("chain");
  control.savepoint = body.text("savepoint_name");
  using What = TransactionControl::What;
  const auto is = [&](std::string_view wanted, What what, std::string_view tag) {
    if (kind != wanted) return false;
    control.what = what;
    out_.tag = tag;
    return true;
  };
  if (!is("TRANS_STMT_BEGIN", What::begin, "BEGIN") && !is("TRANS_STMT_START", What::begin, "START TRANSACTION") &&
      !is("TRANS_STMT_COMMIT", What::commit, "COMMIT") && !is("TRANS_STMT_ROLLBACK", What::rollback, "ROLLBACK") &&
      !is("TRANS_STMT_SAVEPOINT", What::savepoint, "SAVEPOINT") && !is("TRANS_STMT_RELEASE", What::release, "RELEASE") &&
      !is("TRANS_STMT_ROLLBACK_TO", What::rollback_to, "ROLLBACK")) {
    // In PostgreSQL a PREPARE TRANSACTION that fails has ended the block; the session looks for this message's beginning.
    refuse(kind == "TRANS_STMT_PREPARE" ? "PREPARE TRANSACTION" : "a prepared transaction");
  }
  for (const Node item : body["options"].items()) {
    const Node option = item.as("DefElem");
    const std::string which = option.text("defname");
    const std::string value = setting_text(option["arg"]);
    if (which == "transaction_isolation") control.modes.isolation = value;
    else if (which == "transaction_read_only") control.modes.read_only = value == "1";
    else if (which == "transaction_deferrable") control.modes.deferrable = value == "1";
  }
  out_.utility = std::move(control);
}

void Writer::copy(Node body) {
  if (body.flag("is_program")) refuse("COPY … PROGRAM");
  if (body["filename"]) refuse("COPY with a file of the server (use STDIN or STDOUT)");
  Copy copy;
  copy.from = body.flag("is_from");
  if (const Node relation = body["relation"]) {
    copy.table = relation_name(relation);
    copy.relation =
        (relation.text("schemaname") == "information_schema" ? "information_schema_" : "") + std::string(relation.text("relname"));
  }
  for (const std::string& column_name : strings(body["attlist"])) copy.columns.push_back(column_name);
  if (body["query"]) copy.query = inner(body["query"]);
  if (body["whereClause"]) copy.where = expression(body["whereClause"]).text;
  std::optional<std::string> delimiter, quote, escape, null;
  const auto names = [](Node list) { return strings(list); };
  std::set<std::string> seen;
  for (const Node item : body["options"].items()) {
    const Node option = item.as("DefElem");
    const std::string which = option.text("defname");
    const Node arg = option["arg"];
    const std::string value = setting_text(arg);
    if (!seen.insert(which).second) refuse_as("42601", "conflicting or redundant options", option);
    const Node list = arg.is("List") ? arg.body()["items"] : Node();
    if (which == "format") {
      if (value != "text" && value != "csv" && value != "binary")
        refuse_as("22023", "COPY format \"" + value + "\" not recognized", option);
      copy.format = value == "csv" ? Copy::Format::csv : value == "binary" ? Copy::Format::binary : Copy::Format::text;
    } else if (which == "delimiter") delimiter = value;
    else if (which == "quote") quote = value;
    else if (which == "escape") escape = value;
    else if (which == "null") null = value;
    else if (which == "header") {
      copy.header_match = lowered(value) == "match";
      copy.header = copy.header_match || as_bool("header", value);
    } else if (which == "force_quote") copy.force_quote = arg.is("A_Star") ? std::vector<std::string>() : names(list);
    else if (which == "force_not_null") copy.force_not_null = names(list);
    else if (which == "force_null") copy.force_null = names(list);
    else if (which == "encoding") copy.encoding = value;
    else if (which != "freeze") refuse_as("42601", "option \"" + which + "\" not recognized", option);
  }
  const bool csv = copy.format == Copy::Format::csv;
  const bool binary = copy.format == Copy::Format::binary;
  const auto single = [](const std::optional<std::string>& text, char otherwise, std::string_view what) {
    if (!text) return otherwise;
    if (text->size() != 1) refuse_as("0A000", "COPY " + std::string(what) + " must be a single one-byte character");
    return text->front();
  };
  if (binary && (delimiter || null || copy.header)) refuse_as("42601", "cannot specify DELIMITER, NULL or HEADER in BINARY mode");
  if (!csv && (quote || escape || copy.force_quote || !copy.force_not_null.empty() || !copy.force_null.empty()))
    refuse_as("0A000", "COPY quote, escape and force options are available only in CSV mode");
  copy.delimiter = single(delimiter, csv ? ',' : '\t', "delimiter");
  copy.quote = single(quote, '"', "quote");
  copy.escape = single(escape, copy.quote, "escape");
  copy.null = null.value_or(csv || binary ? "" : "\\N");
  if (copy.delimiter == '\n' || copy.delimiter == '\r' || copy.null.find_first_of("\r\n") != std::string::npos)
    refuse_as("22023", "COPY delimiter and null representation cannot hold a newline");
  if (copy.null.find(copy.delimiter) != std::string::npos) refuse_as("0A000", "COPY delimiter must not appear in the NULL specification");
  if (csv && copy.quote == copy.delimiter) refuse_as("22023", "COPY delimiter and quote must be different");
  out_.tag = "COPY";
  out_.utility = std::move(copy);
}

void Writer::explain(Node body) {
  Explain explain;
  for (const Node item : body["options"].items()) {
    const Node option = item.as("DefElem");
    const std::string which = option.text("defname");
    const std::string value = setting_text(option["arg"]);
    if (which == "analyze") explain.analyze = as_bool(which, value);
    else if (which == "format") explain.format = lowered(value);
  }
  if (explain.format != "text") refuse("EXPLAIN (FORMAT " + explain.format + ")");
  explain.statement = inner(body["query"]);
  out_.tag = "EXPLAIN";
  out_.returns_rows = true;
  out_.columns = {{false, "QUERY PLAN", oid::text}};
  out_.utility = std::move(explain);
}

void Writer::vacuum(Node body) {
  Vacuum vacuum;
  vacuum.vacuum = body.flag("is_vacuumcmd");
  vacuum.analyze = !vacuum.vacuum;
  for (const Node item : body["options"].items()) {
    const Node option = item.as("DefElem");
    const std::string which = option.text("defname");
    if (which == "analyze") vacuum.analyze = as_bool(which, setting_text(option["arg"]));
    if (which == "full") vacuum.full = as_bool(which, setting_text(option["arg"]));
  }
  for (const Node item : body["rels"].items()) vacuum.tables.push_back(relation_name(item.as("VacuumRelation")["relation"]));
  out_.tag = vacuum.vacuum ? "VACUUM" : "ANALYZE";
  out_.utility = std::move(vacuum);
}

void Writer::cursor(Node body) {
  const std::int64_t options = body.integer("options");
  DeclareCursor declare;
  declare.name = body.text("portalname");
  declare.binary = (options & 1) != 0;
  declare.scroll = (options & 2) != 0;
  declare.hold = (options & 0x20) != 0;
  declare.query = inner(body["query"]);
  out_.tag = "DECLARE CURSOR";
  out_.utility = std::move(declare);
}

void Writer::prepare(Node body) {
  PrepareStatement prepare;
  prepare.name = body.text("name");
  auto statement_text = std::make_shared<Translated>();
  for (const Node type : body["argtypes"].items()) statement_text->parameters.push_back(type_of_name(type.as("TypeName")));
  Writer writer(*statement_text, sql_, depth_, relations_);
  out_.typed = relations_ != nullptr;
  writer.statement(body["query"]);
  prepare.statement = std::move(statement_text);
  out_.tag = "PREPARE";
  out_.utility = std::move(prepare);
}

bool Writer::utility(Node node) {
  const std::string_view kind = node.kind();
  const Node body = node.body();
  out_.effect = Effect::utility;
  if (kind == "VariableSetStmt") set_variable(body);
  else if (kind == "VariableShowStmt") {
    out_.tag = "SHOW";
    out_.returns_rows = true;
    const std::string name = body.text("name");
    if (name == "all") out_.columns = {{false, "name", oid::text}, {false, "setting", oid::text}, {false, "description", oid::text}};
    else {
      const std::string small = lowered(name);
      out_.columns = {{false,
                       small == "timezone"        ? "TimeZone"
                       : small == "datestyle"     ? "DateStyle"
                       : small == "intervalstyle" ? "IntervalStyle"
                                                  : name,
                       oid::text}};
    }
    out_.utility = ShowVariable{lowered(name)};
  } else if (kind == "TransactionStmt") transaction(body);
  else if (kind == "CopyStmt") copy(body);
  else if (kind == "ExplainStmt") explain(body);
  else if (kind == "VacuumStmt") vacuum(body);
  else if (kind == "DeclareCursorStmt") cursor(body);
  else if (kind == "FetchStmt") {
    FetchCursor fetch;
    const std::string_view direction = body["direction"].string();
    fetch.direction = direction == "FETCH_BACKWARD"   ? FetchCursor::Direction::backward
                      : direction == "FETCH_ABSOLUTE" ? FetchCursor::Direction::absolute
                      : direction == "FETCH_RELATIVE" ? FetchCursor::Direction::relative
                                                      : FetchCursor::Direction::forward;
    fetch.count = body.integer("howMany");
    fetch.name = body.text("portalname");
    fetch.move = body.flag("ismove");
    out_.tag = fetch.move ? "MOVE" : "FETCH";
    out_.returns_rows = !fetch.move;
    out_.utility = std::move(fetch);
  } else if (kind == "ClosePortalStmt") {
    out_.tag = body["portalname"] ? "CLOSE CURSOR" : "CLOSE CURSOR ALL";
    out_.utility = CloseCursor{body.text("portalname")};
  } else if (kind == "PrepareStmt") prepare(body);
  else if (kind == "ExecuteStmt") {
    ExecuteStatement execute;
    execute.name = body.text("name");
    for (const Node item : body["params"].items()) execute.arguments.push_back(expression(item).text);
    out_.tag = "EXECUTE";
    out_.utility = std::move(execute);
  } else if (kind == "DeallocateStmt") {
    out_.tag = body["name"] ? "DEALLOCATE" : "DEALLOCATE ALL";
    out_.utility = Deallocate{body.text("name")};
  } else if (kind == "DiscardStmt") {
    const std::string_view target = body["target"].string();
    const auto what = target == "DISCARD_PLANS"       ? Discard::What::plans
                      : target == "DISCARD_SEQUENCES" ? Discard::What::sequences
                      : target == "DISCARD_TEMP"      ? Discard::What::temporary
                                                      : Discard::What::all;
    out_.tag = what == Discard::What::all         ? "DISCARD ALL"
               : what == Discard::What::plans     ? "DISCARD PLANS"
               : what == Discard::What::sequences ? "DISCARD SEQUENCES"
                                                  : "DISCARD TEMP";
    out_.utility = Discard{what};
  } else if (kind == "ListenStmt") {
    out_.tag = "LISTEN";
    out_.utility = Listen{body.text("conditionname")};
  } else if (kind == "UnlistenStmt") {
    out_.tag = "UNLISTEN";
    out_.utility = Unlisten{body.text("conditionname")};
  } else if (kind == "NotifyStmt") {
    out_.tag = "NOTIFY";
    out_.utility = Notify{body.text("conditionname"), body.text("payload")};
  } else if (kind == "CheckPointStmt") {
    out_.tag = "CHECKPOINT";
    out_.utility = Checkpoint{};
  } else if (kind == "LockStmt") {
    check_named(body);
    accept("LOCK TABLE");
  } else if (kind == "GrantStmt") accept(body.flag("is_grant") ? "GRANT" : "REVOKE", "privileges are not kept: accounts are the proxy's");
  else if (kind == "CommentStmt") {
    check_named(body);
    accept("COMMENT", "comments are not kept");
  } else if (kind == "AlterOwnerStmt") accept("ALTER TABLE");
  else if (kind == "ConstraintsSetStmt") accept("SET CONSTRAINTS");
  else if (kind == "CreateSchemaStmt" && body.flag("if_not_exists") && body.text("schemaname") == "public" && !body["schemaElts"])
    accept("CREATE SCHEMA", "schema \"public\" already exists, skipping");
  else return false;
  return true;
}

}  // namespace termgate::dialect
