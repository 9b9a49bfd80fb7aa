#!/usr/bin/env python3
"""The proxy in front of an SQLite file in operation: its paths, silence, limits, tokens, rules, reload, memory, and `termgate sql`.
What it promises of writes is in hrana_guarantees_test.py, the protocol in tests/unit/sqlite_server/hrana.

  pytest tests/live/hrana/hrana_front_test.py -k tokens
"""
import base64
import hashlib
import json
import os
import socket
import struct
import subprocess
import time

import pytest

import given
import hrana
from checks import captured, check, eventually
from hrana import CLOSE, execute
from hrana_served import File, Served

SECRET = "app-token-of-20-letters"
READER = "view-token-of-20-letters"


NEXT = iter(range(1, 1_000_000))


@pytest.fixture(scope="module")
def file(lab):
    return File(lab, "t(k INTEGER PRIMARY KEY, v)")


@pytest.fixture(scope="module")
def front(lab, file):
    return Served(lab, file.path)


def code(action):
    """The status and code that it fails with; None: it does not fail."""
    try:
        action()
    except hrana.Failed as failed:
        return failed.status, failed.code
    return None


def seconds_to_stop(front):
    began = time.monotonic()
    front.stop()
    return time.monotonic() - began


def insert(client):
    return client.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT))


def test_small_paths_and_what_is_not_served(front):
    client = front.client()
    for path in ("/healthz", "/readyz", "/health", "/version", "/v2", "/v3", "/metrics", "/"):
        check(path, client.raw("GET", path)[0] == 200)
    check("/leader", client.raw("GET", "/leader?scope=a")[0] == 503)
    for path in ("/v3-protobuf", "/v3-protobuf/pipeline", "/nothing", "/db/v2/pipeline", "/info", "/sync/0/0/0", "/dump"):
        status, body = client.raw("GET", path)
        check(path, status == 404 and set(json.loads(body)) == {"message", "code", "error"}, body)
    for path in ("/wal_log.ReplicationLog/Hello", "/proxy.Proxy/Execute", "/nothing"):
        check(path, client.raw("POST", path, "")[0] == 404)
    check("replicas are told", "syncUrl" in client.raw("GET", "/info")[1].decode())
    check("GET of a pipeline", client.raw("GET", "/v2/pipeline")[0] == 405)
    check("no JSON", client.raw("POST", "/v2/pipeline", "{")[0] == 400)


def jwt(lab, claims):
    key = f"{lab.folder}/jwt.pem"
    if not os.path.exists(key):
        lab.run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
        lab.run("openssl", "pkey", "-in", key, "-pubout", "-out", f"{lab.folder}/jwt.pub")

    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    message = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "typ": "JWT"}, claims))
    with open(f"{lab.folder}/message", "w") as text:
        text.write(message)
    lab.run("openssl", "pkeyutl", "-sign", "-inkey", key, "-rawin", "-in", text.name, "-out", f"{lab.folder}/signature")
    with open(f"{lab.folder}/signature", "rb") as signature:
        return f"{message}.{encoded(signature.read())}"


def test_silence_in_a_transaction_ends_it(lab, file):
    front = Served(lab, file.path, "--transaction-idle-timeout", "1s")
    stream, idle = front.client("tg.5.quiet.").stream(), front.client().stream()
    stream.sql("BEGIN")
    stream.sql("SELECT count(*) FROM t")
    idle.run({"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"})
    time.sleep(2)
    check("lost", code(lambda: stream.sql("COMMIT")) == (400, "TRANSACTION_TIMEOUT"))
    check("a stream without a transaction does not expire", code(lambda: idle.sql("SELECT 1")) is None)
    check("it ends at once", seconds_to_stop(front) < 5)


def test_more_transactions_than_may_be_are_busy(lab, file):
    front = Served(lab, file.path, "--max-transactions", "3")
    streams = [front.client().stream() for _ in range(3)]
    for stream in streams:
        stream.sql("BEGIN")
        stream.sql("SELECT count(*) FROM t")
    check("busy", code(lambda: front.client().sql("BEGIN")) == (503, "SERVER_BUSY"))
    check("reading goes on", code(lambda: front.client().sql("SELECT 1")) is None)
    busy = code(lambda: front.client().stream().run({"type": "sequence", "sql": "BEGIN; SELECT 1"}))
    check("a sequence too", busy == (503, "SERVER_BUSY"), busy)
    key = next(NEXT)
    text = f"INSERT INTO t VALUES ({key}, 'once'); BEGIN"
    busy = code(lambda: front.client("tg.5.once.").stream().run({"type": "sequence", "sql": text}))
    check("not one that has written", busy == (200, "SERVER_BUSY"), busy)
    check("what it has written", file.rows(f"SELECT v FROM t WHERE k = {key}") == [("once",)])
    streams[0].sql("COMMIT")
    check("one has ended", code(lambda: front.client().sql("BEGIN")) is None)


# --- who may what


@pytest.fixture(scope="module")
def closed(lab, file):
    path = f"{lab.folder}/tokens"
    with open(path, "w") as tokens:
        tokens.write(f"app write {SECRET}\nview read sha256:{hashlib.sha256(READER.encode()).hexdigest()}\n")
    os.chmod(path, 0o600)
    jwt(lab, {})
    return Served(lab, file.path, "--tokens", path, "--jwt-key", f"{lab.folder}/jwt.pub")


def test_tokens_decide_who_comes_in_and_who_writes(closed):
    for token in (None, "wrong", "tg.5.levels.", "tg.5.levels.wrong", SECRET + "x"):
        status, body = closed.client(token).v2(execute("SELECT 1"), CLOSE)
        check(f"{token}", status == 401 and body["code"].startswith("AUTH_"), body)
        check("metrics", closed.client(token).raw("GET", "/metrics")[0] == 401)
    check("open paths", closed.client().raw("GET", "/healthz")[0] == 200)
    check("it writes", code(lambda: insert(closed.client(f"tg.5.levels.{SECRET}"))) is None)
    check("without a term", code(lambda: insert(closed.client(SECRET))) == (200, "TG002"))
    check("the reader reads", code(lambda: closed.client(READER).sql("SELECT 1")) is None)
    check("and writes nothing", code(lambda: insert(closed.client(f"tg.5.levels.{READER}"))) == (200, "SQLITE_AUTH"))
    stream = closed.client(f"tg.5.levels.{SECRET}").stream()
    stream.sql("BEGIN")
    status, body = closed.client(READER).v2(execute("SELECT 1"), baton=stream.baton)
    check("a baton with another token", status == 401, body)
    check("is still its owner's", code(lambda: stream.sql("ROLLBACK")) is None)


def test_a_signed_token_says_who_with_which_term(lab, closed, file):
    whole = jwt(lab, {"sub": "signed", "termgate": {"scope": "signed", "term": "5"}, "exp": int(time.time()) + 60})
    check("it writes", code(lambda: insert(closed.client(whole))) is None)
    file.seal("signed", 6)
    check("stale", code(lambda: insert(closed.client(whole))) == (200, "TG001"))
    check(
        "no header changes it",
        code(lambda: insert(closed.client(whole, {"Termgate-Scope": "signed", "Termgate-Term": "9"}))) == (200, "TG001"),
    )
    alone = jwt(lab, {"termgate": {"scope": "signed"}})
    check("a scope alone", code(lambda: insert(closed.client(f"tg.6.signed.{alone}"))) is None)
    check("another scope", code(lambda: insert(closed.client(f"tg.6.other.{alone}"))) == (400, "TG005"))
    check("SQL changes nothing", (code(lambda: closed.client(whole).sql("SELECT termgate_declare('signed', 9)")) or (0,))[0] == 200)
    reader = jwt(lab, {"a": "ro"})
    check("ro", code(lambda: insert(closed.client(f"tg.6.signed.{reader}"))) == (200, "SQLITE_AUTH"))
    for claims in ({"exp": 1}, {"nbf": int(time.time()) + 600}, {"id": "x"}, {"p": {}}):
        check(f"{claims}", closed.client(jwt(lab, claims)).v2()[0] == 401)
    check("changed", closed.client(whole[:-4] + "AAAA").v2()[0] == 401)


def test_the_log_has_no_secret(closed):
    check("refusals are logged", "refused" in closed.log(), closed.log())
    check("without secrets", SECRET not in closed.log() and READER not in closed.log() and "eyJ" not in closed.log())


def test_a_websockets_hello_is_checked(closed):
    ws = hrana.WebSocket(closed.port)
    ws.send({"type": "hello", "jwt": "wrong"})
    answer = ws.receive()
    check("refused", answer and answer["type"] == "hello_error", answer)
    ws = hrana.WebSocket(closed.port)
    ws.send({"type": "hello", "jwt": f"tg.5.levels.{SECRET}"})
    check("let in", ws.receive() == {"type": "hello_ok"})


@pytest.mark.parametrize(
    "options, words",
    (
        (("--listen", "0.0.0.0:0"), "--trust-network"),
        (("--listen", "127.0.0.1:0", "--guard", "auto"), "--guard"),
        (("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"), "--http"),
        (("--listen", "127.0.0.1:0", "--schema", "x"), "--schema"),
        (("--listen", "127.0.0.1:0", "--trust-backend"), "--trust-backend"),
        (("--listen", "127.0.0.1:0", "--tokens", "/nowhere"), "/nowhere"),
        (("--listen", "127.0.0.1:0", "--jwt-key", "/nowhere"), "/nowhere"),
    ),
)
def test_options_that_make_no_sense_are_refused_by_name(file, options, words):
    done = captured([given.TERMGATE, "proxy", "--backend", f"sqlite:{file.path}", *options], timeout=20)
    check("it does not start", done.returncode in (1, 2), done)
    check("and says why", words in done.stderr, done.stderr)


def test_a_reload_changes_all_or_nothing(lab, file):
    rules, tokens, config = (f"{lab.folder}/{name}" for name in ("all-rules", "all-tokens", "all-config"))

    def write(path, text):
        with open(path, "w") as out:
            out.write(text)
        os.chmod(path, 0o600)

    good = "[rule fixed]\napplication = fixed\nscope = by-rule\nterm = 5\n"
    write(rules, good)
    write(tokens, f"one write {'1' * 40}\n")
    write(config, "max-streams = 100\n")
    front = Served(lab, file.path, "--rules", rules, "--tokens", tokens, "--config", config)

    def answers(letter):
        return front.client(letter * 40).v2()[0]

    check("the first token", (answers("1"), answers("2")) == (200, 401))
    write(tokens, f"two write {'2' * 40}\n")
    for wrong, named in (
        (good.replace("term = 5", "term = none at all"), "none at all"),
        (good.replace("application", "database"), "database"),
    ):
        write(rules, wrong)
        said = front.reload()
        check("wrong rules", "reload_failed" in said and named in said, said)
    check("and the first token still", (answers("1"), answers("2")) == (200, 401))
    write(rules, good)
    write(config, "max-streams = 200\nlog-level = info\n")
    said = front.reload()
    check("right rules", " reloaded" in said, said)
    check("and the second token", (answers("1"), answers("2")) == (401, 200))
    check("who waits for a restart is named", "reload_needs_restart" in said and "max-streams" in said and "log-level" in said, said)


def test_a_rule_with_a_lease_holds_it_for_its_clients(lab, file):
    rules = f"{lab.folder}/lease-rules"
    with open(rules, "w") as text:
        text.write("[rule host]\napplication = worker\nlease = leased\nttl = 3s\n")
    front = Served(lab, file.path, "--rules", rules)
    client = front.client(headers={"Termgate-Application": "worker"})
    check("it writes", code(lambda: insert(client)) is None)
    check("leader", front.client().raw("GET", "/leader?scope=leased")[0] == 200)
    ws = hrana.WebSocket(front.port, headers={"Termgate-Application": "worker"})
    ws.send({"type": "hello", "jwt": None})
    check("hello", ws.receive() == {"type": "hello_ok"})
    check("it ends", seconds_to_stop(front) < 8)


# --- memory


def test_answers_that_nobody_reads_are_bounded_together(lab, file):
    front = Served(lab, file.path, "--max-memory", "64000000")
    before = front.resident_kb()
    big = json.dumps({"requests": [execute("SELECT hex(zeroblob(500000))"), CLOSE]}).encode()
    sockets = []
    for _ in range(400):
        one = socket.create_connection(("127.0.0.1", front.port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(b"POST /v2/pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(big) + big)
        sockets.append(one)
    time.sleep(2)
    grown = front.resident_kb() - before
    check("below the limit and what SQLite takes", given.SANITIZED or grown < 250_000, grown)
    check("others are served", eventually(lambda: code(lambda: front.client().sql("SELECT 1")) is None))
    for one in sockets:
        one.close()
    check("it is given back", eventually(lambda: front.metric("termgate_session_bytes") < 1_000_000, 10))


def test_requests_that_arrive_slowly_are_bounded_together(lab, file):
    """Of each body and each WebSocket message only a part is here: those that find the memory used up are told so."""
    front = Served(lab, file.path, "--max-memory", "20000000")
    part = b" " * 700_000

    def half_a_body():
        one = socket.create_connection(("127.0.0.1", front.port), timeout=20)
        one.sendall(b"POST /v2/pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1400000\r\n\r\n")
        return one, one.sendall

    def half_a_chunk():
        one = socket.create_connection(("127.0.0.1", front.port), timeout=20)
        one.sendall(b"POST /v2/pipeline HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n155CC0\r\n")
        return one, one.sendall

    def half_a_message():
        ws = hrana.WebSocket(front.port)
        ws.socket.sendall(b"\x81\xff" + struct.pack(">Q", 1_400_000) + b"\0\0\0\0")
        return ws.socket, ws.socket.sendall

    for begin in half_a_body, half_a_chunk, half_a_message:
        before, slow, refused = front.resident_kb(), [], 0
        for _ in range(60):
            one, send = begin()
            slow.append(one)
            try:
                send(part)
            except OSError:
                pass  # it was refused in the middle
        time.sleep(1)
        for one in slow:
            one.settimeout(0.05)
            try:
                told = one.recv(65536)
            except TimeoutError:
                continue
            except ConnectionResetError:
                told = b""
            refused += 1
            check(f"{begin.__name__}: it is told why", told == b"" or b" 503 " in told or b"memory" in told, told)
        check(f"{begin.__name__}: as many are kept as there is memory for", 60 - 20_000_000 // 700_000 <= refused <= 45, refused)
        check(f"{begin.__name__}: and no more", given.SANITIZED or front.resident_kb() - before < 60_000, front.resident_kb() - before)
        for one in slow:
            one.close()
        check(f"{begin.__name__}: it is given back", eventually(lambda: front.metric("termgate_session_bytes") < 1_000_000, 10))
        check(f"{begin.__name__}: others are served", code(lambda: front.client().sql("SELECT 1")) is None)


# --- a person at a terminal


def test_termgate_sql(lab, file, front):
    url = f"http://127.0.0.1:{front.port}"

    def sql(*words, stdin="", to=url):
        done = subprocess.run([given.TERMGATE, "sql", "--url", to, *words], input=stdin, capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout, done.stderr

    claim, key = ["--scope", "shell", "--term", "5"], next(NEXT)
    check("a read needs no term", sql("--json", "-c", "SELECT 1 AS one, NULL AS none") == (0, '[{"one":1,"none":null}]\n', ""))
    status, _, error = sql("-c", f"INSERT INTO t VALUES ({key}, 'x')")
    check("a write does", status != 0 and "TG002" in error, error)
    check("with one it passes", sql(*claim, "-c", f"INSERT INTO t VALUES ({key}, 'it''s; one')")[0] == 0)
    check("its row is there", file.rows("SELECT v FROM t WHERE k = ?", key) == [("it's; one",)])
    kept, gone = next(NEXT), next(NEXT)
    lines = f"BEGIN;\nINSERT INTO t\nVALUES ({kept}, 'two; lines');\nCOMMIT;\n"
    lines += f"BEGIN; INSERT INTO t VALUES ({gone}, 'x');\nSELECT nope;\nCOMMIT;\n"
    status, _, error = sql(*claim, stdin=lines)
    check("an error ends the input, and its transaction", status != 0 and "nope" in error, (status, error))
    check("what was committed is there, and nothing else", file.rows("SELECT k FROM t WHERE k IN (?, ?)", kept, gone) == [(kept,)])
    status, shown, _ = sql(stdin=".tables\n.schema t\n.mode json\nSELECT count(*) > 0 AS any FROM t;\n.quit\nSELECT nope;\n")
    check(
        "words with a point", status == 0 and "CREATE TABLE t(k" in shown and '[{"any":1}]' in shown and "termgate_fences" in shown, shown
    )
    file.seal("shell", 6)
    status, _, error = sql(*claim, "-c", f"UPDATE t SET v = 'late' WHERE k = {key}")
    check("a stale one is refused with the status of all commands", status == 3 and "TG001 stale term 5" in error, (status, error))
    status, _, error = sql("-c", "SELECT 1", to="http://127.0.0.1:1")
    check("nobody there", status != 0 and "127.0.0.1:1" in error, (status, error))
    for wrong in (["--scope", "shell", "-c", "SELECT 1"], ["-c", "SELECT 1", "--term", "x", "--scope", "s"], ["--token-file", "/nowhere"]):
        status, shown, error = sql(*wrong)
        check(f"wrong use: {wrong[0]}", status in (2, 9) and error and not shown, (status, shown, error))
    check("half a statement", sql(stdin="SELECT 1")[0] == 2)
