"""Plays what a client of libSQL sends, byte script by byte script: tests/live/clients/hrana/scripts/*.json.

A script has `client`, `source` (where its author wrote what it sends), `headers`, and `steps`. A step is one of

    {"http": "POST /v2/pipeline", "send": BODY, "status": 200, "answer": EXPECTED}
    {"ws": "PROTOCOLS", "answer": "PROTOCOL"}          opens a WebSocket
    {"ws": [MESSAGE, …], "answer": [EXPECTED, …]}      sends all of them, then reads as many answers; their order is the server's

"$baton" in a body is the baton of the last answer. EXPECTED is a part of the answer: an object may have more members, a list may not be
longer, "$some" stands for any value but null. A cursor's answer is the list of its lines.
"""
import http.client
import json
import re

from hrana import WebSocket


def differs(expected, got, where="answer"):
    """What is wrong with `got`, or None."""
    if expected == "$some":
        return None if got is not None else f"{where} is null"
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f"{where} is no object: {got!r}"
        wrong = (differs(value, got.get(name), f"{where}.{name}") for name, value in expected.items())
        return next((text for text in wrong if text), None)
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return f"{where} is no list of {len(expected)}: {json.dumps(got)[:300]}"
        wrong = (differs(value, got[at], f"{where}[{at}]") for at, value in enumerate(expected))
        return next((text for text in wrong if text), None)
    same = expected == got and type(expected) is type(got)
    return None if same else f"{where} is {got!r}, not {expected!r}"


class Player:
    """Plays one script against 127.0.0.1:port. `claims`: headers that carry scope and term, or a token."""

    def __init__(self, port, script, claims):
        self.port, self.script, self.claims = port, script, claims
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.socket = None
        self.baton = None

    def play(self):
        """What differs from the script, a line for each step in which something does."""
        wrong = []
        try:
            for at, step in enumerate(self.script["steps"]):
                text = self._over_http(step) if "http" in step else self._over_socket(step)
                if text:
                    wrong.append(f"{self.script['client']}, step {at}: {text}")
        finally:
            self.connection.close()
            if self.socket:
                self.socket.socket.close()
        return wrong

    def _over_http(self, step):
        method, target = step["http"].split()
        body = json.dumps(step["send"]).replace('"$baton"', json.dumps(self.baton)).encode() if "send" in step else b""
        self.connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in {**self.script.get("headers", {}), **self.claims}.items():
            self.connection.putheader(name, value)
        if body:
            self.connection.putheader("Content-Length", str(len(body)))
        self.connection.endheaders(body or None)
        answered = self.connection.getresponse()
        text = answered.read().decode()
        status = step.get("status", 200)
        if answered.status != status:
            return f"status {answered.status}, not {status}: {text[:300]}"
        if "/cursor" in target and answered.status == 200:
            got = [json.loads(line) for line in text.splitlines() if line]
            self.baton = got[0].get("baton")
        elif "answer" in step:
            got = json.loads(text)
            self.baton = got.get("baton") if isinstance(got, dict) else None
        return differs(step["answer"], got) if "answer" in step else None

    def _over_socket(self, step):
        if isinstance(step["ws"], str):
            self.socket = WebSocket(self.port, step["ws"], self.claims)
            if self.socket.status != 101:
                return f"status {self.socket.status} in place of a WebSocket"
            chosen = re.search(r"(?i)^sec-websocket-protocol: *(\S+)", self.socket.head.decode(), re.M)
            return differs(step["answer"], chosen[1] if chosen else "")
        for message in step["ws"]:
            self.socket.send(message)
        got = [self.socket.receive() for _ in step["answer"]]
        # Requests of several streams may be answered in another order.
        got.sort(key=lambda message: -1 if message is None or "request_id" not in message else message["request_id"])
        return differs(step["answer"], got)
