// Scope and term in comments, in application_name and in start-up options. The first byte says
// which. What comes out is a scope and a term that are valid, or the reason why not; and what is
// written down again in the same form is read the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <termgate/statements/classify.hpp>
#include <termgate/statements/declaration.hpp>

using namespace termgate;
using namespace termgate::statements;

namespace {

std::string url_encoded(std::string_view text) {
  std::string out;
  for (const char character : text) {
    constexpr char digits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(character);
    ((out += '%') += digits[byte >> 4]) += digits[byte & 15];
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char character : text) (out += '\\') += character;
  return out;
}

void check(const Declaration& declaration) {
  if (declaration.problem.empty()) return;
  if (declaration.scope || declaration.term ||
      !declaration.problem.starts_with("TG005 malformed declaration in "))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Declaration declaration;
  switch (data[0] % 4) {
    case 0: declaration = declared_in_comments(text); break;
    case 1: declaration = declared_in_application_name(text); break;
    case 2: declaration = declared_in_options(text); break;
    default: declare(declaration, "termgate.scope", text, "a test"); break;
  }
  check(declaration);
  if (data[0] % 4 == 0 && !(classify(text).declared == declaration)) std::abort();
  if (!declaration.problem.empty()) return 0;
  const std::string scope = declaration.scope ? declaration.scope->name() : "";
  const std::string term = declaration.term ? std::to_string(declaration.term->value()) : "";
  if (!(declared_in_comments("/*termgate.scope='" + url_encoded(scope) + "',termgate.term='" +
                             term + "'*/ SELECT 1") == declaration))
    std::abort();
  if (!(declared_in_comments("SELECT '*/' -- x\n/*termgate.term='" + term +
                             "',x='y',termgate.scope='" + url_encoded(scope) + "'*/;") ==
        declaration))
    std::abort();
  if (!(declared_in_application_name("app termgate.scope=" + url_encoded(scope) +
                                     ";termgate.term=" + term + ";") == declaration))
    std::abort();
  if (!(declared_in_options("-c termgate.scope=" + escaped(scope) + " --termgate.term=" + term) ==
        declaration))
    std::abort();
  return 0;
}
