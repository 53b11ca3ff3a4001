# shellcheck shell=bash
# A cluster by kubeadm: its first control plane, those that join, and their end.

# map_endpoint leads the endpoint's name to this node while no other can answer:
# kubeadm init then needs neither DNS nor a load balancer that has found its targets.
map_endpoint() {
  if [[ -n $ENDPOINT_HOST && ! $ENDPOINT_HOST =~ ^[0-9.]+$ && $ENDPOINT_HOST != *:* ]] && ! grep -q '# kubeopera$' "$ROOT/etc/hosts"; then
    printf '%s %s # kubeopera\n' "$NODE_ADDRESS" "$ENDPOINT_HOST" >>"$ROOT/etc/hosts"
  fi
}

unmap_endpoint() {
  if grep -q '# kubeopera$' "$ROOT/etc/hosts" 2>/dev/null; then
    # The file may be a mount, which cannot be replaced, only written.
    sed '/# kubeopera$/d' "$ROOT/etc/hosts" >"$WORK/hosts"
    cat "$WORK/hosts" >"$ROOT/etc/hosts"
  fi
}

# begun_file is there from before kubeadm init until the cluster can be used: whoever
# comes in between must go on here, and make no cluster elsewhere.
begun_file() { printf '%s' "$STATE_DIR/cluster/begun"; }

# init_cluster makes the cluster, once: one that is there is used ever after. Data of
# one that does not answer are never removed, unless they are of an attempt to make
# it that did not come to its end.
init_cluster() {
  if [[ -e $KUBERNETES_DIR/admin.conf ]]; then
    if systemctl is-enabled --quiet kubelet && ! systemctl is-active --quiet kubelet; then
      run systemctl start kubelet || true
    fi
    if within "$SETTLE_SECONDS" "the API server of the cluster that is there" api_is_ready; then
      log "the cluster is there already"
      mark_initialized
      return
    fi
    if [[ -e $STATE_DIR/cluster/initialized ]]; then
      say_output
      die "$EXIT_KUBERNETES" "this machine has a cluster whose API server does not answer; its data are left alone: repair it, or reset the machine"
    fi
  fi
  clean_node
  mkdir -p "$STATE_DIR/cluster"
  touch "$(begun_file)"
  map_endpoint
  write_config "$KUBEADM_CONFIG"
  run timeout 1200 kubeadm init --config "$WORK/kubeadm.secret" --skip-token-print
  shred_all
  mark_initialized
}

mark_initialized() {
  mkdir -p "$STATE_DIR/cluster"
  touch "$STATE_DIR/cluster/initialized"
}

# finish_init waits until the cluster can be used.
finish_init() {
  require_api "$READY_SECONDS"
  if [[ " $ADDONS " == *' calico '* ]]; then
    install_calico
  fi
  wait_for_node
  unmap_endpoint
  rm -f "$(begun_file)"
  log "node $NODE_NAME is a control plane"
}

# --- the network -----------------------------------------------------------------

apply() { retry 6 kubectl_loud apply --server-side --force-conflicts -f "$1"; }

kubectl_loud() {
  kubectl --kubeconfig "$KUBERNETES_DIR/admin.conf" ${API_SERVER:+--server "$API_SERVER"} --request-timeout=60s "$@"
}

# install_calico is that of modules/compute/bootstrap: by VXLAN alone, which works
# whatever the network between the machines makes of pods' addresses.
install_calico() {
  local state=$STATE_DIR/cluster/calico wanted
  wanted="$CALICO_CRDS_SHA256 $CALICO_OPERATOR_SHA256 $POD_SUBNET"$'\n'
  if same_content "$state" "$wanted"; then
    return
  fi
  fetch "$CALICO_CRDS_URL" "$CALICO_CRDS_SHA256" "$WORK/calico-crds.yaml"
  fetch "$CALICO_OPERATOR_URL" "$CALICO_OPERATOR_SHA256" "$WORK/calico-operator.yaml"
  apply "$WORK/calico-crds.yaml"
  apply "$WORK/calico-operator.yaml"
  cat >"$WORK/calico.yaml" <<END
apiVersion: operator.tigera.io/v1
kind: Installation
metadata:
  name: default
spec:
  calicoNetwork:
    bgp: Disabled
    ipPools:
      - name: default-ipv4-ippool
        blockSize: 26
        cidr: $POD_SUBNET
        encapsulation: VXLAN
        natOutgoing: Enabled
        nodeSelector: all()
    nodeAddressAutodetectionV4:
      kubernetes: NodeInternalIP
END
  # The definitions of its kinds need a moment.
  apply "$WORK/calico.yaml"
  put "$state" "$wanted"
}

# --- joining ---------------------------------------------------------------------

require_secret() {
  if [[ ! ${!1} =~ ^$2$ ]]; then
    die "$EXIT_INPUT" "$1 does not have its form"
  fi
}

# print_join_data prints what joining needs, as JSON. The certificates that control
# planes share are uploaded under the caller's key, for two hours.
print_join_data() {
  local token ca endpoint
  identify_node
  require_api
  if [[ -n $UPLOAD_CERTIFICATES ]]; then
    read_secrets CERTIFICATE_KEY
    require_secret CERTIFICATE_KEY '[0-9a-f]{64}'
    write_config "$KUBEADM_CONFIG"
    run kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config "$WORK/kubeadm.secret"
    shred_all
  fi
  token=$(kubeadm token create --kubeconfig "$KUBERNETES_DIR/admin.conf" --ttl "$TOKEN_TTL" --description "nodes join with it" | tail -n 1)
  if [[ ! $token =~ ^[a-z0-9]{6}\.[a-z0-9]{16}$ ]]; then
    die "$EXIT_KUBERNETES" "kubeadm token create has printed no token"
  fi
  ca=$(awk '{ printf "%s\\n", $0 }' "$KUBERNETES_DIR/pki/ca.crt")
  endpoint=$(kubectl_admin -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' |
    sed -n 's/^controlPlaneEndpoint: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p')
  printf '{"token":"%s","caCertificate":"%s","endpoint":"%s"}\n' "$token" "$ca" "$endpoint"
}

# is_member says whether this node has joined and works: files alone say nothing.
is_member() {
  systemctl is-active --quiet kubelet && [[ -s $KUBERNETES_DIR/kubelet.conf ]] && node_as_kubelet name >/dev/null &&
    { [[ $ROLE != control-plane ]] || local_api_is_ready; }
}

# require_our_ca protects members of another cluster.
require_our_ca() {
  if [[ -s $KUBERNETES_DIR/pki/ca.crt && $(ca_hash) != "$CA_HASH" ]]; then
    die "$EXIT_KUBERNETES" "this machine belongs to another cluster: reset it before it joins this one"
  fi
}

# join_cluster joins unless the node is a member. An attempt that fails is taken back
# before the next one: the cluster may not yet have noticed that the node was away.
join_cluster() {
  local attempt
  read_secrets "${JOIN_SECRETS[@]}"
  require_secret TOKEN '[a-z0-9]{6}\.[a-z0-9]{16}'
  if [[ $ROLE == control-plane ]]; then
    require_secret CERTIFICATE_KEY '[0-9a-f]{64}'
  fi
  require_our_ca
  if [[ -e $KUBERNETES_DIR/kubelet.conf ]] && within "$SETTLE_SECONDS" "this node, which has joined before" is_member; then
    log "the node is a member already"
  else
    for ((attempt = 1; ; attempt++)); do
      clean_node
      write_config "$KUBEADM_CONFIG"
      if run timeout 900 kubeadm join --config "$WORK/kubeadm.secret"; then
        break
      fi
      if ((attempt == JOIN_ATTEMPTS)); then
        die "$EXIT_KUBERNETES" "kubeadm join failed $attempt times"
      fi
      log "attempt $attempt of $JOIN_ATTEMPTS to join failed"
      sleep $((RETRY_SECONDS * 6))
    done
    shred_all
  fi
  if [[ $ROLE == control-plane ]]; then
    if ! within "$READY_SECONDS" "this node's API server" local_api_is_ready ||
      ! within "$READY_SECONDS" "this node's vote in etcd" member_is_voting; then
      say_output
      die "$EXIT_KUBERNETES" "control plane $NODE_NAME has joined but does not work"
    fi
  fi
  wait_for_node
  log "node $NODE_NAME is a member"
}

# --- etcd ------------------------------------------------------------------------

# etcdctl_in_cluster runs etcdctl in the first pod of etcd that answers.
etcdctl_in_cluster() {
  local pod
  kubectl_admin -n kube-system get pods -l component=etcd --field-selector=status.phase=Running -o name >"$WORK/pods" || return 1
  while read -r pod; do
    if kubectl_admin -n kube-system exec "$pod" -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 \
      --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/server.crt \
      --key=/etc/kubernetes/pki/etcd/server.key "$@" </dev/null; then
      return 0
    fi
  done <"$WORK/pods"
  return 1
}

# member_is_voting: a learner that is never promoted would block the next join.
member_is_voting() {
  etcdctl_in_cluster member list -w simple >"$WORK/members" &&
    awk -F', ' -v name="$NODE_NAME" '$3 == name && $2 == "started" && $6 == "false" { found = 1 } END { exit !found }' "$WORK/members"
}

# forget_node takes a node that is no more out of etcd and of the cluster. Its own
# member is found by the name, or by the address before it has one.
forget_node() {
  local member name peer
  require_api
  if ! etcdctl_in_cluster member list -w simple >"$WORK/members"; then
    say_output
    die "$EXIT_KUBERNETES" "etcd does not answer"
  fi
  while IFS=, read -r member _ name peer _; do
    name=${name# } peer=${peer# }
    peer=${peer#https://}
    if [[ $name == "$FORGET_NAME" || (-n $FORGET_ADDRESS && ${peer%:*} == "$FORGET_ADDRESS") ]]; then
      log "removing member $member ($name) from etcd"
      etcdctl_in_cluster member remove "$member" >&2 || { say_output && die "$EXIT_KUBERNETES" "member $member of etcd cannot be removed"; }
    fi
  done <"$WORK/members"
  run kubectl_loud delete node "$FORGET_NAME" --ignore-not-found --wait=false
}

# print_admin_conf prints the administrator's kubeconfig.
print_admin_conf() {
  if [[ ! -s $KUBERNETES_DIR/admin.conf ]]; then
    die "$EXIT_KUBERNETES" "this machine has no admin.conf"
  fi
  cat "$KUBERNETES_DIR/admin.conf"
}

# --- the end ---------------------------------------------------------------------

# reset_node makes the machine one of no cluster. Software stays.
reset_node() {
  local link
  if command -v kubeadm >/dev/null && { has_remains || systemctl is-active --quiet kubelet; }; then
    run kubeadm reset --force --cri-socket "$CRI_SOCKET"
  fi
  if systemctl is-enabled --quiet kubelet; then
    run systemctl disable --now kubelet
  fi
  for link in vxlan.calico cni0 flannel.1 kube-ipvs0; do
    if ip link show "$link" >/dev/null 2>&1; then
      run ip link delete "$link"
    fi
  done
  unmap_endpoint
  rm -rf "$ROOT/etc/cni/net.d" "$ROOT/var/lib/cni" "$ROOT/var/lib/calico" "$ROOT/var/lib/etcd/member" "$ROOT/var/lib/kubelet/pki" \
    "$KUBERNETES_DIR/manifests" "$KUBERNETES_DIR/pki" "$KUBERNETES_DIR"/*.conf "$STATE_DIR/cluster" "$STATE_DIR/templates"
  rm -f "$STATE_DIR/environment" # last: who owns the machine may come again
  log "the machine belongs to no cluster"
}
