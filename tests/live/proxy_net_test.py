#!/usr/bin/env python3
"""The proxy's sockets against a real PostgreSQL: TLS on both sides, cancel requests, limits, silent clients, PROXY
headers, reload, drain, HTTP.

Speaks the wire itself, so that it can say what no driver would. Usage: proxy_net_test.py TERMGATE PG_SERVER_SH
"""
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

termgate, pg_server = sys.argv[1:3]
folder = tempfile.mkdtemp(prefix="termgate-proxy-")
os.chmod(folder, 0o755)
failures = []


def check(name, condition, detail=""):
    print(("ok   " if condition else "FAIL ") + name + (f": {detail}" if detail and not condition else ""), flush=True)
    if not condition:
        failures.append(name)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def make_certificate(name, san, ca=None):
    """A key and a certificate, signed by `ca` or by itself; paths of both."""
    key, certificate, request = (f"{folder}/{name}.{end}" for end in ("key", "crt", "csr"))
    if ca is None:
        run(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            key,
            "-out",
            certificate,
        )
    else:
        run(
            "openssl",
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            f"/CN={name}",
            "-keyout",
            key,
            "-out",
            request,
        )
        with open(f"{folder}/{name}.ext", "w") as file:
            file.write(f"subjectAltName={san}\n")
        run(
            "openssl",
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            ca[1],
            "-CAkey",
            ca[0],
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            f"{folder}/{name}.ext",
            "-out",
            certificate,
        )
    return key, certificate


class Refused(Exception):
    pass


def fields(body):
    return {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}


class Client:
    def __init__(self, port, tls=None, direct=False, alpn=("postgresql",), before=b"", user="postgres", login=True, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=15)
        self.socket.sendall(before)
        if tls:
            context = ssl.create_default_context(cafile=tls)
            context.set_alpn_protocols(list(alpn)) if alpn else None
            if not direct:
                self.socket.sendall(struct.pack("!II", 8, 80877103))
                answer = self.socket.recv(1)
                if answer != b"S":
                    raise Refused(answer)
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.pid = self.key = None
        if login:
            body = struct.pack("!I", 3 << 16) + f"user\0{user}\0database\0postgres\0\0".encode()
            self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
            self.until("Z")

    def exactly(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise Refused("closed")
            data += piece
        return data

    def message(self):
        kind = self.exactly(1).decode()
        return kind, self.exactly(struct.unpack("!I", self.exactly(4))[0] - 4)

    def until(self, wanted):
        error = None
        rows = []
        while True:
            kind, body = self.message()
            if kind == "K":
                self.pid, self.key = struct.unpack("!I", body[:4])[0], body[4:]
            if kind == "D":
                length = struct.unpack("!i", body[2:6])[0]
                rows.append(body[6 : 6 + length].decode())
            if kind == "E":
                error = fields(body)
                if error["S"] == "FATAL":
                    raise Refused(error)
            if kind == wanted:
                return rows, error

    def ask(self, sql):
        self.say(sql)
        return self.until("Z")

    def say(self, sql):
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)

    def close(self):
        self.socket.close()


def refusal(action):
    try:
        action()
    except Refused as refused:
        return refused.args[0] if isinstance(refused.args[0], dict) else {"C": "", "M": str(refused)}
    except (ConnectionError, ssl.SSLError, socket.timeout) as error:
        return {"C": "", "M": repr(error)}
    return None


def cancel(port, pid, key, tls=None):
    client = Client(port, tls=tls, login=False)
    client.socket.sendall(struct.pack("!III", 12 + len(key), 80877102, pid) + key)
    client.socket.settimeout(12)
    try:
        return client.socket.recv(1)
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        client.close()


proxies = []


class Proxy:
    def __init__(self, backend, *options, config=None):
        self.log_path = f"{folder}/proxy{time.monotonic_ns()}.log"
        words = [
            termgate,
            "proxy",
            "--listen",
            "127.0.0.1:0",
            "--backend",
            backend,
            "--http",
            "127.0.0.1:0",
            "--log-level",
            "debug",
            *options,
        ]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        proxies.append(self.process)
        for _ in range(200):
            found = re.findall(r"(listening|serving_http) address=\S*?:(\d+)\n", self.log())
            if any(kind == "serving_http" for kind, _ in found) or self.process.poll() is not None:
                break
            time.sleep(0.05)
        self.ports = [int(port) for kind, port in found if kind == "listening"]
        self.port = self.ports[0] if self.ports else 0
        self.http = next((int(port) for kind, port in found if kind == "serving_http"), 0)

    def log(self):
        with open(self.log_path) as file:
            return file.read()

    def logged(self, pattern, seconds=5):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if re.search(pattern, self.log()):
                return True
            time.sleep(0.05)
        return False

    def get(self, path, host=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        return int(float(re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.M).group(1)))

    def settles(self, name, most):
        until = time.monotonic() + 20
        while self.metric(name) > most:
            if time.monotonic() > until:
                raise AssertionError(f"{name} stays above {most}")
            time.sleep(0.01)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.terminate()
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = "killed"
        return status


def tls_to_clients(url, ca, pair):
    proxy = Proxy(url, "--client-tls-cert", pair[1], "--client-tls-key", pair[0])
    client = Client(proxy.port, tls=ca[1])
    check("TLS: a client that asks for it gets it", client.ask("select 7")[0] == ["7"])
    big = client.ask("select repeat('x', 3000000)")[0]
    check("TLS: a large row comes whole", len(big[0]) == 3_000_000)
    direct = Client(proxy.port, tls=ca[1], direct=True)
    check("direct TLS: works with ALPN", direct.ask("select 8")[0] == ["8"])
    check("direct TLS: is refused without ALPN", refusal(lambda: Client(proxy.port, tls=ca[1], direct=True, alpn=None)) is not None)

    stuffed = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    startup = struct.pack("!I", 3 << 16) + b"user\0postgres\0\0"
    stuffed.sendall(struct.pack("!II", 8, 80877103) + struct.pack("!I", len(startup) + 4) + startup)
    answer = b""
    try:
        for piece in iter(lambda: stuffed.recv(4096), b""):
            answer += piece
    except ConnectionError:
        pass
    check("TLS: clear text behind SSLRequest is never obeyed", b"R\0\0\0" not in answer and b"C08P01\0" in answer, answer)

    sleeping = Client(proxy.port, tls=ca[1])
    sleeping.say("select pg_sleep(20)")
    began = time.monotonic()
    time.sleep(0.3)
    wrong = bytes(byte ^ 1 for byte in sleeping.key)
    cancel(proxy.port, sleeping.pid, wrong)
    cancel(proxy.port, sleeping.pid + 1, sleeping.key)
    check("cancel: a wrong secret and a wrong process change nothing", proxy.metric('termgate_cancel_requests_total{fate="unknown"}') == 2)
    cancel(proxy.port, sleeping.pid, sleeping.key, tls=ca[1])
    error = sleeping.until("Z")[1]
    check("cancel: works through TLS", error and error["C"] == "57014" and time.monotonic() - began < 10, error)
    sleeping.say("select pg_sleep(20)")
    time.sleep(0.3)
    cancel(proxy.port, sleeping.pid, sleeping.key)
    check("cancel: works in clear text for a session under TLS", sleeping.until("Z")[1]["C"] == "57014")
    check("cancel: the process is the server's own", sleeping.ask("select pg_backend_pid()")[0] == [str(sleeping.pid)])

    fresh = make_certificate("fresh", "DNS:localhost", ca)
    shutil.copy(fresh[0], pair[0])
    shutil.copy(fresh[1], pair[1])
    proxy.signal(signal.SIGHUP)
    check("reload: is logged", proxy.logged(" reloaded"))
    renewed = Client(proxy.port, tls=ca[1])
    subject = dict(part[0] for part in renewed.socket.getpeercert()["subject"])
    check("reload: the next client sees the new certificate", subject["commonName"] == "fresh", subject)
    check("reload: sessions under the old one go on", client.ask("select 9")[0] == ["9"])
    with open(pair[1], "w") as file:
        file.write("nothing")
    proxy.signal(signal.SIGHUP)
    check(
        "reload: a broken certificate changes nothing",
        proxy.logged("reload_failed") and Client(proxy.port, tls=ca[1]).ask("select 1")[0] == ["1"],
    )
    check("TLS: ends cleanly", proxy.end() == 0)


def tls_to_server(url, tls_url, ca, other_ca):
    proxy = Proxy(f"{tls_url}?sslmode=verify-full&sslrootcert={ca[1]}")
    client = Client(proxy.port)
    check("server TLS: verify-full with the right root", client.ask("select ssl from pg_stat_ssl where pid = pg_backend_pid()")[0] == ["t"])
    client.say("select pg_sleep(20)")
    time.sleep(0.3)
    cancel(proxy.port, client.pid, client.key)
    check("server TLS: a cancel request reaches the server", client.until("Z")[1]["C"] == "57014")
    proxy.end()
    proxy = Proxy(f"{tls_url}?sslmode=verify-full&sslrootcert={other_ca[1]}")
    check("server TLS: another root is refused", refusal(lambda: Client(proxy.port)) is not None and proxy.logged("tls_failed"))
    proxy.end()
    proxy = Proxy(f"{tls_url.replace('localhost', '127.0.0.1')}?sslmode=verify-full&sslrootcert={ca[1]}")
    check("server TLS: another name is refused", refusal(lambda: Client(proxy.port)) is not None)
    proxy.end()
    proxy = Proxy(f"{url}?sslmode=require")
    check("server TLS: require and a server without is refused", refusal(lambda: Client(proxy.port)) is not None)
    proxy.end()


def limits(url):
    config = f"{folder}/proxy.conf"
    with open(config, "w") as file:
        file.write("max-connections = 5\nmax-greeting = 40\n# a comment\ngreeting-timeout = 2s\n")
    proxy = Proxy(url, "--config", config)
    clients = [Client(proxy.port) for _ in range(5)]
    refused = refusal(lambda: Client(proxy.port))
    check(
        "limits: one client too many is told so",
        refused and refused["C"] == "53300" and "limit is 5 (--max-connections)" in refused["M"],
        refused,
    )
    clients.pop().close()
    proxy.settles("termgate_connections", 4)
    check("limits: a place that is free again is given", Client(proxy.port).ask("select 1")[0] == ["1"])
    with open(config, "w") as file:
        file.write("max-connections = 50\nmax-greeting = 40\ngreeting-timeout = 2s\nmax-connections-per-user = 6\n")
    proxy.signal(signal.SIGHUP)
    proxy.logged(" reloaded")
    more = [Client(proxy.port) for _ in range(2)]
    refused = refusal(lambda: Client(proxy.port))
    check("limits: reload takes new ones", refused and "--max-connections-per-user" in refused["M"], refused)
    silent = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(400)]
    more.pop().close()
    proxy.settles("termgate_connections", 5)
    began = time.monotonic()
    check("silent clients: a speaking one gets in", Client(proxy.port).ask("select 2")[0] == ["2"] and time.monotonic() - began < 8)
    # Each time another worker may have all of those that could be sent away.
    for _ in range(30):
        silent += [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(50)]
        speaking = Client(proxy.port)
        if speaking.ask("select 2")[0] != ["2"]:
            raise Refused("the client after a burst of silent ones")
        speaking.close()
        proxy.settles("termgate_connections", 5)
    check("silent clients: after each of many bursts one gets in", True)
    check("silent clients: are bounded", proxy.metric("termgate_connections_greeting") <= 40)
    time.sleep(2.5)
    check("silent clients: do not stay", proxy.metric("termgate_connections_greeting") == 0)
    check("silent clients: nobody else has noticed", clients[0].ask("select 3")[0] == ["3"])
    for one in silent:
        one.close()
    with open(config, "w") as file:
        file.write("max-conections = 50\n")
    proxy.signal(signal.SIGHUP)
    check("config: an unknown option is an error and names itself", proxy.logged("reload_failed.*max-conections"))
    proxy.end()


def proxy_headers(url):
    proxy = Proxy(url, "--listen", "lb=127.0.0.1:0,proxy", "--trust-backend")
    source = bytes([192, 0, 2, 7, 127, 0, 0, 1]) + struct.pack("!HH", 1234, 5432)
    header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack("!H", len(source)) + source
    client = Client(proxy.ports[1], before=header)
    check(
        "PROXY header: the client is who it says",
        client.ask("select 1")[0] == ["1"] and proxy.logged(r"connection_opened .*client=192\.0\.2\.7:1234 listener=lb"),
    )
    check(
        "PROXY header: without one the connection ends", refusal(lambda: Client(proxy.ports[1])) is not None and proxy.logged("malformed")
    )
    proxy.end()


def drain(url):
    proxy = Proxy(url, "--drain-timeout", "30s")
    idle = Client(proxy.port)
    busy = Client(proxy.port)
    busy.ask("begin")
    proxy.signal(signal.SIGTERM)
    check("drain: is logged", proxy.logged(" draining"))
    gone = refusal(lambda: idle.until("Z"))
    check("drain: an idle session is told and ended", gone and gone["C"] == "57P01", gone)
    check("drain: no new client is taken", refusal(lambda: Client(proxy.port)) is not None)
    check("drain: not ready any more", proxy.get("/readyz")[0] == 503 and proxy.get("/healthz")[0] == 200)
    check("drain: an open transaction goes on", busy.ask("select 4")[0] == ["4"])
    busy.say("commit")
    refusal(lambda: busy.until("Z"))
    began = time.monotonic()
    check("drain: then the proxy ends", proxy.process.wait(20) == 0)

    proxy = Proxy(url, "--drain-timeout", "1s")
    stuck = Client(proxy.port)
    stuck.ask("begin")
    began = time.monotonic()
    proxy.signal(signal.SIGTERM)
    cut = refusal(lambda: stuck.until("Z"))
    check("drain: an endless transaction is cut at the timeout", cut and cut["C"] == "57P01" and 0.8 < time.monotonic() - began < 10, cut)
    check("drain: and the proxy ends after it", proxy.process.wait(10) == 0)

    proxy = Proxy(url)
    stuck = Client(proxy.port)
    stuck.ask("begin")
    proxy.signal(signal.SIGTERM)
    proxy.logged(" draining")
    proxy.signal(signal.SIGTERM)
    check("drain: a second signal ends at once", proxy.process.wait(5) == 0)


def http(url):
    run(termgate, "init", "--db", url)  # without layer 1 it is not ready
    proxy = Proxy(url)
    deadline = time.monotonic() + 10  # it is ready once it watches the fences
    while proxy.get("/readyz")[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    check("HTTP: alive and ready", proxy.get("/healthz")[0] == 200 and proxy.get("/readyz")[0] == 200)
    check("HTTP: nothing else is there", [proxy.get(path)[0] for path in ("/", "/api/v1/scopes", "/leader?scope=none")] == [404, 404, 503])
    check("HTTP: another name is refused", proxy.get("/metrics", host="evil.example")[0] == 421)
    long_one = socket.create_connection(("127.0.0.1", proxy.http), timeout=5)
    long_one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n")
    check("HTTP: headers are bounded", b" 431 " in long_one.recv(200))
    proxy.end()
    proxy = Proxy("postgresql://postgres@127.0.0.1:1/postgres")
    check("HTTP: no server is not ready but alive", proxy.get("/readyz")[0] == 503 and proxy.get("/healthz")[0] == 200)
    refused = refusal(lambda: Client(proxy.port))
    check("no server: the client is told in its own protocol", refused and refused["C"].startswith("08"), refused)
    proxy.end()


def memory(url):
    proxy = Proxy(url)

    def resident():
        with open(f"/proc/{proxy.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    warm = [Client(proxy.port) for _ in range(3)]
    before = resident()
    clients = [Client(proxy.port) for _ in range(80)]
    grown = resident() - before
    # 1,000 may cost 32 MB: 32 kB each, and some slack for pages that are only begun.
    check("memory: idle clients cost little", os.environ.get("TERMGATE_TEST_SANITIZED") or grown < 80 * 32 + 1024, f"{grown} kB for 80")
    print(f"     {grown} kB for 80 idle clients")
    for one in warm + clients:
        one.close()
    proxy.end()


def main():
    ca = make_certificate("ca", None)
    other_ca = make_certificate("other", None)
    pair = make_certificate("proxy", "DNS:localhost", ca)
    server_pair = make_certificate("server", "DNS:localhost", ca)
    if os.geteuid() == 0:
        owner = run("stat", "-c", "%u", "/dev/null") and "postgres"
        for path in server_pair:
            shutil.chown(path, owner)
    os.chmod(server_pair[0], 0o600)
    url = run(pg_server, "start", "15", f"{folder}/plain", "max_connections=200")
    tls_url = run(
        pg_server, "start", "15", f"{folder}/tls", "ssl=on", f"ssl_cert_file={server_pair[1]}", f"ssl_key_file={server_pair[0]}"
    ).replace("127.0.0.1", "localhost")
    tls_to_clients(url, ca, pair)
    tls_to_server(url, tls_url, ca, other_ca)
    limits(url)
    proxy_headers(url)
    drain(url)
    http(url)
    memory(url)


try:
    main()
finally:
    for process in proxies:
        if process.poll() is None:
            process.kill()
    for server in ("plain", "tls"):
        subprocess.run([pg_server, "stop", f"{folder}/{server}", "immediate"], capture_output=True)
    if not failures:
        shutil.rmtree(folder, ignore_errors=True)
print(f"{len(failures)} failures" + (f"; logs in {folder}" if failures else ""))
sys.exit(1 if failures else 0)
