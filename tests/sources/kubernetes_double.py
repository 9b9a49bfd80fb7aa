#!/usr/bin/env python3
"""A double of the Kubernetes API server for Lease objects (coordination.k8s.io/v1), made from its public documentation
(kubernetes.io/docs: reference/kubernetes-api, reference/using-api/api-concepts) and compared with a real API server,
1.20.2: exchanges.py plays the same requests to both. kubernetes_server.sh runs a real one.

Kept: metadata.uid of each object that is created, metadata.resourceVersion that changes with each change, 409 for an
update made from another resourceVersion or object and for a create of what is there, 404, and the checks of names,
leaseDurationSeconds (above 0) and leaseTransitions (not below 0, 32 bits). Errors are Status objects.
"""
import json
import re
import uuid

from double import serve

COLLECTION = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/([a-z0-9-]+)/leases(?:/([^/]+))?")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def status(code, reason, message):
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def problem(wanted, name):
    spec = wanted.get("spec", {})
    if wanted.get("apiVersion") != "coordination.k8s.io/v1" or wanted.get("kind") != "Lease":
        return "the API version in the data does not match the expected API version"
    if wanted["metadata"].get("name") != name or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) or len(name) > 253:
        return "metadata.name: Invalid value"
    if spec.get("leaseDurationSeconds", 1) <= 0:
        return "spec.leaseDurationSeconds: Invalid value: must be greater than 0"
    if not 0 <= spec.get("leaseTransitions", 0) < 2**31:
        return "spec.leaseTransitions: Invalid value"
    for key in ("renewTime", "acquireTime"):
        if key in spec and not MICRO_TIME.fullmatch(spec[key]):
            return f"spec.{key}: Invalid value: no MicroTime"
    return None


def answer(state, method, path, query, body):
    found = COLLECTION.fullmatch(path)
    if not found:
        return status(404, "NotFound", "the server could not find the requested resource")
    namespace, name = found.groups()
    leases = state["leases"].setdefault(namespace, {})
    if method == "GET" and name:
        if name not in leases:
            return status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        return 200, leases[name]
    if method == "DELETE":
        if name not in leases:
            return status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        del leases[name]
        return 200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    wanted = json.loads(body)
    name = name or wanted["metadata"]["name"]
    if why := problem(wanted, name):
        return status(422, "Invalid", f'Lease.coordination.k8s.io "{name}" is invalid: {why}')
    conflict = status(
        409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": the object has been modified'
    )
    now, given = leases.get(name, {}).get("metadata", {}), wanted["metadata"]
    if method == "POST" and now:
        return status(409, "AlreadyExists", f'leases.coordination.k8s.io "{name}" already exists')
    if method not in ("POST", "PUT"):
        return status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    # A change of what is not there makes it, unless it names the object that it was made from.
    if not now and given.get("uid"):
        return conflict
    if not now:
        state["version"] += 1
        wanted["metadata"] = {**given, "uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z"}
        wanted["metadata"]["resourceVersion"] = str(state["version"])
        leases[name] = wanted
        return 201, wanted
    if given.get("uid", now["uid"]) != now["uid"] or given.get("resourceVersion") != now["resourceVersion"]:
        return conflict
    # What changes nothing is no change.
    if wanted["spec"] != leases[name]["spec"]:
        state["version"] += 1
        leases[name] = {**wanted, "metadata": {**now, "resourceVersion": str(state["version"])}}
    return 200, leases[name]


def delete(state, scope):
    for leases in state["leases"].values():
        for name, lease in list(leases.items()):
            if lease["metadata"].get("annotations", {}).get("termgate.dev/scope") == scope:
                del leases[name]
    return True


serve(answer, delete, {"version": 100, "leases": {}})
