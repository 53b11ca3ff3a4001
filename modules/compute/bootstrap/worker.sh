#!/usr/bin/env bash
# Makes this machine a worker. The unit kubeopera-bootstrap runs it until it
# succeeds or gives up; a machine that gave up is left as it is, to be looked at.

set -euo pipefail
dir=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$dir/common.sh"
# shellcheck source=node.sh
. "$dir/node.sh"
# shellcheck source=kubeadm.sh
. "$dir/kubeadm.sh"

# A worker may ask for its own node, and for no other.
node_is_ready() {
  kubectl --kubeconfig "$KUBERNETES_DIR/kubelet.conf" --request-timeout=30s get node "$NODE_NAME" \
    -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' >"$RUN_DIR/output" 2>&1 &&
    grep -qx True "$RUN_DIR/output"
}

join_worker() {
  local deadline=$(($(now) + WAIT_SECONDS))
  if [[ -e $STATE_DIR/joined ]]; then
    return
  fi
  phase "wait for cluster"
  read_join
  # The token of a cluster that is not finished could be that of one that never will be.
  while [[ $(parameter cluster_state) != READY:*:"$(parameter ca_cert_hash)" ]]; do
    if (($(now) > deadline)); then
      die "waited $WAIT_SECONDS s for the cluster"
    fi
    pause
    read_join
  done
  clean_node
  phase "kubeadm join"
  read_join
  kubeadm_join_config "$(parameter k8s_api_endpoint)" "$(parameter join_token)" "$(parameter ca_cert_hash)" >"$RUN_DIR/join.yaml"
  run timeout 900 kubeadm join --config "$RUN_DIR/join.yaml"
  rm -f "$RUN_DIR/join.yaml"
  touch "$STATE_DIR/joined"
}

read_join() { read_parameters cluster_state k8s_api_endpoint join_token ca_cert_hash; }

begin
prepare_node
join_worker
phase "wait for node"
if has_addon calico; then
  until_ready "this node" node_is_ready
fi
complete "worker $NODE_NAME"
