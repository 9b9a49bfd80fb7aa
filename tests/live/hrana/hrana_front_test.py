#!/usr/bin/env python3
# Long: a case for each thing that a client can meet.
"""[F1] [F2] [F4] The proxy in front of an SQLite file, over libSQL's protocol: each endpoint, each way to declare, each code; a
transaction that is lost is a status 400 wherever its client asks next; drain, moved files, tokens, rules, slow clients.

  pytest tests/live/hrana/hrana_front_test.py -k lost
"""
import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

import given
import hrana
from checks import captured, check, eventually
from hrana import CLOSE, execute, statement
from hrana_served import File, Served

SECRET = "app-token-of-20-letters"
READER = "view-token-of-20-letters"
GRACE = 1.0
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


def insert(client, key=None):
    return client.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT) if key is None else key)


def seal(file, scope, term):
    subprocess.run(
        [given.TERMGATE, "seal", "--db", f"sqlite:{file.path}", "--scope", scope, "--term", str(term)], check=True, capture_output=True
    )


# --- endpoints


def test_each_endpoint_answers_as_its_version_does(front, file):
    client, key = front.client("tg.5.endpoints."), next(NEXT)
    for path in ("/v2/pipeline", "/v3/pipeline"):
        status, body = client.v2(execute("SELECT 1 AS one"), CLOSE, path=path)
        check(path, status == 200 and hrana.rows(body["results"][0]["response"]["result"]) == [(1,)] and body["baton"] is None, body)
    status, lines = client.cursor({"stmt": statement("INSERT INTO t VALUES (?, 'cursor') RETURNING k", key)})
    kinds = [line.get("type", "head") for line in lines]
    check("/v3/cursor", status == 200 and kinds == ["head", "step_begin", "row", "step_end", "replication_index"], lines)
    check("its row is there", file.rows(f"SELECT v FROM t WHERE k = {key}") == [("cursor",)])
    status, body = client.post("/", {"statements": ["SELECT 1 AS a", {"q": "SELECT ? AS b", "params": [2]}]})
    check("/", status == 200 and [one["results"]["rows"] for one in body] == [[[1]], [[2]]], body)
    status, body = client.post("/v1/execute", {"stmt": statement("SELECT 3")})
    check("/v1/execute", status == 200 and hrana.rows(body["result"]) == [(3,)], body)
    status, body = client.post("/v1/batch", {"batch": {"steps": [{"stmt": statement("SELECT 4")}]}})
    check("/v1/batch", status == 200 and hrana.rows(body["result"]["step_results"][0]) == [(4,)], body)


@pytest.mark.parametrize("protocol", ("hrana3", "hrana2", "hrana1", None))
def test_a_websocket_speaks_each_version(front, file, protocol):
    ws, key = hrana.WebSocket(front.port, protocol), next(NEXT)
    assert ws.status == 101
    check("it chooses the protocol", protocol is None or f"Sec-WebSocket-Protocol: {protocol}".lower() in ws.head.decode().lower(), ws.head)
    ws.send({"type": "hello", "jwt": "tg.5.sockets."})
    check("hello", ws.receive() == {"type": "hello_ok"})
    check("open", ws.ask({"type": "open_stream", "stream_id": 1})["type"] == "response_ok")
    answer = ws.ask({"type": "execute", "stream_id": 1, "stmt": statement("INSERT INTO t VALUES (?, 'ws')", key)})
    check("execute", answer["type"] == "response_ok" and answer["response"]["result"]["affected_row_count"] == 1, answer)
    check("its row is there", file.rows(f"SELECT v FROM t WHERE k = {key}") == [("ws",)])


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


def test_a_connection_is_kept_and_its_requests_are_answered_in_order(front):
    client = front.client()
    client.sql("SELECT 1")
    first = client.connection.sock
    for number in range(50):
        check("the answer is this request's", client.sql("SELECT ?", number) == [(number,)])
    check("one connection", client.connection.sock is first)
    check("the client is to let go first", "timeout=" in (client.answer.headers["Keep-Alive"] or ""), client.answer.headers)


# --- scope and term


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


def tilde(scope):
    return "~" + base64.urlsafe_b64encode(scope.encode()).rstrip(b"=").decode()


WAYS = {
    "token": lambda front, scope, term: front.client(f"tg.{term}.{tilde(scope)}."),
    "headers": lambda front, scope, term: front.client(headers={"Termgate-Scope": scope.replace(" ", "%20"), "Termgate-Term": str(term)}),
    "headers over a token": lambda front, scope, term: front.client(
        "tg.1.other.", {"Termgate-Scope": scope.replace(" ", "%20"), "Termgate-Term": str(term)}
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_declare_writes_and_is_refused_when_it_is_stale(front, file, way):
    scope = f"by {way}"
    client = WAYS[way](front, scope, 5)
    check("it writes", code(lambda: insert(client)) is None)
    seal(file, scope, 6)
    check("stale", code(lambda: insert(client)) == (200, "TG001"))
    check("stale at BEGIN IMMEDIATE", code(lambda: client.sql("BEGIN IMMEDIATE")) == (200, "TG001"))
    check("reading goes on", client.sql("SELECT count(*) FROM t")[0][0] > 0)
    check("the next term writes", code(lambda: insert(WAYS[way](front, scope, 6))) is None)


def test_a_declaration_by_sql_holds_to_the_streams_end(front, file):
    stream = front.client().stream()
    stream.sql("SELECT termgate_declare('by sql', 5)")
    check("the stream is kept", stream.baton is not None)
    stream.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT))
    seal(file, "by sql", 6)
    check("stale", code(lambda: stream.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT))) == (200, "TG001"))
    stream.sql("SELECT termgate_declare('by sql', 6)")
    stream.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT))
    check("another stream has none", code(lambda: insert(front.client())) == (200, "TG002"))


def test_a_write_without_a_term_is_refused_by_every_endpoint(front):
    client, before = front.client(), front.client().sql("SELECT count(*) FROM t")
    write = "INSERT INTO t VALUES (-1, 'x')"
    check("execute", code(lambda: client.sql(write)) == (200, "TG002"))
    check("sequence", code(lambda: client.stream().run({"type": "sequence", "sql": write})) == (200, "TG002"))
    _, body = client.v2({"type": "batch", "batch": {"steps": [{"stmt": statement(write)}]}}, CLOSE)
    check("batch", body["results"][0]["response"]["result"]["step_errors"][0]["code"] == "TG002", body)
    _, lines = client.cursor({"stmt": statement(write)})
    check("cursor", any(line.get("type") == "step_error" and line["error"]["code"] == "TG002" for line in lines), lines)
    for path, request in (("/", {"statements": [write]}), ("/v1/execute", {"stmt": statement(write)})):
        status, body = client.post(path, request)
        check(path, status == 400 and "TG002" in json.dumps(body), body)
    check("nothing was written", client.sql("SELECT count(*) FROM t") == before)


@pytest.mark.parametrize(
    "headers",
    (
        {"Termgate-Scope": "a"},
        {"Termgate-Term": "5"},
        {"Termgate-Scope": "a", "Termgate-Term": "05"},
        {"Termgate-Scope": "50%", "Termgate-Term": "5"},
        {"Authorization": "Bearer tg.0.a."},
        {"Authorization": "Bearer tg.5.a"},
    ),
)
def test_a_malformed_declaration_is_tg005_and_never_no_term(front, headers):
    status, body = front.client(headers=headers).v2(execute("SELECT 1"), CLOSE)
    check("TG005", status == 400 and body["code"] == "TG005" and body["message"].startswith("TG005 "), body)


def test_another_claim_in_a_transaction_is_tg005(front):
    stream = front.client("tg.5.first.").stream()
    stream.sql("BEGIN IMMEDIATE")
    stream.client = front.client("tg.5.second.")
    check("TG005", code(lambda: stream.sql("INSERT INTO t VALUES (?, 'x')", next(NEXT))) == (200, "TG005"))
    stream.sql("ROLLBACK")


def test_a_lock_that_another_process_keeps_is_tg006(front, file):
    db = file.open()
    db.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    check("TG006", code(lambda: insert(front.client("tg.5.blocked."))) == (200, "TG006"))
    check("after the time to wait", 4 < time.monotonic() - began < 8, time.monotonic() - began)
    db.rollback()
    db.close()


# --- lost transactions


def lost_stream(front, file, scope):
    """A stream whose transaction has just been ended for a higher term; its key is in no row."""
    stream, key = front.client(f"tg.5.{scope}.").stream(), next(NEXT)
    stream.sql("BEGIN IMMEDIATE")
    stream.sql("INSERT INTO t VALUES (?, 'lost')", key)
    insert(front.client(f"tg.6.{scope}."))
    return stream, key


NEXT_REQUESTS = {
    "execute": lambda s: s.run(execute("INSERT INTO t VALUES (0, 'after')")),
    "commit": lambda s: s.run(execute("COMMIT")),
    "batch": lambda s: s.run({"type": "batch", "batch": {"steps": [{"stmt": statement("COMMIT")}]}}),
    "sequence": lambda s: s.run({"type": "sequence", "sql": "COMMIT"}),
    "describe": lambda s: s.run({"type": "describe", "sql": "SELECT 1"}),
    "autocommit": lambda s: s.run(hrana.AUTOCOMMIT),
    "store": lambda s: s.run({"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"}),
    "close": lambda s: s.run(CLOSE),
    "nothing": lambda s: s.run(),
}


@pytest.mark.parametrize("request_name", NEXT_REQUESTS)
def test_a_lost_transaction_is_status_400_whatever_is_asked_next(front, file, request_name):
    stream, key = lost_stream(front, file, f"lost-{request_name}")
    check("400", code(lambda: NEXT_REQUESTS[request_name](stream)) == (400, "TG001"))
    check("and again", (code(lambda: stream.run(execute("SELECT 1"))) or (None,))[0] == 400)
    check("nothing of it is there", file.rows(f"SELECT * FROM t WHERE k IN (0, {key})") == [])


def test_a_lost_transaction_is_status_400_for_a_cursor_and_for_version_3(front, file):
    stream, _ = lost_stream(front, file, "lost-cursor")
    status, _ = stream.client.cursor({"stmt": statement("COMMIT")}, baton=stream.baton)
    check("cursor", status == 400)
    stream, _ = lost_stream(front, file, "lost-v3")
    stream.path = "/v3/pipeline"
    check("v3", code(lambda: stream.sql("COMMIT")) == (400, "TG001"))


def test_a_lost_transaction_of_a_websocket_fails_each_request(front, file):
    ws, key = hrana.WebSocket(front.port), next(NEXT)
    ws.send({"type": "hello", "jwt": "tg.5.lost-ws."})
    ws.receive()
    ws.ask({"type": "open_stream", "stream_id": 1})
    for sql in ("BEGIN IMMEDIATE", f"INSERT INTO t VALUES ({key}, 'lost')"):
        answer = ws.ask({"type": "execute", "stream_id": 1, "stmt": statement(sql)})
        assert answer["type"] == "response_ok", answer
    insert(front.client("tg.6.lost-ws."))
    for sql in ("INSERT INTO t VALUES (0, 'after')", "COMMIT", "SELECT 1"):
        answer = ws.ask({"type": "execute", "stream_id": 1, "stmt": statement(sql)})
        check(sql, answer["type"] == "response_error" and answer["error"]["code"] == "TG001", answer)
    check("nothing of it is there", file.rows(f"SELECT * FROM t WHERE k IN (0, {key})") == [])


def test_a_frozen_holder_is_evicted_within_the_grace(front, file):
    for state in ("begun", "written", "read first"):
        stream = front.client(f"tg.5.frozen-{state.replace(' ', '')}.").stream()
        stream.sql("BEGIN" if state == "read first" else "BEGIN IMMEDIATE")
        if state == "read first":
            stream.sql("SELECT count(*) FROM t")
        if state != "begun":
            stream.sql("INSERT INTO t VALUES (?, 'frozen')", next(NEXT))
        began = time.monotonic()
        insert(front.client(f"tg.6.frozen-{state.replace(' ', '')}."))
        took = time.monotonic() - began
        check(f"{state}: within the grace", took < GRACE + 0.5, took)
        check(f"{state}: lost", code(lambda: stream.sql("COMMIT")) == (400, "TG001"))


def test_a_holder_who_is_silent_while_others_wait_is_ended(front):
    stream = front.client("tg.5.silent.").stream()
    stream.sql("BEGIN IMMEDIATE")
    began = time.monotonic()
    insert(front.client("tg.5.other."))
    took = time.monotonic() - began
    check("after three seconds", 2.5 < took < 4.5, took)
    check("lost", code(lambda: stream.sql("COMMIT"))[0] == 400)


def test_silence_in_a_transaction_ends_it(lab, file):
    front = Served(lab, file.path, "--transaction-idle-timeout", "1s")
    stream = front.client("tg.5.quiet.").stream()
    stream.sql("BEGIN")
    stream.sql("SELECT count(*) FROM t")
    time.sleep(2)
    check("lost", code(lambda: stream.sql("COMMIT")) == (400, "TRANSACTION_TIMEOUT"))
    stream = front.client().stream()
    stream.run({"type": "store_sql", "sql_id": 1, "sql": "SELECT 1"})
    time.sleep(2)
    check("a stream without a transaction does not expire", code(lambda: stream.sql("SELECT 1")) is None)
    check("it ends at once", seconds_to_stop(front) < 5)


def test_a_baton_is_good_once(front):
    stream = front.client("tg.5.once.").stream()
    stream.sql("BEGIN")
    used = stream.baton
    stream.sql("SELECT 1")
    status, body = stream.client.v2(execute("SELECT 1"), baton=used)
    check("reused", (status, body["code"]) == (400, "BATON_REUSED"), body)
    check("its stream lives on", code(lambda: stream.sql("ROLLBACK")) is None)
    status, body = stream.client.v2(execute("SELECT 1"), baton="x" * 43)
    check("unknown", (status, body["code"]) == (400, "STREAM_EXPIRED"), body)


def test_the_end_of_a_connection_stops_its_statement(front):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    client = front.client()
    body = json.dumps({"requests": [execute(endless)]}).encode()
    client.connection.connect()
    client.connection.sock.sendall(b"POST /v2/pipeline HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    cpu = lambda: sum(int(word) for word in open(f"/proc/{front.process.pid}/stat").read().split()[13:15])  # noqa: E731
    started = cpu()
    assert eventually(lambda: cpu() > started + 10, 20), "it runs"
    client.connection.close()

    def rests():
        before = cpu()
        time.sleep(0.5)
        return cpu() - before < 10

    check("it has stopped", eventually(rests, 10))


# --- operation


def test_a_drain_lets_a_transaction_end_and_begins_nothing(lab, file):
    front, key = Served(lab, file.path, "--drain-timeout", "20s"), next(NEXT)
    stream, other = front.client("tg.5.drain.").stream(), front.client("tg.5.drain.")
    stream.sql("BEGIN IMMEDIATE")
    stream.sql("INSERT INTO t VALUES (?, 'drained')", key)
    other.sql("SELECT 1")
    front.process.send_signal(signal.SIGTERM)
    check("not ready", eventually(lambda: other.raw("GET", "/readyz")[0] == 503))
    check("nothing new", code(lambda: other.sql("SELECT 1")) == (503, "SERVER_BUSY"))
    check("the transaction commits", code(lambda: stream.sql("COMMIT")) is None)
    front.process.wait(5)
    check("status 0", front.process.returncode == 0)
    check("its row is there", file.rows(f"SELECT v FROM t WHERE k = {key}") == [("drained",)])


def test_a_drain_ends_what_does_not_end_and_closes_websockets(lab, file):
    front, key = Served(lab, file.path, "--drain-timeout", "1s"), next(NEXT)
    stream = front.client("tg.5.drain.").stream()
    stream.sql("BEGIN IMMEDIATE")
    stream.sql("INSERT INTO t VALUES (?, 'x')", key)
    ws = hrana.WebSocket(front.port)
    ws.send({"type": "hello", "jwt": None})
    ws.receive()
    took = seconds_to_stop(front)
    check("in time", took < 4, took)
    check("1001", ws.receive() is None and ws.closed == 1001, ws.closed)
    check("nothing of it is there", file.rows(f"SELECT v FROM t WHERE k = {key}") == [])


def test_a_moved_file_loses_transactions_and_its_successor_is_served(lab):
    moved = File(lab, "t(k INTEGER PRIMARY KEY, v)", name="moved.db")
    front = Served(lab, moved.path)
    stream = front.client("tg.5.moved.").stream()
    stream.sql("BEGIN IMMEDIATE")
    stream.sql("INSERT INTO t VALUES (1, 'x')")
    shutil.copy(moved.path, moved.path + ".new")
    os.rename(moved.path, moved.path + ".old")
    os.rename(moved.path + ".new", moved.path)
    check(
        "lost",
        eventually(lambda: code(lambda: front.client().v2()) is None) and code(lambda: stream.sql("COMMIT")) == (400, "DATABASE_MOVED"),
    )
    check("ready again", eventually(lambda: front.client().raw("GET", "/readyz")[0] == 200))
    check(
        "it writes into the new one",
        eventually(lambda: code(lambda: front.client("tg.5.moved.").sql("INSERT INTO t VALUES (2, 'y')")) is None),
    )
    check("and there alone", moved.rows("SELECT k FROM t") == [(2,)])


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
    seal(file, "signed", 6)
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


# --- rules


def test_a_rule_gives_a_term_that_the_client_cannot_change(lab, file):
    rules = f"{lab.folder}/rules"
    with open(rules, "w") as text:
        text.write("[rule fixed]\napplication = fixed\nscope = by-rule\nterm = 5\n\n[rule shut]\napplication = shut\nrefuse = not here\n")
    front = Served(lab, file.path, "--rules", rules)
    client = front.client("tg.9.other.", {"Termgate-Application": "fixed"})
    check("it writes", code(lambda: insert(client)) is None)
    seal(file, "by-rule", 6)
    check("stale", code(lambda: insert(client)) == (200, "TG001"))
    check("refused", front.client(headers={"Termgate-Application": "shut"}).v2()[0] == 403)
    check("who has no rule declares", code(lambda: insert(front.client("tg.9.other."))) is None)
    with open(rules, "w") as text:
        text.write("[rule fixed]\napplication = fixed\nscope = by-rule\nterm = 6\n")
    check("reloaded", "reloaded" in front.reload())
    check("the new term", code(lambda: insert(client)) is None)
    with open(rules, "w") as text:
        text.write("[rule fixed]\ndatabase = app\nscope = by-rule\nterm = 6\n")
    check("a rule with a database", "database" in front.reload() and "reload_failed" in front.log())


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
    write(rules, good.replace("term = 5", "term = none at all"))
    check("wrong rules", "reload_failed" in front.reload())
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
    check("others are served", code(lambda: front.client().sql("SELECT 1")) is None)
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


def test_many_writers_at_once_all_write(front, file):
    before = file.rows("SELECT count(*) FROM t")[0][0]

    def write():
        client = front.client("tg.5.many.")
        for _ in range(10):
            key = next(NEXT)
            # TG006: the disk was busy for longer than a check waits. Nothing was written, so it is sent again.
            while code(lambda: insert(client, key)) == (200, "TG006"):
                pass

    threads = [threading.Thread(target=write) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("all are there", file.rows("SELECT count(*) FROM t")[0][0] == before + 320)


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
    seal(file, "shell", 6)
    status, _, error = sql(*claim, "-c", f"UPDATE t SET v = 'late' WHERE k = {key}")
    check("a stale one is refused with the status of all commands", status == 3 and "TG001 stale term 5" in error, (status, error))
    status, _, error = sql("-c", "SELECT 1", to="http://127.0.0.1:1")
    check("nobody there", status != 0 and "127.0.0.1:1" in error, (status, error))
    for wrong in (["--scope", "shell", "-c", "SELECT 1"], ["-c", "SELECT 1", "--term", "x", "--scope", "s"], ["--token-file", "/nowhere"]):
        status, shown, error = sql(*wrong)
        check(f"wrong use: {wrong[0]}", status in (2, 9) and error and not shown, (status, shown, error))
    check("half a statement", sql(stdin="SELECT 1")[0] == 2)
