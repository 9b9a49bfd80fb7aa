"""A TDS server that plays its part of a conversation, for tests of the proxy where no SQL Server can be had: it lets
everybody in, keeps one fence and each session's gate as layer 1 does, answers every other request with a DONE, and
writes down what it was asked. What it says was copied from a real server's answers
(tests/fuzz/corpus/tds_server)."""
import socket
import ssl
import struct
import threading

from tdsraw import ATTENTION, BATCH, BULK, LOGIN7, PRELOGIN, RPC, TRANSACTION, Messages, packets, wide

REPLY = 4


def done(status=0, token=0xFD, old=False):
    """`old`: of TDS 7.1."""
    return bytes([token]) + struct.pack("<HHI" if old else "<HHQ", status, 0, 0)


def environment(kind, now=b"", before=b""):
    body = bytes([kind, len(now)]) + now + bytes([len(before)]) + before
    return b"\xe3" + struct.pack("<H", len(body)) + body


def value(name, number, old=False):
    flags = b"\1\0\0\0\0" if old else b"\1\0\0\0\0\0\0"
    return b"\xac\0\0" + bytes([len(name)]) + wide(name) + flags + b"\x26\x08\x08" + struct.pack("<q", number)


def names(all_of):
    """One column of texts as an answer to sp_prepexec or sp_execute, whose handle is 1."""
    said = b"\x81\1\0" + b"\0\0\0\0\x09\0\xe7\x20\3\x09\x04\xd0\x00\x34" + bytes([5]) + wide("scope")
    for name in all_of:
        said += b"\xd1" + struct.pack("<H", 2 * len(name)) + wide(name)
    said += bytes([0xFF]) + struct.pack("<HHQ", 0x11, 0xC1, len(all_of)) + b"\x79\0\0\0\0"
    return said + b"\xac\0\0\0\1\0\0\0\0\0\0\x26\x04\x04\1\0\0\0" + done(0, 0xFE)


class Server:
    """`wanted`: the scopes that a raise waits for. `gates`: how many sessions are in the gate. `slow`: a batch with this word in it is
    answered that many seconds later; `long_answers`: with these tokens in front of its DONE. `rows`: the payloads of bulk loads."""

    def __init__(self, fence=5, grace_ms=1000, certificate=None):
        """`certificate`: (PEM, key); then it speaks TDS 8.0 as well, to whoever begins with TLS."""
        self.tls, self.versions = None, []  # `versions`: of TDS, that logins have asked for
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*certificate)
            self.tls.set_alpn_protocols(["tds/8.0"])
        self.fence, self.asked, self.unfenced, self.grace_ms = fence, [], 0, grace_ms
        self.wanted, self.gates, self.slow = set(), 0, {}
        self.long_answers, self.rows = {}, []
        self.go_on = threading.Event()  # nothing is slow any more
        self.gates_unanswered = False  # the connection ends instead
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
            threading.Thread(target=self.converse, args=(connection,), daemon=True).start()

    def converse(self, connection):
        Session(self, connection).run()

    def close(self):
        self.listener.close()


class Session:
    def __init__(self, server, connection):
        self.server, self.socket, self.version = server, connection, 0x74000004
        self.messages = Messages(connection)
        self.gate, self.inside, self.waits_for_gates = None, False, False

    def enters(self, fence):
        with self.server.lock:
            self.server.gates += (fence is not None) - (self.gate is not None)
            self.gate = fence

    @property
    def old(self):
        return self.version >> 24 == 0x71

    def begin_tls(self):
        """Whether it does, with its first byte."""
        if self.server.tls is None or self.socket.recv(1, socket.MSG_PEEK) != b"\x16":
            return False
        self.socket = self.server.tls.wrap_socket(self.socket, server_side=True)
        self.messages = Messages(self.socket)
        return True

    def run(self):
        try:
            strict = self.begin_tls()
            while True:
                kind, status, payload, _ = self.messages.next()
                if kind == LOGIN7 and strict != (payload[4:8] == b"\0\0\0\x08"):
                    raise EOFError
                answer = self.answer(kind, status, payload)
                self.socket.sendall(packets(REPLY, answer))
        except (EOFError, OSError):
            self.socket.close()
        with self.server.lock:
            if self.gate is not None:
                self.server.gates -= 1

    def answer(self, kind, status, payload):
        said = b""
        asks_for_gates = kind == RPC and wide("gates_wanted") in payload
        prepared = kind == RPC and self.waits_for_gates and payload[22:26] == b"\xff\xff\x0c\0"
        if asks_for_gates or prepared:
            self.waits_for_gates = True
            if self.server.gates_unanswered:
                raise EOFError
            with self.server.lock:
                return names(sorted(self.server.wanted))
        if status & 0x18:
            self.enters(None)
            said = environment(18)
        if kind == PRELOGIN:
            return b"\0\0\x10\0\6\1\0\x16\0\1\4\0\x17\0\1\xff" + b"\x10\0\0\0\0\0\2\0"
        if kind == LOGIN7:
            self.version = struct.unpack("<I", payload[4:8])[0]
            with self.server.lock:
                self.server.versions.append(self.version)
            ack = b"\1" + struct.pack(">I", self.version) + bytes([20]) + wide("Microsoft SQL Server") + b"\x10\0\0\0"
            return (
                environment(1, wide("app"), wide("master"))
                .replace(b"\x01\x06", b"\x01\x03")
                .replace(wide("app") + b"\x0c", wide("app") + b"\x06")
                + b"\xad"
                + struct.pack("<H", len(ack))
                + ack
                + done(old=self.old)
            )
        if kind == ATTENTION:
            return done(0x20, old=self.old)
        body = payload if self.old else payload[struct.unpack("<I", payload[:4])[0] :]
        if kind == RPC and b"g\0a\0t\0e\0_\0" in body[:200]:
            return said + self.gate_call(body)
        with self.server.lock:
            text = body.decode("utf-16-le", "replace") if kind == BATCH else f"type {kind}"
            self.server.asked.append(text)
            if kind == BULK:
                self.server.rows.append(payload)
            if ("INSERT" in text.upper() or kind == BULK) and self.gate != self.server.fence:
                self.server.unfenced += 1
        for word, seconds in self.server.slow.items():
            if word in text:
                self.server.go_on.wait(seconds)
        for word, tokens in self.server.long_answers.items():
            if word in text:
                said += tokens
        if kind == TRANSACTION:
            self.inside = body[:1] == b"\5"
        if kind == TRANSACTION and body[:1] == b"\5":
            return said + environment(8, struct.pack("<Q", 9)) + done(old=self.old)
        return said + done(0x10, 0xFE if kind == RPC else 0xFD, self.old)

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
        entered = self.gate
        with self.server.lock:
            self.server.asked.append(name.rsplit("[", 1)[-1].rstrip("]"))
            said = b"\x79\0\0\0\0"
            if name.endswith("[gate_enter]"):
                code = 0 if given["@term"] == self.server.fence else 50001 if given["@term"] is not None else 50002
                entered = self.server.fence if code == 0 else self.gate
                said += value("@code", code, self.old) + value("@fence", self.server.fence, self.old)
            if name.endswith("[gate_leave]"):
                entered = self.gate if self.inside else None
                said += value("@code", 1 if self.inside else 0, self.old)
            if name.endswith("[gate_hello]"):
                said += value("@grace_ms", self.server.grace_ms, self.old)
        self.enters(entered)
        said += value("@trancount", 1 if self.inside else 0, self.old) + value("@proof", -given["@proof"] - 1, self.old)
        return said + done(0, 0xFE, self.old)
