#include "resolution.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>

#include <termgate/dialect/types.hpp>

namespace termgate::dialect::resolution {
namespace {

constexpr Oid any = 2276, any_array = 2277, any_element = 2283, any_non_array = 2776, any_enum = 3500, any_range = 3831, compatible = 5077,
              compatible_array = 5078, compatible_non_array = 5079, compatible_range = 5080, any_multirange = 4537,
              compatible_multirange = 4538, int2vector = 22, oidvector = 30;

template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    std::array<std::string_view, 10> cells;
    for (auto& cell : cells) {
      const auto tab = line.find('\t');
      cell = line.substr(0, tab);
      if (tab == std::string_view::npos) break;
      line.remove_prefix(tab + 1);
    }
    visit(cells);
  }
}

template <class Number = Oid>
Number number(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

struct Cast {
  char context, how;
  std::string_view function;
};

struct Tables {
  std::unordered_map<Oid, TypeRow> types;
  std::unordered_multimap<std::string_view, OperatorRow> operators;
  std::unordered_multimap<std::string_view, FunctionRow> functions;
  std::map<std::pair<Oid, Oid>, Cast> casts;
  std::unordered_map<std::string_view, Oid> names;

  Tables() {
    each_line(types_text, [&](const auto& cells) {
      const Oid oid = number(cells[0]);
      types[oid] = {oid, cells[1], cells[2][0], cells[3] == "t", number(cells[4]), number(cells[5]), cells[6][0], number<int>(cells[7])};
      names[cells[1]] = oid;
    });
    each_line(operators_text, [&](const auto& cells) {
      operators.emplace(cells[0], OperatorRow{cells[0], number(cells[1]), number(cells[2]), number(cells[3]), cells[4]});
    });
    each_line(casts_text, [&](const auto& cells) { casts[{number(cells[0]), number(cells[1])}] = {cells[2][0], cells[3][0], cells[4]}; });
    each_line(functions_text, [&](const auto& cells) {
      FunctionRow row{cells[0], {}, number(cells[2]), cells[3][0], cells[4] == "t", number(cells[5]), number<int>(cells[6])};
      for (std::string_view list = cells[1]; !list.empty();) {
        const auto comma = list.find(',');
        row.arguments.push_back(number(list.substr(0, comma)));
        list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
      }
      functions.emplace(row.name, std::move(row));
    });
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

char category(Oid type) {
  const TypeRow* row = type_row(type);
  return row == nullptr ? 'U' : row->category;
}
bool preferred(char category_wanted, Oid type) {
  const TypeRow* row = type_row(type);
  return row != nullptr && row->category == category_wanted && row->preferred;
}

bool of_one_family(Oid type) {
  return type == any_array || type == any_element || type == any_non_array || type == any_enum || type == any_range ||
         type == any_multirange;
}
bool of_compatible_family(Oid type) {
  return type == compatible || type == compatible_array || type == compatible_non_array || type == compatible_range ||
         type == compatible_multirange;
}
bool polymorphic(Oid type) { return of_one_family(type) || of_compatible_family(type); }

// What the polymorphic types of one call stand for; false where the arguments do not agree. 0 where only unknown arguments say.
struct Generic {
  Oid element = 0, common = 0;
  bool uses_one = false, uses_common = false;
};
bool infer(std::span<const Oid> given, std::span<const Oid> wanted, Generic& out) {
  std::vector<Oid> commons;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Oid is = given[i];
    if (wanted[i] == any_range || wanted[i] == any_multirange || wanted[i] == any_enum || wanted[i] == compatible_range ||
        wanted[i] == compatible_multirange)
      return false;
    out.uses_one = out.uses_one || of_one_family(wanted[i]);
    out.uses_common = out.uses_common || of_compatible_family(wanted[i]);
    if (!polymorphic(wanted[i]) || is == oid::unknown) continue;
    const bool array = wanted[i] == any_array || wanted[i] == compatible_array;
    if (array && !is_array(is)) return false;
    if ((wanted[i] == any_non_array || wanted[i] == compatible_non_array) && is_array(is)) return false;
    const Oid element = array ? type_row(is)->element : is;
    if (of_one_family(wanted[i])) {
      if (out.element != 0 && out.element != element) return false;
      out.element = element;
    } else {
      commons.push_back(element);
    }
  }
  if (commons.empty()) return true;
  const Common common = common_type(commons);
  if (!common.type) return false;
  out.common = *common.type;
  for (const Oid each : commons) {
    if (!can_coerce(each, out.common)) return false;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (wanted[i] == compatible_array && given[i] != oid::unknown && !can_coerce(given[i], type_row(out.common)->array)) return false;
  }
  return true;
}

Oid replaced(Oid wanted, const Generic& generic) {
  const auto array_of = [](Oid element) { return element == 0 || type_row(element) == nullptr ? Oid{0} : type_row(element)->array; };
  if (wanted == any_array) return array_of(generic.element);
  if (of_one_family(wanted)) return generic.element;
  // Of nothing but unknown constants, the compatible family is text.
  if (wanted == compatible_array) return array_of(generic.common == 0 ? oid::text : generic.common);
  if (of_compatible_family(wanted)) return generic.common == 0 ? oid::text : generic.common;
  return wanted;
}

bool can_coerce_all(std::span<const Oid> given, std::span<const Oid> wanted, Context context) {
  bool generic = false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == wanted[i] || wanted[i] == any) continue;
    if (polymorphic(wanted[i])) {
      generic = true;
      continue;
    }
    if (given[i] == oid::unknown) continue;
    if (cast_path(given[i], wanted[i], context).how == Path::How::none) return false;
  }
  Generic found;
  return !generic || infer(given, wanted, found);
}

template <class Row>
struct Candidate {
  const Row* row = nullptr;
  std::vector<Oid> arguments;
};

// Those for which `score` is highest.
template <class Row, class Score>
void keep_best(std::vector<Candidate<Row>>& candidates, const Score& score) {
  int best = 0;
  std::vector<Candidate<Row>> kept;
  for (auto& each : candidates) {
    const int points = score(each);
    if (points > best) {
      best = points;
      kept.clear();
    }
    if (points == best) kept.push_back(std::move(each));
  }
  candidates = std::move(kept);
}

// func_select_candidate(): nullptr where none is best.
template <class Row>
std::optional<Candidate<Row>> select(std::span<const Oid> given, std::vector<Candidate<Row>> candidates) {
  const std::size_t count = given.size();
  const auto unknowns = static_cast<std::size_t>(std::count(given.begin(), given.end(), oid::unknown));
  keep_best(candidates, [&](const auto& each) {
    int points = 0;
    for (std::size_t i = 0; i < count; ++i) points += given[i] != oid::unknown && each.arguments[i] == given[i] ? 1 : 0;
    return points;
  });
  if (candidates.size() == 1) return candidates.front();
  keep_best(candidates, [&](const auto& each) {
    int points = 0;
    for (std::size_t i = 0; i < count; ++i)
      points += given[i] != oid::unknown && (each.arguments[i] == given[i] || preferred(category(given[i]), each.arguments[i])) ? 1 : 0;
    return points;
  });
  if (candidates.size() == 1) return candidates.front();
  if (unknowns == 0) return std::nullopt;
  std::vector<char> slots(count, '\0');
  std::vector<bool> has_preferred(count, false);
  bool resolved = true;
  for (std::size_t i = 0; i < count && resolved; ++i) {
    if (given[i] != oid::unknown) continue;
    bool conflict = false;
    for (const auto& each : candidates) {
      const char of = category(each.arguments[i]);
      const bool is_preferred = preferred(of, each.arguments[i]);
      if (slots[i] == '\0') {
        slots[i] = of;
        has_preferred[i] = is_preferred;
      } else if (of == slots[i]) {
        has_preferred[i] = has_preferred[i] || is_preferred;
      } else if (of == 'S') {
        slots[i] = of;
        has_preferred[i] = is_preferred;
      } else {
        conflict = true;
      }
    }
    resolved = !conflict || slots[i] == 'S';
  }
  if (resolved) {
    std::vector<Candidate<Row>> kept;
    for (const auto& each : candidates) {
      bool keep = true;
      for (std::size_t i = 0; i < count && keep; ++i) {
        if (given[i] == oid::unknown)
          keep = category(each.arguments[i]) == slots[i] && (!has_preferred[i] || preferred(slots[i], each.arguments[i]));
      }
      if (keep) kept.push_back(each);
    }
    if (!kept.empty()) candidates = std::move(kept);
    if (candidates.size() == 1) return candidates.front();
  }
  if (unknowns == count) return std::nullopt;
  Oid known = 0;
  for (const Oid each : given) {
    if (each == oid::unknown) continue;
    if (known != 0 && known != each) return std::nullopt;
    known = each;
  }
  const std::vector<Oid> same(count, known);
  std::optional<Candidate<Row>> only;
  for (const auto& each : candidates) {
    if (!can_coerce_all(same, each.arguments, Context::implicit)) continue;
    if (only) return std::nullopt;
    only = each;
  }
  return only;
}

}  // namespace

const TypeRow* type_row(Oid type) noexcept {
  const auto found = tables().types.find(type);
  return found == tables().types.end() ? nullptr : &found->second;
}

const TypeRow* type_row_named(std::string_view name) noexcept {
  const auto found = tables().names.find(name);
  return found == tables().names.end() ? nullptr : type_row(found->second);
}

bool is_array(Oid type) noexcept {
  const TypeRow* row = type_row(type);
  return row != nullptr && row->category == 'A' && row->length == -1 && type != int2vector && type != oidvector;
}

std::string spoken(Oid type) {
  const TypeRow* row = type_row(type);
  if (row == nullptr) return "unknown";
  if (is_array(type) && row->element != 0) return spoken(row->element) + "[]";
  constexpr std::pair<Oid, std::string_view> words[] = {{16, "boolean"},
                                                        {18, "\"char\""},
                                                        {20, "bigint"},
                                                        {21, "smallint"},
                                                        {23, "integer"},
                                                        {700, "real"},
                                                        {701, "double precision"},
                                                        {1042, "character"},
                                                        {1043, "character varying"},
                                                        {1083, "time without time zone"},
                                                        {1114, "timestamp without time zone"},
                                                        {1184, "timestamp with time zone"},
                                                        {1266, "time with time zone"},
                                                        {1560, "bit"},
                                                        {1562, "bit varying"}};
  for (const auto& [oid, word] : words) {
    if (oid == type) return std::string(word);
  }
  return std::string(row->name);
}

Path cast_path(Oid source, Oid target, Context context) {
  if (source == target) return {Path::How::relabel, {}};
  const auto found = tables().casts.find({source, target});
  if (found != tables().casts.end()) {
    const Cast& cast = found->second;
    const bool allowed = cast.context == 'i' || (cast.context == 'a' && context != Context::implicit) || context == Context::explicitly;
    if (!allowed) return {};
    return {cast.how == 'f' ? Path::How::function : cast.how == 'i' ? Path::How::text : Path::How::relabel, cast.function};
  }
  if (is_array(target) && is_array(source)) {
    if (cast_path(type_row(source)->element, type_row(target)->element, context).how != Path::How::none) return {Path::How::elements, {}};
    return {};
  }
  if (context != Context::implicit && category(target) == 'S') return {Path::How::text, {}};
  if (context == Context::explicitly && category(source) == 'S') return {Path::How::text, {}};
  return {};
}

bool can_coerce(Oid source, Oid target, Context context) {
  const Oid given[] = {source}, wanted[] = {target};
  return can_coerce_all(given, wanted, context);
}

Operator find_operator(std::string_view name, Oid left, Oid right, bool prefix) {
  if (name == "!=") name = "<>";
  const auto [begin, end] = tables().operators.equal_range(name);
  const auto found = [&](const OperatorRow& row) {
    Operator result{Operator::State::found, &row, row.left, row.right, row.result};
    Generic generic;
    const Oid given[] = {left, right}, wanted[] = {row.left, row.right};
    const std::size_t skip = prefix ? 1 : 0;
    if (infer(std::span(given).subspan(skip), std::span(wanted).subspan(skip), generic)) {
      result.left = replaced(row.left, generic);
      result.right = replaced(row.right, generic);
      result.result = replaced(row.result, generic);
    }
    return result;
  };
  const Oid first = !prefix && left == oid::unknown ? right : left;
  const Oid second = !prefix && right == oid::unknown ? left : right;
  for (auto at = begin; at != end; ++at) {
    if (at->second.left == (prefix ? 0 : first) && at->second.right == second) return found(at->second);
  }
  std::vector<Oid> given;
  if (!prefix) given.push_back(left);
  given.push_back(right);
  std::vector<Candidate<OperatorRow>> candidates;
  for (auto at = begin; at != end; ++at) {
    const OperatorRow& row = at->second;
    if ((row.left == 0) != prefix) continue;
    std::vector<Oid> wanted;
    if (!prefix) wanted.push_back(row.left);
    wanted.push_back(row.right);
    if (can_coerce_all(given, wanted, Context::implicit)) candidates.push_back({&row, std::move(wanted)});
  }
  if (candidates.empty()) return {};
  if (candidates.size() == 1) return found(*candidates.front().row);
  const auto chosen = select(std::span<const Oid>(given), std::move(candidates));
  if (!chosen) return {Operator::State::ambiguous, nullptr, 0, 0, 0};
  return found(*chosen->row);
}

namespace {

// With VARIADIC spelled out and defaults left out; false where the count does not fit.
bool expand(const FunctionRow& row, std::size_t count, std::vector<Oid>& out) {
  const std::size_t own = row.arguments.size();
  if (row.variadic != 0) {
    // "any" takes none as well as many; the others take at least one.
    if (count + 1 < own + (row.variadic == any ? 0 : 1) || own == 0) return false;
    out.assign(row.arguments.begin(), row.arguments.end() - 1);
    if (count < own && row.variadic != any) return false;
    while (out.size() < count) out.push_back(row.variadic);
    return true;
  }
  if (count > own || count + static_cast<std::size_t>(row.defaults) < own) return false;
  out.assign(row.arguments.begin(), row.arguments.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

Function made(const Candidate<FunctionRow>& chosen, std::span<const Oid> given) {
  Function result{Function::State::found, chosen.row, chosen.arguments, chosen.row->result};
  Generic generic;
  if (!infer(given, chosen.arguments, generic)) return {};
  if (generic.uses_one && generic.element == 0) return {Function::State::polymorphic, nullptr, {}, 0};
  for (std::size_t i = 0; i < given.size(); ++i) {
    Oid& each = result.arguments[i];
    each = each == any ? (given[i] == oid::unknown ? oid::text : given[i]) : replaced(each, generic);
  }
  result.result = replaced(result.result, generic);
  return result;
}

}  // namespace

bool is_aggregate(std::string_view name) {
  const auto [begin, end] = tables().functions.equal_range(name);
  return std::any_of(begin, end, [](const auto& each) { return each.second.kind == 'a'; });
}

Function find_function(std::string_view name, std::span<const Oid> given, bool constant) {
  const auto [begin, end] = tables().functions.equal_range(name);
  std::vector<Candidate<FunctionRow>> all;
  for (auto at = begin; at != end; ++at) {
    std::vector<Oid> wanted;
    if (expand(at->second, given.size(), wanted)) all.push_back({&at->second, std::move(wanted)});
  }
  const Candidate<FunctionRow>* exactly = nullptr;
  for (const auto& each : all) {
    if (std::equal(given.begin(), given.end(), each.arguments.begin(), each.arguments.end()) &&
        (exactly == nullptr || exactly->row->variadic != 0))
      exactly = &each;
  }
  if (exactly != nullptr) return made(*exactly, given);
  if (const auto type = tables().names.find(name);
      given.size() == 1 && type != tables().names.end() && type_row(type->second)->kind == 'b') {
    const Path path = cast_path(given[0], type->second, Context::explicitly);
    if ((given[0] == oid::unknown && constant) || path.how == Path::How::relabel || path.how == Path::How::text)
      return {Function::State::cast, nullptr, {}, type->second};
  }
  if (begin == end) return {Function::State::no_such_name, nullptr, {}, 0};
  std::vector<Candidate<FunctionRow>> candidates;
  for (auto& each : all) {
    if (!can_coerce_all(given, each.arguments, Context::implicit)) continue;
    // Of two with the same arguments, the one that is not VARIADIC.
    const auto twin =
        std::find_if(candidates.begin(), candidates.end(), [&](const auto& other) { return other.arguments == each.arguments; });
    if (twin == candidates.end()) candidates.push_back(each);
    else if (twin->row->variadic != 0) *twin = each;
  }
  if (candidates.empty()) return {};
  if (candidates.size() == 1) return made(candidates.front(), given);
  const auto chosen = select(given, std::move(candidates));
  if (!chosen) return {Function::State::ambiguous, nullptr, {}, 0};
  return made(*chosen, given);
}

Common common_type(std::span<const Oid> types) {
  Oid chosen = types.empty() ? Oid{oid::unknown} : types.front();
  if (chosen != oid::unknown && std::all_of(types.begin(), types.end(), [&](Oid each) { return each == chosen; })) return {chosen, 0, 0};
  for (const Oid each : types) {
    if (each == oid::unknown || each == chosen) continue;
    if (chosen == oid::unknown) {
      chosen = each;
    } else if (category(each) != category(chosen)) {
      return {std::nullopt, chosen, each};
    } else if (!preferred(category(chosen), chosen) && can_coerce(chosen, each) && !can_coerce(each, chosen)) {
      chosen = each;
    }
  }
  return {chosen == oid::unknown ? Oid{oid::text} : chosen, 0, 0};
}

}  // namespace termgate::dialect::resolution
