// drill: its results as JSON and as JUnit's XML.
#include <fstream>

#include <fmt/format.h>

#include "drill/drill.hpp"
#include "output.hpp"

namespace termgate::cli::drill {
namespace {

// Escapes text for XML 1.0. Control characters, and bytes that are not UTF-8, are shown as \xNN;
// U+FFFE and U+FFFF become "?".
std::string xml(std::string_view text) {
  std::string all;
  const std::string whole = is_utf8(text) ? std::string(text) : printable(text);
  for (const char letter : whole) {
    if (letter == '&') all += "&amp;";
    else if (letter == '<') all += "&lt;";
    else if (letter == '>') all += "&gt;";
    else if (letter == '"') all += "&quot;";
    else if (letter == '\n') all += "&#10;";
    else if (letter == '\t') all += "&#9;";
    else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
      all += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    else all += letter;
  }
  // U+FFFE and U+FFFF are valid UTF-8 but not valid in XML.
  for (const std::string_view bad : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (auto at = all.find(bad); at != std::string::npos; at = all.find(bad))
      all.replace(at, 3, "?");
  }
  return all;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::stale_write_committed: return "stale_write_committed";
    case Verdict::did_not_try: return "did_not_try";
    case Verdict::no_takeover: return "no_takeover";
    case Verdict::nobody_led: return "nobody_led";
    case Verdict::ended_by_itself: return "ended_by_itself";
    case Verdict::not_judged: return "not_judged";
    case Verdict::interrupted: return "interrupted";
  }
  return "";
}

const char* title_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "the resumed leader tried to write and was refused";
    case Verdict::stale_write_committed: return "a stale write was committed";
    case Verdict::did_not_try: return "the resumed leader did not try to write";
    case Verdict::no_takeover: return "there was no takeover in time";
    case Verdict::nobody_led: return "nobody led in time";
    case Verdict::ended_by_itself: return "the command ended by itself";
    case Verdict::not_judged: return "the drill could not be carried out";
    case Verdict::interrupted: return "interrupted";
  }
  return "";
}

boost::json::object json_of(const Result& result) {
  const auto texts = [](const std::vector<std::string>& lines) {
    boost::json::array all;
    for (const std::string& line : lines) all.emplace_back(is_utf8(line) ? line : printable(line));
    return all;
  };
  boost::json::array steps;
  for (const Step& step : result.steps)
    steps.push_back({{"seconds", step.seconds}, {"what", step.what}});
  const auto number = [](std::int64_t term) {
    return term == 0 ? boost::json::value() : boost::json::value(term);
  };
  const auto text = [](const std::string& some) {
    return some.empty() ? boost::json::value()
                        : boost::json::value(is_utf8(some) ? some : printable(some));
  };
  return {{"run", result.run},
          {"verdict", name_of(result.verdict)},
          {"detail", text(result.detail)},
          {"term", number(result.term)},
          {"next_term", number(result.next_term)},
          {"witness", text(result.witness)},
          {"refusal", text(result.refusal)},
          {"evidence", texts(result.evidence)},
          {"notes", texts(result.notes)},
          {"steps", std::move(steps)},
          {"output", texts(result.output)},
          {"seconds", result.seconds}};
}

void write_junit(const std::string& path, const std::string& scope,
                 const std::vector<Result>& results) {
  std::size_t failures = 0;
  double seconds = 0;
  std::string cases;
  for (const Result& result : results) {
    seconds += result.seconds;
    cases +=
        fmt::format("  <testcase classname=\"termgate.drill\" name=\"{}\" time=\"{:.3f}\">\n",
                    xml(fmt::format("a stale leader of {} is refused, run {}", scope, result.run)),
                    result.seconds);
    if (result.verdict != Verdict::passed) {
      ++failures;
      std::string text = result.detail;
      for (const std::string& line : result.evidence) text += "\n" + line;
      for (const std::string& line : result.notes) text += "\n" + line;
      cases += fmt::format("    <failure type=\"{}\" message=\"{}\">{}</failure>\n",
                           name_of(result.verdict), xml(title_of(result.verdict)), xml(text));
    }
    std::string out;
    for (const Step& step : result.steps)
      out += fmt::format("{:6.1f} s  {}\n", step.seconds, step.what);
    for (const std::string& line : result.notes) out += line + "\n";
    for (const std::string& line : result.output) out += line + "\n";
    cases += fmt::format("    <system-out>{}</system-out>\n  </testcase>\n", xml(out));
  }
  std::ofstream file(path);
  file << fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"termgate drill\" tests=\"{}\" "
      "failures=\"{}\" errors=\"0\" "
      "skipped=\"0\" time=\"{:.3f}\">\n{}</testsuite>\n",
      results.size(), failures, seconds, cases);
  file.close();
  if (!file) throw Error(fmt::format("--junit {}: cannot be written", path));
}

}  // namespace termgate::cli::drill
