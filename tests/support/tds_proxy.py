"""For tests of `termgate proxy` in front of a TDS server: the proxy as a process, a certificate, and clients under TLS."""
import os
import signal
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from checks import eventually
from given import TERMGATE, free_port
from tdsraw import PRELOGIN, Closed, Tds, packets

scratch = tempfile.TemporaryDirectory(prefix="termgate-tds-proxy-test.")
WITH_TERM = "termgate.scope=s;termgate.term=5;"


def certificate(name="proxy"):
    """Paths of a certificate for localhost and of its key, made once for each `name`."""
    pem, key = Path(scratch.name) / f"{name}.pem", Path(scratch.name) / f"{name}.key"
    if not pem.exists():
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-days", "2", *subject],
            check=True,
            capture_output=True,
        )
    return pem, key


class Proxy:
    def __init__(self, server_port, *options, listen=None, url=None):
        """`listen`, `url`: in the place of a port of its own on the loopback, and of a server there that takes any login."""
        self.port = free_port()
        self.log = Path(scratch.name) / f"proxy-{self.port}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    TERMGATE,
                    "proxy",
                    "--listen",
                    listen or f"127.0.0.1:{self.port}",
                    "--backend",
                    url or f"sqlserver://proxy:secret@127.0.0.1:{server_port}/app",
                    *options,
                ],
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "TERMGATE_DB"},
            )
        if not eventually(lambda: "listening" in self.log.read_text(encoding="utf-8")):
            raise AssertionError(self.log.read_text(encoding="utf-8"))

    def end(self):
        """For a cleanup as well: then it may have ended already."""
        if self.process.poll() is not None:
            return self.process.returncode
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


class OverTls(Tds):
    """The handshake in packets of PRELOGIN, then TLS beneath everything."""

    def __init__(self, port, application, context):
        self.context, self.tls = context, None
        super().__init__(port, "sa", "secret", "app", application)

    def message(self):
        if self.tls is not None:
            return self.message_over_tls()
        payload = super().message()
        self.handshake(payload)
        return payload

    def handshake(self, answer):
        if answer[answer[6] << 8 | answer[7]] not in (1, 3):
            raise Closed("no TLS was offered")
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            try:
                tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            if self.outgoing.pending:
                self.socket.sendall(packets(PRELOGIN, self.outgoing.read()))
            if done:
                break
            self.incoming.write(Tds.message(self))
        self.tls = tls
        self.plain = b""

    @staticmethod
    def prelogin(encryption=1):
        return Tds.prelogin(encryption)

    def send(self, data):
        if self.tls is None:
            return super().send(data)
        self.tls.write(data)
        return super().send(self.outgoing.read())

    def message_over_tls(self):
        payload = b""
        while True:
            while len(self.plain) < 8 or len(self.plain) < (self.plain[2] << 8 | self.plain[3]):
                try:
                    self.plain += self.tls.read(65536)
                except ssl.SSLWantReadError:
                    some = self.socket.recv(65536)
                    if not some:
                        raise Closed("end of stream") from None
                    self.incoming.write(some)
            length = self.plain[2] << 8 | self.plain[3]
            packet, self.plain = self.plain[:length], self.plain[length:]
            payload += packet[8:]
            if packet[1] & 1:
                return payload


class Strict(Tds):
    """TDS 8.0: TLS first, then everything else in it."""

    version = 0x08000000

    def __init__(self, port, application, context, alpn="tds/8.0"):
        if alpn:
            context.set_alpn_protocols([alpn])
        self.context = context
        create = socket.create_connection
        self.plain = create(("127.0.0.1", port), 20)
        try:
            wrapped = context.wrap_socket(self.plain, server_hostname="localhost")
            self.chosen = wrapped.selected_alpn_protocol()
            socket.create_connection = lambda *_: wrapped
            super().__init__(port, "sa", "secret", "app", application)
        finally:
            socket.create_connection = create
