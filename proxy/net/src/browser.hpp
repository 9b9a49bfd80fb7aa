// Answers SQL Server's Browser protocol on a UDP port: which instances there are, and which TCP
// port each has. Has its own thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <termgate/http/endpoint.hpp>
#include <termgate/tds/browser.hpp>

namespace termgate::net {

class Browser {
 public:
  // Throws std::runtime_error if the address cannot be bound.
  Browser(const http::HostPort& address, std::vector<tds::BrowsedInstance> instances);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  std::string address() const;  // as text, with the actual port

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace termgate::net
