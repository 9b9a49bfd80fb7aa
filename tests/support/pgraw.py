"""A PostgreSQL client that sends exactly the bytes it is told to send: for tests of the proxy, where a driver would be too well-behaved.

Protocol 3.0 (PostgreSQL documentation, "Frontend/Backend Protocol"), trust login, no TLS, standard library only. Messages are
made by the functions below and sent with `send`; `until` reads what comes back. Nothing here waits for an answer by itself,
except the login and `query`.

    with Connection(port) as c:
        c.send(parse("", "SELECT $1::int"), bind("", "", ["7"]), execute(""), sync())
        for message in c.until("Z"): print(message)
"""
import select
import socket
import struct
import time


# --- what a client says ---


def frame(kind, body=b""):
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def text(value):
    return (value if isinstance(value, bytes) else value.encode()) + b"\0"


def query(sql):
    return frame("Q", text(sql))


def parse(name, sql, types=()):
    return frame("P", text(name) + text(sql) + struct.pack("!H", len(types)) + b"".join(struct.pack("!I", oid) for oid in types))


def bind(portal="", statement="", values=(), formats=(), results=()):
    """Values: None, bytes or str. Formats: 0 text, 1 binary; none, one for all, or one each."""
    body = text(portal) + text(statement) + struct.pack(f"!H{len(formats)}H", len(formats), *formats) + struct.pack("!H", len(values))
    for value in values:
        value = value.encode() if isinstance(value, str) else value
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return frame("B", body + struct.pack(f"!H{len(results)}H", len(results), *results))


def describe(kind, name=""):
    """kind: "S" statement, "P" portal."""
    return frame("D", kind.encode() + text(name))


def execute(portal="", rows=0):
    return frame("E", text(portal) + struct.pack("!I", rows))


def close(kind, name=""):
    return frame("C", kind.encode() + text(name))


def flush():
    return frame("H")


def sync():
    return frame("S")


def terminate():
    return frame("X")


def copy_data(data):
    return frame("d", data if isinstance(data, bytes) else data.encode())


def copy_done():
    return frame("c")


def copy_fail(reason):
    return frame("f", text(reason))


def function_call(oid, arguments, formats=(1,), result=1):
    body = struct.pack(f"!IH{len(formats)}HH", oid, len(formats), *formats, len(arguments))
    for argument in arguments:
        body += struct.pack("!i", -1) if argument is None else struct.pack("!i", len(argument)) + argument
    return frame("F", body + struct.pack("!H", result))


def extended(sql, values=(), statement="", portal="", rows=0):
    """Parse, Bind, Describe, Execute of one statement, without the Sync."""
    return parse(statement, sql) + bind(portal, statement, values) + describe("P", portal) + execute(portal, rows)


def startup(parameters, version=0x30000):
    """Parameters: pairs, in order, duplicates kept."""
    body = struct.pack("!I", version) + b"".join(text(name) + text(value) for name, value in parameters) + b"\0"
    return struct.pack("!I", len(body) + 4) + body


def cancel_request(pid, key):
    return struct.pack("!III", 12 + len(key), 80877102, pid) + key


# --- what a server says ---


def fields(body):
    """An ErrorResponse or NoticeResponse: field code to text."""
    return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}


class Message:
    """type: the letter; body: the bytes behind the length."""

    __slots__ = ("type", "body")

    def __init__(self, kind, body):
        self.type, self.body = kind, body

    def fields(self):
        return fields(self.body)

    def row(self):
        """Of D: the values."""
        count, at, values = struct.unpack_from("!H", self.body)[0], 2, []
        for _ in range(count):
            length = struct.unpack_from("!i", self.body, at)[0]
            at += 4
            values.append(None if length < 0 else self.body[at : at + length])
            at += max(length, 0)
        return values

    def __repr__(self):
        if self.type in "EN":
            fields = self.fields()
            return f"{self.type}[{fields.get('C')} {fields.get('M')}]"
        if self.type == "D":
            return f"D{self.row()}"
        if self.type in "CZSAG":
            return f"{self.type}[{self.body.decode('utf-8', 'replace').strip(chr(0))}]"
        return self.type


class Closed(Exception):
    """The other side ended the connection; `messages` holds what came before."""

    def __init__(self, messages):
        super().__init__(f"connection closed after {messages}")
        self.messages = messages


class Silent(Exception):
    """Nothing came within the time; `messages` holds what came before."""

    def __init__(self, messages, waited):
        super().__init__(f"nothing within {waited:.1f} s after {messages}")
        self.messages = messages


class Connection:
    """One session on 127.0.0.1. `parameters` are added to user and database as they stand, so a later one of the same name counts."""

    def __init__(self, port, user="postgres", database="postgres", parameters=(), wait=10.0):
        self.wait, self.unread, self.parameters, self.pid, self.key = wait, b"", {}, 0, b""
        self.notices = []
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=wait)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.send(startup([("user", user), ("database", database), *parameters]))
            self.greeting = self.until("Z")
            for message in self.greeting:
                if message.type == "S":
                    name, value = message.body.split(b"\0")[:2]
                    self.parameters[name.decode()] = value.decode()
                elif message.type == "K":
                    self.pid, self.key = struct.unpack_from("!I", message.body)[0], message.body[4:]
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def send(self, *messages):
        self.socket.sendall(b"".join(messages))

    def read(self, wait=None):
        """The next message. Raises Silent or Closed."""
        wait = self.wait if wait is None else wait
        until = time.monotonic() + wait
        while True:
            if len(self.unread) >= 5:
                length = struct.unpack_from("!I", self.unread, 1)[0] + 1
                if len(self.unread) >= length:
                    message, self.unread = Message(chr(self.unread[0]), self.unread[5:length]), self.unread[length:]
                    return message
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise Silent([], wait)
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionError:
                piece = b""
            if not piece:
                raise Closed([])
            self.unread += piece

    def until(self, kinds, count=1, wait=None):
        """All messages up to the count-th of one of these types, that one included."""
        messages = []
        try:
            while count > 0:
                messages.append(self.read(wait))
                if messages[-1].type in kinds:
                    count -= 1
        except (Silent, Closed) as failure:
            failure.messages = messages
            failure.args = (f"{type(failure).__name__} after {messages}",)
            raise
        return messages

    def query(self, sql, wait=None):
        """One simple query and its answer, up to its ReadyForQuery."""
        self.send(query(sql))
        return self.until("Z", wait=wait)

    def rows(self, sql):
        """The rows of a simple query as text; an error is an AssertionError."""
        answer = self.query(sql)
        for message in answer:
            assert message.type != "E", f"{sql}: {message}"
        return [[None if value is None else value.decode() for value in message.row()] for message in answer if message.type == "D"]

    def value(self, sql):
        return self.rows(sql)[0][0]

    def end(self):
        """Terminate and close; never fails."""
        try:
            self.socket.sendall(terminate())
        except OSError:
            pass
        self.socket.close()
