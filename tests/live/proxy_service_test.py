#!/usr/bin/env python3
"""The proxy as a service that somebody runs: drain, reload, descriptors that run out, systemd, HTTP, limits, certificates, Unix sockets, IPv6, two on one port.

Usage: proxy_service_test.py TERMGATE PG_SERVER_SH [PART ...]   (parts: the functions below that have a server as argument)
"""
import os
import re
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from proxy_lab import (SANITIZED, SYNC, Lab, Refused, Wire, bind, declared, eventually, execute, fields, message, parse, query, refusal)

lab = Lab("service", sys.argv[1], sys.argv[2])
check = lab.check


def ended_within(process, seconds):
    """How long the process still ran, or None."""
    began = time.monotonic()
    try:
        process.wait(seconds)
        return time.monotonic() - began
    except subprocess.TimeoutExpired:
        return None


def drain(server):
    server.sql("create table if not exists drained(i int)")
    holder = Wire(server.port)
    for name, prelude, sent in (
            ("a statement", [], query("insert into drained values (2)")),
            ("a statement in a transaction", ["begin"], query("insert into drained values (2)")),
            ("a thousand statements", [], query("insert into drained values (2)") * 1000),
            ("a large statement half sent", [], query("insert into drained values (2)") + query("select '" + "x" * 3_000_000 + "'")[:2_000_000]),
            ("an extended statement", [], parse("", "insert into drained values (2)") + bind("", "") + execute() + SYNC)):
        for kind, parameters in (("declared", declared("drain", 7)), ("undeclared", {})):
            proxy = lab.proxy(server.url, "--drain-timeout", "10s", "--without-term", "allow")
            holder.ask("begin")
            holder.ask("lock table drained")
            dead = Wire(proxy.port, **parameters)
            for sql in prelude:
                dead.ask(sql)
            dead.socket.settimeout(0.5)
            try:
                dead.send(sent)
            except TimeoutError:
                pass
            time.sleep(0.3)
            dead.close()
            time.sleep(0.2)
            proxy.process.send_signal(signal.SIGTERM)
            took = ended_within(proxy.process, 20)
            check(f"drain: a dead client with {name} waiting, {kind}, does not hold it up", took is not None and took < 3, f"{took} s; {proxy.log()}")
            holder.ask("rollback")
    holder.close()

    proxy = lab.proxy(server.url, "--drain-timeout", "4s")
    idle, busy, endless, slow = (Wire(proxy.port) for _ in range(4))
    for one in (busy, endless):
        one.ask("begin")
    slow.send(query("select pg_sleep(1.5), 'done'"))
    began = time.monotonic()
    proxy.process.send_signal(signal.SIGTERM)
    told = refusal(lambda: idle.until("Z"))
    check("drain: an idle session is told", told and told["C"] == "57P01", told)
    check("drain: an open transaction goes on", busy.ask("select 4")[0] == ["4"])
    busy.send(query("commit"))
    kinds = []
    told = None
    try:
        while True:
            kind, body = busy.message()
            kinds.append(kind)
            told = fields(body) if kind == "E" else told
    except Refused:
        pass
    check("drain: its COMMIT is answered, and then it is told", kinds[:1] == ["C"] and told and told["C"] == "57P01", (kinds, told))
    rows = None
    try:
        rows, _ = slow.until("C")
    except Refused as refused:
        rows = refused.args
    check("drain: a statement under way is answered", rows == [""] and time.monotonic() - began > 1, rows)
    told = refusal(lambda: endless.until("Z"))
    passed = time.monotonic() - began
    check("drain: one that waits without end is told at the limit", told and told["C"] == "57P01" and "--drain-timeout" in told["M"] and 3.5 < passed < 6, (passed, told))
    check("drain: and the status is 0", ended_within(proxy.process, 5) is not None and proxy.process.returncode == 0)
    check("drain: the server has nobody left", eventually(lambda: server.sql("select count(*) from pg_stat_activity where backend_type = 'client backend'") == ["1"]))

    # A client that does not read its answers is in the way no longer than the limit and its last words' time.
    proxy = lab.proxy(server.url, "--drain-timeout", "1s")
    deaf = Wire(proxy.port, receive_buffer=4096)
    deaf.send(query("select repeat('x', 1000) from generate_series(1, 100000)"))
    time.sleep(0.5)
    proxy.process.send_signal(signal.SIGTERM)
    took = ended_within(proxy.process, 20)
    check("drain: a client that reads nothing is cut", took is not None and took < 8, took)


def reload(server):
    rules, config = f"{lab.folder}/rules", f"{lab.folder}/reload.conf"
    ca = lab.certificate("reload-ca")
    pair = lab.certificate("reload", "DNS:localhost", ca)

    def write(path, text):
        with open(path, "w") as file:
            file.write(text)

    def refused_message():
        error = refusal(lambda: Wire(proxy.port).close())
        return error and error["M"]

    write(rules, "[rule old]\nrefuse = the old rules\n")
    write(config, "max-connections = 7\n")
    proxy = lab.proxy(server.url, "--rules", rules, "--config", config, "--client-tls-cert", pair[1], "--client-tls-key", pair[0])
    check("reload: the first rules are in force", "the old rules" in (refused_message() or ""))
    write(rules, "[rule broken\nrefuse = never\n")
    write(config, "max-connections = 5\n")
    said = proxy.reload()
    check("reload: broken rules are named with file and line", "reload_failed" in said and "rules:1" in said, said)
    check("reload: broken rules leave the old ones", "the old rules" in (refused_message() or ""))
    check("reload: broken rules leave the limits of before too", proxy.metric("termgate_connections_limit") == 7)
    write(rules, "[rule new]\nrefuse = the new rules\n")
    write(config, "max-connections = 5\nclient-tls-cert = /nowhere/cert.pem\n")
    said = proxy.reload()
    check("reload: the command line wins over the file", " reloaded" in said and "the new rules" in (refused_message() or ""), said)
    write(rules, "[rule newer]\nrefuse = the newer rules\n")
    os.rename(pair[1], pair[1] + ".away")
    said = proxy.reload()
    check("reload: a missing certificate is named", "reload_failed" in said and pair[1] in said, said)
    check("reload: a missing certificate leaves the old rules too", "the new rules" in (refused_message() or ""))
    os.rename(pair[1] + ".away", pair[1])
    other = lab.certificate("reload-other", "DNS:localhost", ca)
    with open(other[0]) as key, open(pair[0]) as old:
        kept, others = old.read(), key.read()
    write(pair[0], others)
    said = proxy.reload()
    check("reload: a key of another certificate is refused", "reload_failed" in said, said)
    write(pair[0], kept)
    os.remove(rules)
    said = proxy.reload()
    check("reload: missing rules are named", "reload_failed" in said and rules in said, said)
    check("reload: missing rules let nobody in", "the new rules" in (refused_message() or ""))
    write(rules, "[rule open]\nuser = postgres\n")
    check("reload: then all is well", " reloaded" in proxy.reload() and refused_message() is None and proxy.metric("termgate_connections_limit") == 5)
    check("reload: ends cleanly", proxy.stop() == 0)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        parts = file.read().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(server):
    proxy = lab.proxy(server.url, "--greeting-timeout", "60s", before=("sh", "-c", 'ulimit -n 64; exec "$@"', "sh"))
    with open(f"/proc/{proxy.process.pid}/limits") as file:
        check("descriptors: there are 64", re.search(r"Max open files\s+64\s+64", file.read()))
    check("descriptors: the limits are lowered, and it is said", "limits_lowered" in proxy.log() and 4 <= proxy.metric("termgate_connections_limit") <= 64, proxy.log())
    first = Wire(proxy.port)
    # HTTP keeps its connections open: with them the descriptors run out for good, whatever the clients' limits are.
    web = [socket.create_connection(("127.0.0.1", proxy.http)) for _ in range(60)]
    flood = []
    for _ in range(200):
        one = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
        one.setblocking(False)
        flood.append(one)
    time.sleep(1)
    before, began = cpu_seconds(proxy.process.pid), time.monotonic()
    time.sleep(3)
    spent = (cpu_seconds(proxy.process.pid) - before) / (time.monotonic() - began)
    check("descriptors: no busy loop while the flood stands", spent < (0.5 if SANITIZED else 0.15), f"{spent:.2f} of a core")
    print(f"     {spent * 100:.1f} % of a core under the flood, {len(os.listdir(f'/proc/{proxy.process.pid}/fd'))} descriptors")
    check("descriptors: who is in is not touched", first.ask("select 5")[0] == ["5"])
    told = closed = 0
    for one in flood:
        try:
            data = one.recv(4096)
            told, closed = told + (b"C53300\0" in data), closed + (data == b"")
        except BlockingIOError:
            pass
        except ConnectionError:
            closed += 1
    check("descriptors: those over the limit are told", told > 20, f"{told} told, {closed} closed without a word, of {len(flood)}")
    lines = [line for line in proxy.log().splitlines() if "accept_failed" in line or "limit_met" in line]
    check("descriptors: the log says so at most once a second", 1 <= len(lines) <= 14, f"{len(lines)} lines")
    check("descriptors: the log names the limit", any("RLIMIT_NOFILE" in line for line in lines), lines)
    for one in flood + web:
        one.close()

    def in_service():
        return refusal(lambda: Wire(proxy.port, timeout=3).close()) is None

    check("descriptors: service is back after the flood", eventually(in_service, 10, 0.2))
    check("descriptors: and HTTP", proxy.get("/readyz")[0] == 200 and proxy.metric('termgate_connections_refused_total{limit="descriptors"}') > 0)
    left = len(os.listdir(f"/proc/{proxy.process.pid}/fd"))
    check("descriptors: none is lost", eventually(lambda: len(os.listdir(f"/proc/{proxy.process.pid}/fd")) < 40), left)
    first.close()
    proxy.stop()


PARTS = [drain, reload, descriptors]


def main():
    wanted = [part for part in PARTS if part.__name__ in sys.argv[3:]] or PARTS
    server = lab.server("15", "max_connections=300")
    for part in wanted:
        part(server)


status = 1
try:
    main()
finally:
    status = lab.conclude()
sys.exit(status)
