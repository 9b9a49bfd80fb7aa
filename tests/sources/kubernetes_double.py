#!/usr/bin/env python3
"""A double of the Kubernetes API server for Lease objects (coordination.k8s.io/v1), as far as the public documentation
gives it (kubernetes.io/docs: reference/kubernetes-api, reference/using-api/api-concepts). Debian has no API server,
so the source has not run against a real one.

Kept: metadata.uid of each object that is created, metadata.resourceVersion that changes with each change, 409 for an
update made from another resourceVersion and for a create of what is there, 404, and the checks of names,
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
    wanted = json.loads(body)
    name = name or wanted["metadata"]["name"]
    if why := problem(wanted, name):
        return status(422, "Invalid", f'Lease.coordination.k8s.io "{name}" is invalid: {why}')
    state["version"] += 1
    if method == "POST":
        if name in leases:
            return status(409, "AlreadyExists", f'leases.coordination.k8s.io "{name}" already exists')
        wanted["metadata"].update(uid=str(uuid.uuid4()), resourceVersion=str(state["version"]), creationTimestamp="2026-01-01T00:00:00Z")
        leases[name] = wanted
        return 201, wanted
    if method == "PUT":
        if name not in leases:
            return status(404, "NotFound", f'leases.coordination.k8s.io "{name}" not found')
        now = leases[name]["metadata"]
        if wanted["metadata"].get("resourceVersion") != now["resourceVersion"] or wanted["metadata"].get("uid", now["uid"]) != now["uid"]:
            return status(
                409, "Conflict", f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": the object has been modified'
            )
        wanted["metadata"] = {**now, "resourceVersion": str(state["version"])}
        leases[name] = wanted
        return 200, wanted
    return status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def delete(state, scope):
    for leases in state["leases"].values():
        for name, lease in list(leases.items()):
            if lease["metadata"].get("annotations", {}).get("termgate.dev/scope") == scope:
                del leases[name]
    return True


serve(answer, delete, {"version": 100, "leases": {}})
