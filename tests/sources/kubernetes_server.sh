#!/usr/bin/env bash
# A real API server of Kubernetes with an etcd of its own, for the suite of the sources: TERMGATE_KUBE_APISERVER names the program (1.20 was run).
# Nothing else of a cluster runs. The token is "token".
#   kubernetes_server.sh run FOLDER PORT ETCD_PORT PEER_PORT   FOLDER/data is etcd's; the certificate is FOLDER/certs/apiserver.crt
#   kubernetes_server.sh delete PORT SCOPE                     deletes the Lease of a scope, as an operator does
set -euo pipefail
case "$1" in
  run)
    folder=$2 port=$3 etcd=$4 peer=$5
    mkdir -p "$folder/data"
    [ -e "$folder/account.key" ] || openssl genrsa -out "$folder/account.key" 2048 2>/dev/null
    echo 'token,operator,1,system:masters' >"$folder/tokens"
    echo token >"$folder/token"
    setpriv --pdeathsig KILL etcd --data-dir "$folder/data/etcd" --listen-client-urls "http://127.0.0.1:$etcd" --advertise-client-urls "http://127.0.0.1:$etcd" \
      --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" --initial-cluster "default=http://127.0.0.1:$peer" &
    exec "$TERMGATE_KUBE_APISERVER" --etcd-servers="http://127.0.0.1:$etcd" --secure-port="$port" --bind-address=127.0.0.1 --cert-dir="$folder/certs" \
      --token-auth-file="$folder/tokens" --authorization-mode=AlwaysAllow --service-account-issuer=https://termgate.example \
      --service-account-key-file="$folder/account.key" --service-account-signing-key-file="$folder/account.key" \
      --service-cluster-ip-range=10.0.0.0/24 --disable-admission-plugins=ServiceAccount
    ;;
  delete)
    SCOPE=$3 python3 - "https://127.0.0.1:$2/apis/coordination.k8s.io/v1/namespaces/default/leases" <<'PYTHON'
import json, os, ssl, sys, urllib.request


def call(method, url):
    request = urllib.request.Request(url, method=method, headers={"Authorization": "Bearer token"})
    return json.load(urllib.request.urlopen(request, context=ssl._create_unverified_context()))


for lease in call("GET", sys.argv[1])["items"]:
    if lease["metadata"].get("annotations", {}).get("termgate.dev/scope") == os.environ["SCOPE"]:
        call("DELETE", f"{sys.argv[1]}/{lease['metadata']['name']}")
PYTHON
    ;;
esac
