"""A TDS server that plays its part of a conversation, for tests of the proxy where no SQL Server can be had: it lets
everybody in, keeps one fence and each session's gate as layer 1 does, answers every other request with a DONE, and
writes down what it was asked. What it says was copied from a real server's answers
(tests/unit/wire/tds/recorded.txt)."""
import socket
import struct
import threading

from tdsraw import ATTENTION, BATCH, LOGIN7, PRELOGIN, RPC, TRANSACTION, packets, wide

REPLY = 4


def done(status=0, token=0xFD):
    return bytes([token]) + struct.pack("<HHQ", status, 0, 0)


def environment(kind, now=b"", before=b""):
    body = bytes([kind, len(now)]) + now + bytes([len(before)]) + before
    return b"\xe3" + struct.pack("<H", len(body)) + body


def value(name, number):
    return b"\xac\0\0" + bytes([len(name)]) + wide(name) + b"\1\0\0\0\0\0\0\x26\x08\x08" + struct.pack("<q", number)


class Server:
    def __init__(self, fence=5):
        self.fence, self.asked, self.unfenced = fence, [], 0
        self.lock = threading.Lock()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=Session(self, connection).run, daemon=True).start()

    def close(self):
        self.listener.close()


class Session:
    def __init__(self, server, connection):
        self.server, self.socket, self.received = server, connection, b""
        self.gate, self.transactions = None, 0

    def take(self, count):
        while len(self.received) < count:
            some = self.socket.recv(65536)
            if not some:
                raise EOFError
            self.received += some
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def message(self):
        payload, first = b"", None
        while True:
            head = self.take(8)
            kind, status, length = struct.unpack(">BBH", head[:4])
            first = status if first is None else first
            payload += self.take(length - 8)
            if status & 1:
                return kind, first, payload

    def run(self):
        try:
            while True:
                kind, status, payload = self.message()
                answer = self.answer(kind, status, payload)
                self.socket.sendall(packets(REPLY, answer))
        except (EOFError, OSError):
            self.socket.close()

    def answer(self, kind, status, payload):
        said = b""
        if status & 0x18:
            self.gate, said = None, environment(18)
        if kind == PRELOGIN:
            return b"\0\0\x10\0\6\1\0\x16\0\1\4\0\x17\0\1\xff" + b"\x10\0\0\0\0\0\2\0"
        if kind == LOGIN7:
            ack = b"\1\x74\0\0\4\1M\0\x10\0\0\0"
            return (
                environment(1, wide("app"), wide("master"))
                .replace(b"\x01\x06", b"\x01\x03")
                .replace(wide("app") + b"\x0c", wide("app") + b"\x06")
                + b"\xad"
                + struct.pack("<H", len(ack))
                + ack
                + done()
            )
        if kind == ATTENTION:
            return done(0x20)
        body = payload[struct.unpack("<I", payload[:4])[0] :]
        if kind == RPC and b"g\0a\0t\0e\0_\0" in body[:200]:
            return said + self.gate_call(body)
        with self.server.lock:
            text = body.decode("utf-16-le", "replace") if kind == BATCH else f"type {kind}"
            self.server.asked.append(text)
            if "INSERT" in text and self.gate != self.server.fence:
                self.server.unfenced += 1
        if kind == TRANSACTION and body[:1] == b"\5":
            return said + environment(8, struct.pack("<Q", 9)) + done()
        return said + done(0x10, 0xFE if kind == RPC else 0xFD)

    def gate_call(self, body):
        units = struct.unpack("<H", body[:2])[0]
        name, at, given = body[2 : 2 + 2 * units].decode("utf-16-le"), 2 + 2 * units + 2, {}
        while at < len(body):
            length = body[at]
            key = body[at + 1 : at + 1 + 2 * length].decode("utf-16-le")
            at += 1 + 2 * length + 1
            kind = body[at]
            if kind == 0x26:
                size = body[at + 2]
                given[key] = struct.unpack("<q", body[at + 3 : at + 11])[0] if size else None
                at += 3 + size
            else:
                at += 8 if kind == 0xE7 else 3
                size = struct.unpack("<H", body[at : at + 2])[0]
                size = 0 if size == 0xFFFF else size
                given[key] = body[at + 2 : at + 2 + size]
                at += 2 + size
        with self.server.lock:
            self.server.asked.append(name.rsplit("[", 1)[-1].rstrip("]"))
            said = b"\x79\0\0\0\0"
            if name.endswith("[gate_enter]"):
                code = 0 if given["@term"] == self.server.fence else 50001 if given["@term"] is not None else 50002
                self.gate = self.server.fence if code == 0 else self.gate
                said += value("@code", code) + value("@fence", self.server.fence)
            if name.endswith("[gate_leave]"):
                self.gate = None
                said += value("@code", 0)
            return said + value("@trancount", 0) + value("@proof", -given["@proof"] - 1) + done(0, 0xFE)
