#!/usr/bin/env python3
"""What the doubles answer, compared with what real servers answered: every kind of request that the sources send to
Consul and Kubernetes, and what they can meet.

  exchanges.py                                  start each double and compare it with tests/sources/recorded/
  exchanges.py --record consul URL VERSION      ask a real server, and write what it answers there
  exchanges.py --record kubernetes URL VERSION

A row is an answer: its status and, where the request was granted, its JSON. What differs from run to run is written as
what matters of it: an identifier as "<id>", an index or version as "<higher>" or "<same>" than the last one. A double may
leave out what no source reads; it may say nothing that the real server did not.
"""
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
READ = {"consul": {"ID", "Value", "Session"}, "kubernetes": {"uid", "resourceVersion", "name", "spec"}}


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


# The certificate of a server that is recorded is nobody's.
WITHOUT_REDIRECTS = urllib.request.build_opener(NoRedirects, urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))


class Conversation:
    def __init__(self, url):
        self.url, self.steps, self.last = url.rstrip("/"), [], 0

    def ask(self, what, method, path, body=None):
        data = None if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get("TERMGATE_SOURCE_PASSWORD"):
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with WITHOUT_REDIRECTS.open(request, timeout=60) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        got = json.loads(text) if text and status < 300 else None
        self.steps.append({"what": what, "method": method, "status": status})
        if status < 300:
            self.steps[-1]["answer"] = self.plain(got)
        return got

    def plain(self, value, key=""):
        if isinstance(value, dict):
            return {name: self.plain(one, name) for name, one in value.items() if name != "managedFields"}
        if isinstance(value, list):
            return [self.plain(one, key) for one in value]
        if key in ("ModifyIndex", "resourceVersion"):
            before, self.last = self.last, max(self.last, int(value))
            return "<higher>" if int(value) > before else "<same>" if int(value) == before else "<lower>"
        if key in ("CreateIndex", "creationTimestamp"):
            return "<varies>"
        if isinstance(value, str):
            value = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", value)
            return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<time>", value)
        return value


def consul(talk):
    key = f"/v1/kv/exchanges/{uuid.uuid4()}"
    session = {"Name": "termgate x", "TTL": "600s", "LockDelay": "0s", "Behavior": "release"}
    one = talk.ask("a session", "PUT", "/v1/session/create", session)["ID"]
    two = talk.ask("another", "PUT", "/v1/session/create", session)["ID"]
    talk.ask("a TTL that is too short", "PUT", "/v1/session/create", {**session, "TTL": "5s"})
    talk.ask("a key that is not there", "GET", f"{key}?consistent")
    for path in ("%2E%2E", "%2E", "a%2F%2Fb", "a%2F%2E%2E%2Fb", "a%2F%2E%2Fb"):
        talk.ask(f"a path that is not clean, {path}", "GET", f"/v1/kv/exchanges/{path}?consistent")
    for path in ("%252E%252E", "a%252F%252Fb", "%2E%2E%2E", "a%3Fb%23c", "a%20b", "%D0%BA", "%25D0%25BA", "a%0Ab", "%E2%80%8B", "%7F"):
        talk.ask(f"another path, {path}", "GET", f"/v1/kv/exchanges/{path}?consistent")
    talk.ask("the lock", "PUT", f"{key}?acquire={one}", "first owner")
    talk.ask("the key, locked", "GET", f"{key}?consistent")
    talk.ask("the lock, of another session", "PUT", f"{key}?acquire={two}", "second owner")
    talk.ask("the key, as before", "GET", f"{key}?consistent")
    talk.ask("the lock again, by its own session", "PUT", f"{key}?acquire={one}", "first owner")
    talk.ask("the key, unchanged", "GET", f"{key}?consistent")
    talk.ask("a renewal", "PUT", f"/v1/session/renew/{one}", "")
    talk.ask("a renewal of what is not there", "PUT", f"/v1/session/renew/{uuid.uuid4()}", "")
    talk.ask("the lock, of a session that is not there", "PUT", f"{key}?acquire={uuid.uuid4()}", "x")
    talk.ask("the end of the session", "PUT", f"/v1/session/destroy/{one}", "")
    talk.ask("the key, unlocked, with a higher index", "GET", f"{key}?consistent")
    talk.ask("the end of what has ended", "PUT", f"/v1/session/destroy/{one}", "")
    talk.ask("the lock, now of the other session", "PUT", f"{key}?acquire={two}", "second owner")
    talk.ask("the key, locked again", "GET", f"{key}?consistent")
    talk.ask("the key is deleted", "DELETE", key)
    talk.ask("it is not there", "GET", f"{key}?consistent")
    talk.ask("the lock, of a key that is made again", "PUT", f"{key}?acquire={two}", "second owner")
    talk.ask("the key, whose index has not started again", "GET", f"{key}?consistent")
    talk.ask("the end of the other session", "PUT", f"/v1/session/destroy/{two}", "")


def kubernetes(talk):
    all_of_them = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    name = f"exchanges-{uuid.uuid4()}"
    one = f"{all_of_them}/{name}"
    now, later = (time.strftime(f"%Y-%m-%dT%H:%M:%S.00000{digit}Z", time.gmtime()) for digit in "12")

    def lease(metadata, **spec):
        spec = {"holderIdentity": "first owner", "leaseDurationSeconds": 10, "renewTime": now, **spec}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    new = {"name": name, "namespace": "default", "annotations": {"termgate.dev/scope": "a b"}}
    talk.ask("a lease that is not there", "GET", one)
    made = talk.ask("a new lease", "POST", all_of_them, lease(new, leaseTransitions=1, acquireTime=now))
    talk.ask("the same name again", "POST", all_of_them, lease(new, leaseTransitions=1))
    talk.ask("the lease", "GET", one)
    metadata = made["metadata"]
    talk.ask("a change that changes nothing", "PUT", one, lease(metadata, leaseTransitions=1, acquireTime=now))
    changed = talk.ask("a renewal", "PUT", one, lease(metadata, leaseTransitions=1, acquireTime=now, renewTime=later))
    talk.ask("a change made from an old version", "PUT", one, lease(metadata, leaseTransitions=2))
    talk.ask("the lease, as it was", "GET", one)
    metadata = changed["metadata"]
    talk.ask("a change made from another object", "PUT", one, lease({**metadata, "uid": str(uuid.uuid4())}, leaseTransitions=2))
    changed = talk.ask("another holder", "PUT", one, lease(metadata, holderIdentity="second owner", leaseTransitions=2, acquireTime=now))
    metadata = changed["metadata"]
    changed = talk.ask("a release", "PUT", one, lease(metadata, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=2))
    metadata = changed["metadata"]
    talk.ask("a duration of nothing", "PUT", one, lease(metadata, leaseDurationSeconds=0, leaseTransitions=3))
    talk.ask("transitions below 0", "PUT", one, lease(metadata, leaseTransitions=-1))
    talk.ask("the most transitions", "PUT", one, lease(metadata, leaseTransitions=2**31 - 1))
    talk.ask("the lease, before its end", "GET", one)
    talk.ask("the lease is deleted", "DELETE", one)
    talk.ask("a change of a lease that is deleted", "PUT", one, lease(metadata, leaseTransitions=3))
    talk.ask("it is not there", "GET", one)
    again = talk.ask("it is made again", "POST", all_of_them, lease(new, leaseTransitions=1))
    talk.ask("a change made from the deleted one", "PUT", one, lease(metadata, leaseTransitions=3))
    talk.ask("a change made from the new one", "PUT", one, lease(again["metadata"], leaseTransitions=2))
    other = {**new, "name": f"{name}-2"}
    talk.ask("a change of what was never there, without a version", "PUT", f"{one}-2", lease(other, leaseTransitions=7))
    talk.ask("a name that is none", "POST", all_of_them, lease({**new, "name": "Not_A_Name"}, leaseTransitions=1))


TALKS = {"consul": consul, "kubernetes": kubernetes}


def differences(service, double, real):
    found = []
    if [step["what"] for step in double] != [step["what"] for step in real]:
        return ["the recording has other steps: record it anew"]
    for ours, theirs in zip(double, real):
        if ours["status"] != theirs["status"]:
            found.append(f"{ours['what']}: status {ours['status']}, and really {theirs['status']}")
        elif ours["status"] < 300:
            compare(ours["what"], ours["answer"], theirs["answer"], READ[service], found)
    return found


def compare(where, ours, theirs, read, found):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key not in theirs:
                found.append(f"{where}: {key} is not in the real answer")
            else:
                compare(f"{where}, {key}", value, theirs[key], read, found)
        read = read | {"ModifyIndex"} if "Key" in theirs else read
        found.extend(f"{where}: {key} is missing" for key in theirs if key in read and key not in ours)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for one, other in zip(ours, theirs):
            compare(where, one, other, read, found)
    elif ours != theirs:
        found.append(f"{where}: {ours!r}, and really {theirs!r}")


def of_double(service):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([sys.executable, HERE / f"{service}_double.py", "--port", str(port), "--data", folder])
        try:
            for _ in range(1000):
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    time.sleep(0.05)
            talk = Conversation(f"http://127.0.0.1:{port}")
            TALKS[service](talk)
            return talk.steps
        finally:
            process.kill()
            process.wait()


def main():
    if sys.argv[1:2] == ["--record"]:
        service, url, version = sys.argv[2:5]
        talk = Conversation(url)
        TALKS[service](talk)
        rows = ",\n".join(map(json.dumps, talk.steps))
        (HERE / "recorded" / f"{service}.json").write_text(f'{{"server": {json.dumps(version)}, "exchanges": [\n{rows}\n]}}\n')
        return 0
    failed = False
    for path in sorted((HERE / "recorded").glob("*.json")):
        service, recorded = path.stem, json.loads(path.read_text())
        found = differences(service, of_double(service), recorded["exchanges"])
        failed = failed or bool(found)
        print(f"{service}: {len(recorded['exchanges'])} exchanges of {recorded['server']}, {len(found)} differences")
        for line in found:
            print("   ", line)
    return 1 if failed else 0


sys.exit(main())
