"""A client of TDS 7.4 that sends what it is told to, right or wrong, byte by byte where a test wants that. It reads
answers as far as a test asks: errors by their number and text, and whether the connection is still there."""
import socket
import struct

BATCH, RPC, REPLY, ATTENTION, BULK, TRANSACTION, LOGIN7, PRELOGIN = 1, 3, 4, 6, 7, 14, 16, 18
END, IGNORE, RESET, RESET_KEEP = 1, 2, 8, 16


def wide(text):
    return text.encode("utf-16-le")


def packets(kind, payload, status=0, size=4096, end=END):
    """A message; `status` stands in its first packet, `end` in its last."""
    out, room = bytearray(), size - 8
    for at in range(0, max(len(payload), 1), room):
        part = payload[at : at + room]
        bits = status | (0 if at + room < len(payload) else end)
        out += struct.pack(">BBHHBB", kind, bits, len(part) + 8, 0, 1, 0) + part
        status = 0
    return bytes(out)


def headers(descriptor=0):
    return struct.pack("<IIHQI", 22, 18, 2, descriptor, 1)


def nvarchar(name, text):
    data = wide(text)
    head = bytes([len(name)]) + wide(name) + b"\0"
    if len(data) <= 8000:
        return head + b"\xe7\x40\x1f\x09\x04\xd0\x00\x34" + struct.pack("<H", len(data)) + data
    return head + b"\xe7\xff\xff\x09\x04\xd0\x00\x34" + struct.pack("<QI", len(data), len(data)) + data + b"\0\0\0\0"


def integer(name, value, output=False):
    return (
        bytes([len(name)])
        + wide(name)
        + (b"\1" if output else b"\0")
        + b"\x26\4"
        + (b"\0" if value is None else b"\4" + struct.pack("<i", value))
    )


def call(procedure, *parameters):
    """One RPC: a number or a name."""
    name = b"\xff\xff" + struct.pack("<H", procedure) if isinstance(procedure, int) else struct.pack("<H", len(procedure)) + wide(procedure)
    return name + b"\0\0" + b"".join(parameters)


class Closed(Exception):
    pass


class Messages:
    """Whole messages out of a socket that the other side ends with EOFError."""

    def __init__(self, connection):
        self.socket, self.received = connection, b""

    def take(self, count):
        while len(self.received) < count:
            some = self.socket.recv(65536)
            if not some:
                raise EOFError
            self.received += some
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def next(self):
        """Its type, the status bits of its first packet, its payload, and its bytes as they came."""
        raw, payload, first = b"", b"", None
        while True:
            head = self.take(8)
            kind, status, length = struct.unpack(">BBH", head[:4])
            first = status if first is None else first
            rest = self.take(length - 8)
            raw, payload = raw + head + rest, payload + rest
            if status & END:
                return kind, first, payload, raw


class Tds:
    version = 0x74000004  # of TDS, in LOGIN7

    def __init__(self, port, user, password, database, application="test", host="127.0.0.1", timeout=90, source=None, version=None):
        self.version = version or self.version
        self.database = database
        self.socket = socket.create_connection((host, port), timeout, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.descriptor = 0
        self.received = b""
        self.send(packets(PRELOGIN, self.prelogin()))
        self.message()
        self.send(packets(LOGIN7, self.login7(user, password, database, application, self.version)))
        answer = self.answer()
        if answer.errors:
            raise Closed(answer.errors[0])

    @staticmethod
    def prelogin(encryption=2):
        return b"\0\0\x10\0\6\1\0\x16\0\1\4\0\x17\0\1\xff" + b"\x10\0\0\0\0\0" + bytes([encryption]) + b"\0"

    @staticmethod
    def login7(user, password, database, application, version=0x74000004):
        scrambled = bytes(((one << 4 | one >> 4) & 255) ^ 0xA5 for one in wide(password))
        fixed = struct.pack("<IIIIIBBBBiI", version, 4096, 7, 0, 0, 0, 0, 0, 0, 0, 0)
        data = b""
        for value in (wide("test"), wide(user), scrambled, wide(application), wide("server"), b"", wide("tdsraw"), b"", wide(database)):
            fixed += struct.pack("<HH", 94 + len(data), len(value) // 2)
            data += value
        fixed += bytes(6) + struct.pack("<HHHHHHI", 94, 0, 94, 0, 94, 0, 0)
        return struct.pack("<I", 4 + len(fixed) + len(data)) + fixed + data

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed(str(error)) from error

    def message(self):
        """The payload of one message."""
        payload = b""
        while True:
            while len(self.received) < 8 or len(self.received) < struct.unpack(">H", self.received[2:4])[0]:
                try:
                    some = self.socket.recv(65536)
                except OSError as error:
                    raise Closed(str(error)) from error
                if not some:
                    raise Closed("end of stream")
                self.received += some
            length = struct.unpack(">H", self.received[2:4])[0]
            packet, self.received = self.received[:length], self.received[length:]
            payload += packet[8:]
            if packet[1] & END:
                return payload

    def headers(self):
        return b"" if self.version >> 24 == 0x71 else headers(self.descriptor)

    def answer(self):
        answer = Answer(self.message())
        for begun, ended in answer.transactions:
            self.descriptor = begun or 0
            del ended
        return answer

    def batch(self, text, status=0, size=4096):
        self.send(packets(BATCH, self.headers() + wide(text), status, size))
        return self.answer()

    def rpc(self, body, status=0):
        self.send(packets(RPC, self.headers() + body, status))
        return self.answer()

    def manage(self, body, status=0):
        self.send(packets(TRANSACTION, self.headers() + body, status))
        return self.answer()

    def begin(self):
        return self.manage(b"\5\0\0\0")

    def commit(self):
        return self.manage(b"\7\0\0\0")

    def close(self):
        self.socket.close()


class Answer:
    """What stands in a message, found by its marks: enough for answers without long values."""

    def __init__(self, payload):
        self.payload = payload
        self.errors, self.transactions = [], []
        at = 0
        while True:
            at = payload.find(b"\xaa", at)
            if at < 0 or len(payload) < at + 11:
                break
            length, number, _, severity, units = struct.unpack("<HIBBH", payload[at + 1 : at + 11])
            if 0 < severity < 26 and 14 + 2 * units <= length <= len(payload) - at - 3 and number < 2**31:
                self.errors.append((number, payload[at + 11 : at + 11 + 2 * units].decode("utf-16-le", "replace")))
                at += 3 + length
            else:
                at += 1
        at = 0
        for kind in (8, 9, 10):
            mark = b"\xe3\x0b\0" + bytes([kind])
            at = payload.rfind(mark)
            if at >= 0:
                begun = struct.unpack("<Q", payload[at + 5 : at + 13])[0] if kind == 8 else 0
                self.transactions.append((at, begun))
        self.transactions = [(begun, 0) for _, begun in sorted(self.transactions)]

    @property
    def number(self):
        return self.errors[0][0] if self.errors else 0

    def integers(self):
        """Returned values of type int, in their order."""
        found, at = [], 0
        while True:
            at = self.payload.find(b"\x26\4\4", at)
            if at < 0:
                return found
            found.append(struct.unpack("<i", self.payload[at + 3 : at + 7])[0])
            at += 7
