#!/usr/bin/env python3
"""A double of Consul's agent: sessions and the key-value store, made from its public documentation
(developer.hashicorp.com/consul/api-docs: session, kv, features/consistency) and compared with a real Consul 1.8.7:
exchanges.py plays the same requests to both. The suite itself also runs against that Consul (real_consul.sh).

Kept: one index for all changes (ModifyIndex), LockIndex counted per key, acquire and release by a session, the
session's TTL from 10 s to 86400 s, behaviour "release", 404 for what is not there. Time runs four times as fast for
sessions: a TTL of 10 s is 2.5 s.
"""
import base64
import json
import posixpath
import time
import urllib.parse
import uuid

from double import serve

FASTER = 4


def bump(state):
    state["index"] += 1
    return state["index"]


def invalidate(state, session):
    del state["sessions"][session]
    for entry in state["kv"].values():
        if entry.get("Session") == session:
            del entry["Session"]
            entry["ModifyIndex"] = bump(state)


def answer(state, method, path, query, body):
    now = time.time()
    for session, one in list(state["sessions"].items()):
        if one["until"] <= now:
            invalidate(state, session)
    parameters = urllib.parse.parse_qs(query, keep_blank_values=True)
    if method == "PUT" and path == "/v1/session/create":
        wanted = json.loads(body)
        ttl = int(wanted["TTL"].removesuffix("s"))
        if not 10 <= ttl <= 86400:
            return 500, f"Invalid Session TTL '{ttl}000000000', must be between [10s=24h0m0s]"
        session = str(uuid.uuid4())
        state["sessions"][session] = {"name": wanted["Name"], "ttl": ttl, "until": now + ttl / FASTER}
        bump(state)
        return 200, {"ID": session}
    if method == "PUT" and path.startswith("/v1/session/renew/"):
        one = state["sessions"].get(path.rsplit("/", 1)[1])
        if one is None:
            return 404, f"Session id '{path.rsplit('/', 1)[1]}' not found"
        one["until"] = now + one["ttl"] / FASTER
        return 200, [{"ID": path.rsplit("/", 1)[1], "Name": one["name"], "TTL": f"{one['ttl']}s", "Behavior": "release", "LockDelay": 0}]
    if method == "PUT" and path.startswith("/v1/session/destroy/"):
        if path.rsplit("/", 1)[1] in state["sessions"]:
            invalidate(state, path.rsplit("/", 1)[1])
        return 200, True
    if not path.startswith("/v1/kv/"):
        return 404, "no such page"
    # As the real one: what does not print is refused, and a path that is not clean is another path.
    plain = urllib.parse.unquote(path)
    if not plain.isprintable():
        return 400, None
    if posixpath.normpath(plain) != plain:
        return 301, f"Moved Permanently: {posixpath.normpath(plain)}"
    key = plain.removeprefix("/v1/kv/")
    entry = state["kv"].get(key)
    if method == "GET":
        if entry is None:
            return 404, None
        return 200, [{"Key": key, "Flags": 0, **entry}]
    if method == "PUT" and "acquire" in parameters:
        session = parameters["acquire"][0]
        if session not in state["sessions"]:
            return 500, f'invalid session "{session}"'
        if entry is not None and entry.get("Session") not in (None, session):
            return 200, False
        if entry is None:
            entry = state["kv"][key] = {"LockIndex": 0, "CreateIndex": state["index"] + 1}
        if entry.get("Session") == session and entry["Value"] == base64.b64encode(body).decode():
            return 200, True
        if entry.get("Session") != session:
            entry["LockIndex"] += 1
        entry.update(Session=session, Value=base64.b64encode(body).decode(), ModifyIndex=bump(state))
        return 200, True
    if method == "DELETE":
        state["kv"].pop(key, None)
        bump(state)
        return 200, True
    return 405, "method not allowed"


def delete(state, scope):
    state["kv"].pop("termgate/" + scope, None)
    bump(state)
    return True


serve(answer, delete, {"index": 10, "sessions": {}, "kv": {}})
