"""A raw client of Hrana: HTTP by http.client and a WebSocket by hand, so that a test sees each status and each byte.

    db = hrana.Client(port, token="tg.5.billing.")
    db.v2(hrana.execute("INSERT INTO t VALUES (?)", 1), hrana.CLOSE)     status and body of POST /v2/pipeline
    db.sql("SELECT 1")                                                   rows, or raises Failed with its code
    stream = db.stream(); stream.sql("BEGIN IMMEDIATE")                  a stream, which keeps its baton
"""
import base64
import http.client
import json
import os
import socket
import struct

CLOSE = {"type": "close"}
AUTOCOMMIT = {"type": "get_autocommit"}


class Failed(Exception):
    def __init__(self, status, code, message):
        super().__init__(f"{status} {code} {message}")
        self.status, self.code, self.message = status, code, message


def value(one):
    if one is None:
        return {"type": "null"}
    if isinstance(one, bytes):
        return {"type": "blob", "base64": base64.b64encode(one).decode()}
    kinds = {int: "integer", float: "float", str: "text"}
    return {"type": kinds[type(one)], "value": str(one) if isinstance(one, int) else one}


def plain(one):
    if one["type"] == "blob":
        return base64.b64decode(one["base64"] + "==")
    return {"null": lambda v: None, "integer": int, "float": float, "text": str}[one["type"]](one.get("value"))


def statement(sql, *arguments):
    return {"sql": sql, "args": [value(one) for one in arguments]}


def execute(sql, *arguments):
    return {"type": "execute", "stmt": statement(sql, *arguments)}


def rows(result):
    return [tuple(plain(one) for one in row) for row in result["rows"]]


class Client:
    def __init__(self, port, token=None, headers=None, timeout=20):
        self.port, self.timeout = port, timeout
        self.headers = {**({"Authorization": f"Bearer {token}"} if token is not None else {}), **(headers or {})}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def raw(self, method, path, body=None, **headers):
        """Status and bytes; one connection is kept."""
        self.connection.request(method, path, body, {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})
        self.answer = self.connection.getresponse()
        return self.answer.status, self.answer.read()

    def post(self, path, body, **headers):
        status, text = self.raw("POST", path, json.dumps(body), **headers)
        return status, json.loads(text)

    def v2(self, *requests, baton=None, path="/v2/pipeline"):
        return self.post(path, {"baton": baton, "requests": list(requests)})

    def cursor(self, *steps, baton=None):
        status, text = self.raw("POST", "/v3/cursor", json.dumps({"baton": baton, "batch": {"steps": list(steps)}}))
        return status, [json.loads(line) for line in text.decode().splitlines()]

    def stream(self):
        return Stream(self)

    def sql(self, sql, *arguments):
        return self.stream().sql(sql, *arguments, close=True)


class Stream:
    """Requests of one stream, one after the other. Failed has the status, 200 for a statement's error."""

    def __init__(self, client, path="/v2/pipeline"):
        self.client, self.baton, self.path = client, None, path

    def run(self, *requests):
        status, body = self.client.v2(*requests, baton=self.baton, path=self.path)
        if status != 200:
            raise Failed(status, body.get("code"), body.get("message"))
        self.baton = body["baton"]
        for result in body["results"]:
            if result["type"] == "error":
                raise Failed(200, result["error"]["code"], result["error"]["message"])
        return [result["response"] for result in body["results"]]

    def sql(self, sql, *arguments, close=False):
        return rows(self.run(execute(sql, *arguments), *([CLOSE] if close else []))[0]["result"])


class WebSocket:
    def __init__(self, port, protocol="hrana3", headers=None, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        words = {"Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        words |= {"Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **(headers or {})}
        words |= {"Sec-WebSocket-Protocol": protocol} if protocol else {}
        self.socket.sendall(("GET / HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in words.items()) + "\r\n").encode())
        self.file = self.socket.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                raise ConnectionError(f"closed in the middle of the answer's head: {self.head}")
            self.head += line
        self.status, self.number, self.closed = int(self.head.split()[1]), 0, None

    def send(self, message):
        data, mask = json.dumps(message).encode(), os.urandom(4)
        if len(data) > 0xFFFF:  # masked with zeros, which is quick
            return self.socket.sendall(struct.pack(">BBQI", 0x81, 0xFF, len(data), 0) + data)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0xFE]) + struct.pack(">H", len(data))
        self.socket.sendall(b"\x81" + size + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))

    def receive(self):
        """The next message; None once the server has closed, with the code in `closed`."""
        while True:
            head = self.file.read(2)
            if len(head) < 2:
                return None
            size = head[1] if head[1] < 126 else int.from_bytes(self.file.read(2 if head[1] == 126 else 8), "big")
            data = self.file.read(size)
            if head[0] & 15 == 8:
                self.closed = int.from_bytes(data[:2], "big")
                return None
            if head[0] & 15 == 1:
                return json.loads(data)

    def ask(self, request):
        self.number += 1
        self.send({"type": "request", "request_id": self.number, "request": request})
        return self.receive()
