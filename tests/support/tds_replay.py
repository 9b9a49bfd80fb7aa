"""Exchanges of a TDS client with a real server: recorded between the proxy and that server, and played again where no server can be
had. A recording keeps, of each session that declares a term at its login, every request and its answer, in their order; a request is known
again by its bytes behind the headers, and a call of the gate by its name, with the proof of now put into its answer."""
import base64
import json
import socket
import struct
import threading
import zlib
from collections import deque

from tds_server import Server, Session
from tdsraw import ATTENTION, LOGIN7, PRELOGIN, RPC, Messages, wide

GATE = b"g\0a\0t\0e\0_\0"


def is_of_client(login7):
    """Whether it is a client's: the proxy's own connection declares nothing."""
    return wide("termgate.scope") in login7


def body_of(payload, version):
    """Behind ALL_HEADERS, which TDS 7.1 has not."""
    if version < 0x72 or len(payload) < 4:
        return payload
    return payload[struct.unpack("<I", payload[:4])[0] :]


def proof_in(body):
    """The number that a call of the gate brings along, where it stands; the parameter is an 8-byte integer."""
    at = body.find(bytes([6]) + wide("@proof"))
    at = at + 1 + 12 + 1 + 3
    return struct.unpack("<q", body[at : at + 8])[0]


def key_of(kind, payload, version):
    if kind in (PRELOGIN, LOGIN7):
        return str(kind)
    body = body_of(payload, version)
    if kind == RPC and GATE in body[:200]:
        units = struct.unpack("<H", body[:2])[0]
        return "gate " + body[2 : 2 + 2 * units].decode("utf-16-le").rsplit("[", 1)[-1].rstrip("]")
    return f"{kind} {zlib.crc32(body):08x} {len(body)}"


class Recorder:
    """Stands between the proxy and the server at `host`:`port`."""

    def __init__(self, host, port):
        self.upstream, self.exchanges = (host, port), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            Recorded(self, client, socket.create_connection(self.upstream))

    def close(self):
        self.listener.close()


class Recorded:
    def __init__(self, recorder, client, server):
        self.recorder, self.client, self.server = recorder, client, server
        self.asked, self.attentions, self.declared, self.version = deque(), 0, False, 0x74
        for function in (self.requests, self.answers):
            threading.Thread(target=function, daemon=True).start()

    def requests(self):
        stream = Messages(self.client)
        try:
            while True:
                kind, _, payload, raw = stream.next()
                if kind == LOGIN7:
                    self.version = payload[7]
                    self.declared = is_of_client(payload)
                if kind == ATTENTION:
                    self.attentions += 1
                else:
                    gate = kind == RPC and GATE in payload[:300]
                    self.asked.append((key_of(kind, payload, self.version), proof_in(payload) if gate else None))
                self.server.sendall(raw)
        except (EOFError, OSError):
            self.server.close()

    def answers(self):
        stream = Messages(self.server)
        try:
            while True:
                _, _, payload, raw = stream.next()
                acknowledges = len(payload) <= 13 and payload[:1] == b"\xfd" and payload[1] & 0x20
                if self.attentions and acknowledges:
                    self.attentions -= 1
                elif self.asked:
                    key, proof = self.asked.popleft()
                    if self.declared and key != str(PRELOGIN):
                        self.recorder.exchanges.append([key, proof, base64.b64encode(zlib.compress(payload, 9)).decode()])
                self.client.sendall(raw)
        except (EOFError, OSError):
            self.client.close()


def save(path, output, exchanges):
    text = json.dumps({"output": output, "exchanges": exchanges}, indent=0, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def load(path):
    """(what the client printed, its exchanges)"""
    told = json.loads(path.read_text(encoding="utf-8"))
    return told["output"], [(key, proof, zlib.decompress(base64.b64decode(answer))) for key, proof, answer in told["exchanges"]]


class Replayer(Server):
    """Plays a recording to sessions of clients; the proxy's own connection is answered as tds_server does. `unknown`: requests that no
    exchange was recorded of."""

    def __init__(self, exchanges, **options):
        self.answers, self.unknown = {}, []
        for key, proof, answer in exchanges:
            self.answers.setdefault(key, deque()).append((proof, answer))
        super().__init__(**options)

    def converse(self, connection):
        Replayed(self, connection).run()


class Replayed(Session):
    declared = False

    def answer(self, kind, status, payload):
        if kind == LOGIN7:
            self.version = struct.unpack("<I", payload[4:8])[0]
            self.declared = is_of_client(payload)
        if not self.declared or kind in (PRELOGIN, ATTENTION):
            return super().answer(kind, status, payload)
        key = key_of(kind, payload, self.version >> 24)
        with self.server.lock:
            known = self.server.answers.get(key)
            if not known:
                self.server.unknown.append(key)
                raise EOFError
            proof, answer = known.popleft() if len(known) > 1 else known[0]
        if key.startswith("gate "):
            now = proof_in(payload)
            answer = answer.replace(struct.pack("<q", -proof - 1), struct.pack("<q", -now - 1))
            self.note_gate(key)
        return answer

    def note_gate(self, key):
        self.enters(self.server.fence if key.endswith("gate_enter") else None if key.endswith("gate_leave") else self.gate)
