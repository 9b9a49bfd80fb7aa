// Answers SQL Server's Browser protocol on a UDP port: which TCP port has the instance that a client names. A thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/tds/browser.hpp>

namespace termgate::net {

class Browser {
 public:
  // Throws std::runtime_error where the address cannot be had.
  Browser(const http::HostPort& address, std::vector<tds::BrowsedInstance> instances);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  std::string address() const;  // as text, with the port that was found

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::net
