// [MC-SQLR] 2.2. Requests:
//
//   0x02, 0x03          which instances are there?
//   0x04 name NUL       where is this instance?
//   0x0F 0x01 name NUL  which port has its administrator connection?
//
// Answer, with the text once for each instance:
//
//   0x05 length:2  ServerName;S;InstanceName;I;IsClustered;No;Version;V;tcp;PORT;;
#include <termgate/tds/browser.hpp>

#include <algorithm>

#include <termgate/tds/text.hpp>
#include <termgate/text/ascii.hpp>

#include "bytes.hpp"

namespace termgate::tds {
namespace {

constexpr unsigned char asked_of_all = 0x02, asked_of_this_machine = 0x03,
                        asked_for_instance = 0x04, answered = 0x05;
constexpr std::size_t instance_name_bytes_max = 32;
constexpr std::size_t server_name_bytes_max = 255;
constexpr std::size_t head_bytes = 3;
constexpr std::string_view version = "16.0.1000.6";  // of SQL Server 2022, as in PRELOGIN

}  // namespace

bool is_instance_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= instance_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return text::is_letter(c) || text::is_digit(c) || c == '_' || c == '$' || c == '#';
         });
}

std::string browser_answer(std::string_view request, std::string_view server_name,
                           std::span<const BrowsedInstance> instances) {
  if (request.empty() || request.size() > browser_request_bytes_max) return {};
  const auto kind = static_cast<unsigned char>(request[0]);
  std::string_view wanted;
  if (kind == asked_for_instance) {
    wanted = request.substr(1);
    wanted = wanted.substr(0, wanted.find('\0'));
    if (wanted.empty()) return {};
  } else if (kind != asked_of_all && kind != asked_of_this_machine) {
    return {};
  }
  std::string told;
  for (const BrowsedInstance& one : instances) {
    if (!wanted.empty() && !text::same(wanted, one.name)) continue;
    std::string entry = "ServerName;";
    entry.append(server_name.substr(0, server_name_bytes_max))
        .append(";InstanceName;")
        .append(one.name);
    entry.append(";IsClustered;No;Version;")
        .append(version)
        .append(";tcp;")
        .append(std::to_string(one.port))
        .append(";;");
    if (head_bytes + told.size() + entry.size() > browser_answer_bytes_max) break;
    told += entry;
  }
  if (told.empty()) return {};
  std::string answer(1, static_cast<char>(answered));
  append_little(answer, told.size(), 2);
  return answer + told;
}

}  // namespace termgate::tds
