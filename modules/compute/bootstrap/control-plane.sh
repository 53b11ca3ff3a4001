#!/usr/bin/env bash
# Makes this machine a control plane: the first one by kubeadm init, once in the
# life of a cluster, every other by joining, one after the other. The unit
# kubeopera-bootstrap runs it until it succeeds or gives up.

set -euo pipefail
dir=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$dir/common.sh"
# shellcheck source=node.sh
. "$dir/node.sh"
# shellcheck source=kubeadm.sh
. "$dir/kubeadm.sh"
# shellcheck source=cluster.sh
. "$dir/cluster.sh"
# shellcheck source=addons.sh
. "$dir/addons.sh"

make_cluster() {
  init_cluster
  phase "wait for API server"
  until_ready "this node's API server" local_api_is_ready
  install_addons
  wait_for_addons
  phase "wait for endpoint"
  unmap_endpoint
  until_ready "the API's endpoint" endpoint_is_ready
  publish
}

wait_for_cluster() {
  local deadline=$(($(now) + WAIT_SECONDS))
  phase "wait for cluster"
  read_parameters cluster_state
  while ! cluster_is_ready; do
    if (($(now) > deadline)); then
      die "waited $WAIT_SECONDS s for control-plane-0 to make the cluster"
    fi
    pause
    read_parameters cluster_state
  done
}

# protect_etcd keeps the kubelet from starting a member without its data: etcd would
# form a new cluster of one behind the same endpoint.
protect_etcd() {
  local dir=$ROOT/etc/systemd/system/kubelet.service.d
  mkdir -p "$dir"
  printf '[Unit]\nConditionPathExists=/var/lib/etcd/member\n' >"$dir/50-kubeopera.conf"
  chmod 644 "$dir/50-kubeopera.conf"
  run systemctl daemon-reload
}

begin
prepare_node
phase "images"
retry 5 kubeadm config images pull --kubernetes-version "v$KUBEOPERA_KUBERNETES_VERSION"
read_parameters cluster_state
if [[ -e $STATE_DIR/initialized ]] && cluster_is_ready; then
  check_ca
elif ((INDEX == 0)) && ! cluster_is_ready && claim_init; then
  make_cluster
elif ((COUNT == 1)); then
  die "the cluster exists, and its only control plane was another machine: its data is lost; destroy the environment and build it again"
else
  wait_for_cluster
  join_control_plane
fi
printf 'JOINED:%s:%s' "$INSTANCE_ID" "$(now)" | write_parameter "control_plane_joined/$INDEX"
protect_etcd
run systemctl enable --now kubeopera-refresh.timer
complete "control plane $NODE_NAME"
