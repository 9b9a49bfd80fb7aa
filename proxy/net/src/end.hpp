// One of a connection's two sockets, the client's or the server's: which events it waits for, and
// whether it can still be read and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "stream.hpp"
#include "worker.hpp"

namespace termgate::net {

class Connection;

// Owned by a Connection (the client's end) or by its Relay (the server's); runs on the worker's
// thread. An end that is gone is neither read nor written, although its socket may still be open.
// `write_reads_` is set only while `blocked_` is.
class End final : public Pollable {
 public:
  End(Connection& owner, bool is_client) : client(is_client), owner_(owner) {}
  void ready(std::uint32_t events) override;  // handed to the connection

  const bool client;

  const Stream& stream() const noexcept { return stream_; }
  bool gone() const noexcept { return gone_; }
  bool connected() const noexcept { return connected_; }
  bool alive() const noexcept { return connected_ && !gone_; }
  bool handshaking() const noexcept { return handshaking_; }
  // Something has come from it since it was connected, or, under TLS, since the handshake.
  bool spoke() const noexcept { return spoke_; }
  bool readable() const noexcept { return alive() && !handshaking_; }
  bool writable() const noexcept { return connected_ && !handshaking_ && !blocked_; }
  // A write has failed, but the peer's reason may still arrive. Nothing more is written.
  bool unheard() const noexcept { return unheard_; }
  void set_unheard(bool unheard) noexcept { unheard_ = unheard; }
  // The peer hung up while its bytes are not wanted. The socket is not watched until they are.
  void set_deaf() noexcept { deaf_ = true; }

  void open(int descriptor) noexcept { stream_.open(descriptor); }
  void set_connected() noexcept { connected_ = true; }
  void set_gone() noexcept;
  void close() noexcept;
  // Closes it and forgets its state. It is gone until revive(); then it may be opened again.
  void reset(Worker& worker) noexcept;
  void revive() noexcept { gone_ = false; }
  // Ends our side of the stream; the other direction stays open.
  void finish() noexcept;

  // Takes ownership; the handshake is next. False: out of memory.
  bool start_tls(SSL* ssl, bool wrapped) noexcept;
  Stream::Io handshake() noexcept;
  Stream::Io read(char* into, std::size_t size, std::size_t& bytes) noexcept;
  Stream::Io write(std::string_view from, std::size_t& bytes) noexcept;

  // Notes from epoll's events whether writing may continue. True: a read is worth trying.
  bool wake(std::uint32_t events) noexcept;
  // The events to wait for; `wants_bytes`: among them that the peer's bytes arrive.
  std::uint32_t interest(bool wants_bytes) noexcept;
  void watch(Worker& worker, std::uint32_t wanted);

 private:
  Connection& owner_;
  bool connected_ = false;
  bool handshaking_ = false;
  bool blocked_ = false;      // the last write did not take everything
  bool write_reads_ = false;  // TLS must read before that write can continue
  bool read_writes_ = false;  // TLS must write before the last read can continue
  bool gone_ = false;
  bool deaf_ = false;
  bool unheard_ = false;
  bool spoke_ = false;
  std::uint32_t handshake_wants_ = 0;
  std::uint32_t watched_ = 0;
  Stream stream_;
};

}  // namespace termgate::net
