# shellcheck shell=bash
# shellcheck disable=SC2153 # INDEX and the others are set in common.sh
# How control planes agree on who makes the cluster, who joins it when, and what
# is left of nodes that are gone.

# --- reading the cluster -------------------------------------------------------

# kubectl as administrator: on a node that has joined with its own file, else with
# the published one.
kubectl_admin() {
  local config=$KUBERNETES_DIR/admin.conf
  if [[ ! -e $STATE_DIR/joined ]]; then
    config=$RUN_DIR/admin.conf
  fi
  kubectl --kubeconfig "$config" --request-timeout=60s "$@"
}

# kubectl_local asks this node's own API server, whatever the load balancer does.
kubectl_local() {
  kubectl --kubeconfig "$KUBERNETES_DIR/admin.conf" --server "${KUBEOPERA_LOCAL_API:-https://127.0.0.1:6443}" \
    --request-timeout=60s "$@"
}

etcdctl_in_cluster() {
  local pod
  kubectl_admin -n kube-system get pods -l component=etcd --field-selector=status.phase=Running -o name >"$RUN_DIR/pods"
  while read -r pod; do
    if kubectl_admin -n kube-system exec "$pod" -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 \
      --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/server.crt \
      --key=/etc/kubernetes/pki/etcd/server.key "$@" </dev/null 2>"$RUN_DIR/output"; then
      return 0
    fi
    ERROR="etcdctl $1 in $pod: $(say "$RUN_DIR/output")"
  done <"$RUN_DIR/pods"
  [[ -n $ERROR ]] || ERROR="etcdctl $1: no pod of etcd is running"
  return 1
}

# ca_hash is the form in which joiners pin a CA.
ca_hash() {
  local hash
  hash=$(openssl x509 -in "$KUBERNETES_DIR/pki/ca.crt" -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum)
  printf 'sha256:%s' "${hash%% *}"
}

local_api_is_ready() { kubectl_local get --raw=/readyz >"$RUN_DIR/output" 2>&1; }

endpoint_is_ready() { kubectl_admin get --raw=/readyz >"$RUN_DIR/output" 2>&1; }

node_is_ready() {
  kubectl_local get node "$NODE_NAME" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' >"$RUN_DIR/output" 2>&1 &&
    grep -qx True "$RUN_DIR/output"
}

node_is_initialized() {
  kubectl_local get node "$NODE_NAME" -o 'jsonpath={.spec.taints[*].key}' >"$RUN_DIR/output" 2>&1 &&
    ! grep -q 'node.cloudprovider.kubernetes.io/uninitialized' "$RUN_DIR/output"
}

certificates_are_there() { kubectl_admin -n kube-system get secret kubeadm-certs >"$RUN_DIR/output" 2>&1; }

# member_is_voting: a learner that is never promoted would block the next join.
member_is_voting() {
  etcdctl_in_cluster member list -w simple >"$RUN_DIR/members" || return 1
  cp "$RUN_DIR/members" "$RUN_DIR/output"
  awk -F', ' -v name="$NODE_NAME" '$3 == name && $2 == "started" && $6 == "false" { found = 1 } END { exit !found }' "$RUN_DIR/members"
}

# --- who makes the cluster -----------------------------------------------------

# slot_names are the parameters of all control planes.
slot_names() {
  local i
  for ((i = 0; i < COUNT; i++)); do
    printf 'control_plane_joined/%s\n' "$i"
  done
}

cluster_is_ready() {
  [[ $(parameter cluster_state) == READY:* ]]
}

# claim_init decides, once and for ever, which machine makes the cluster. The first
# claim is a parameter that only one machine can create; who succeeds a machine that
# is gone claims a name made of that one's id. True if it is us; false as soon as
# the cluster exists.
claim_init() {
  local name=init_claims/first owner since deadline
  deadline=$(($(now) + WAIT_SECONDS))
  while :; do
    if claim "$name"; then
      return 0
    fi
    IFS=: read -r owner _ since <<<"$(parameter "$name")"
    if [[ -n $owner ]] && instance_gone "$owner" "$since"; then
      log "$owner, which was to make the cluster, is gone"
      name=init_claims/after-$owner
      continue
    fi
    if (($(now) > deadline)); then
      die "waited $WAIT_SECONDS s for $owner to make the cluster"
    fi
    wait_note "waiting for $owner to make the cluster"
    pause
    read_parameters cluster_state
    if cluster_is_ready; then
      return 1
    fi
  done
}

# map_endpoint leads the endpoint's name to this node while no other can answer:
# kubeadm init then needs neither DNS nor a load balancer that has found its targets.
map_endpoint() {
  if [[ ! $ENDPOINT_HOST =~ ^[0-9.]+$ ]] && ! grep -q '# kubeopera$' "$ROOT/etc/hosts"; then
    printf '%s %s # kubeopera\n' "$NODE_IP" "${ENDPOINT_HOST,,}" >>"$ROOT/etc/hosts"
  fi
}

unmap_endpoint() {
  # The file may be a mount, which cannot be replaced, only written.
  sed '/# kubeopera$/d' "$ROOT/etc/hosts" >"$RUN_DIR/hosts"
  cat "$RUN_DIR/hosts" >"$ROOT/etc/hosts"
}

# init_cluster runs kubeadm init, once: what has been made is used ever after.
init_cluster() {
  if [[ -e $STATE_DIR/initialized ]]; then
    return
  fi
  printf 'INIT:%s:%s' "$INSTANCE_ID" "$(now)" | write_parameter cluster_state
  clean_node
  phase "kubeadm init"
  map_endpoint
  if ((COUNT > 1)); then
    openssl rand -hex 32 | tr -d '\n' >"$STATE_DIR/certificate-key"
    kubeadm_init_config "$(cat "$STATE_DIR/certificate-key")" >"$RUN_DIR/init.yaml"
    run kubeadm init --config "$RUN_DIR/init.yaml" --upload-certs --skip-token-print --skip-certificate-key-print
  else
    kubeadm_init_config >"$RUN_DIR/init.yaml"
    run kubeadm init --config "$RUN_DIR/init.yaml" --skip-token-print
  fi
  touch "$STATE_DIR/initialized" "$STATE_DIR/joined"
  rm -f "$RUN_DIR/init.yaml"
  now >"$STATE_DIR/certificates-uploaded"
}

# --- publishing ----------------------------------------------------------------

publish_token() {
  kubeadm token create --kubeconfig "$KUBERNETES_DIR/admin.conf" --ttl 24h0m0s \
    --description "nodes join with it; renewed by kubeopera-refresh" >"$RUN_DIR/token" 2>"$RUN_DIR/output" ||
    { ERROR="kubeadm token create: $(say "$RUN_DIR/output")" && return 1; }
  tail -n 1 "$RUN_DIR/token" | tr -d '\n' | write_parameter join_token
  rm -f "$RUN_DIR/token"
  now >"$STATE_DIR/token-published"
}

# publish_kubeconfig hands out an identity of its own, which is an administrator by
# a binding: who deletes the binding revokes it. A client certificate cannot be
# revoked, so that of the node, or the one no binding governs, never leaves.
publish_kubeconfig() {
  cat >"$RUN_DIR/binding.yaml" <<'END'
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kubeopera-admin
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: User
    name: kubeopera-admin
END
  # Only at first: who has deleted it wants it to stay deleted.
  if [[ ! -e $STATE_DIR/binding && ${1:-} == first ]]; then
    run kubectl_local apply --server-side --force-conflicts -f "$RUN_DIR/binding.yaml"
    touch "$STATE_DIR/binding"
  fi
  kubectl_local -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' >"$RUN_DIR/cluster.yaml"
  kubeadm kubeconfig user --client-name kubeopera-admin --validity-period 8760h0m0s \
    --config "$RUN_DIR/cluster.yaml" >"$RUN_DIR/published.conf" 2>"$RUN_DIR/output" ||
    { ERROR="kubeadm kubeconfig user: $(say "$RUN_DIR/output")" && return 1; }
  base64 -w 0 "$RUN_DIR/published.conf" >"$RUN_DIR/published"
  if (($(stat -c %s "$RUN_DIR/published") > 4096)); then
    die "the kubeconfig has more than the 4096 bytes of its parameter"
  fi
  write_parameter admin_kubeconfig <"$RUN_DIR/published"
  rm -f "$RUN_DIR/published" "$RUN_DIR/published.conf"
  now >"$STATE_DIR/kubeconfig-published"
}

# publish makes the cluster known, READY last: who sees it finds all the rest.
publish() {
  local uid hash
  phase "publish"
  hash=$(ca_hash)
  printf '%s' "$hash" | write_parameter ca_cert_hash
  publish_token
  if ((COUNT > 1)); then
    write_parameter k8s_certificate_key <"$STATE_DIR/certificate-key"
  fi
  printf '%s' "$ENDPOINT" | write_parameter k8s_api_endpoint
  publish_kubeconfig first
  uid=$(kubectl_local get namespace kube-system -o 'jsonpath={.metadata.uid}')
  printf 'READY:%s:%s' "$uid" "$hash" | write_parameter cluster_state
}

# --- whose turn it is to join --------------------------------------------------

# slot_field is a field of STATE:<instance>:<epoch>[:<reason>].
slot_field() { cut -s -d: -f"$2" <<<"$(parameter "control_plane_joined/$1")"; }

# slot_blocks says whether the control plane before us may still be joining.
slot_blocks() {
  local state id since
  state=$(slot_field "$1" 1) id=$(slot_field "$1" 2) since=$(slot_field "$1" 3)
  case $state in
    JOINED | FAILED) return 1 ;;
    JOINING) (($(now) - since <= LEASE_SECONDS)) && ! instance_gone "$id" "$since" ;;
    *) (($(now) - WAITING_SINCE <= LEASE_SECONDS)) ;;
  esac
}

# fail_slot tells those who wait for us that we have given up; unless our place has
# been taken by another machine since we began.
fail_slot() {
  local error=$ERROR id since
  read_parameters "control_plane_joined/$INDEX" || return 1
  id=$(slot_field "$INDEX" 2) since=$(slot_field "$INDEX" 3)
  if [[ $id != "$INSTANCE_ID" ]] && ((${since:-0} > $(cat "$STATE_DIR/begun"))); then
    return 0
  fi
  printf 'FAILED:%s:%s:%s' "$INSTANCE_ID" "$(now)" "$(one_line <<<"$PHASE: $error")" |
    write_parameter "control_plane_joined/$INDEX"
}

# turn_since is when the owner of a turn last said that it is joining.
turn_since() {
  local id slot since
  IFS=: read -r id slot since <<<"$1"
  if [[ $(slot_field "$slot" 1) == JOINING && $(slot_field "$slot" 2) == "$id" ]] && (($(slot_field "$slot" 3) > since)); then
    since=$(slot_field "$slot" 3)
  fi
  printf '%s' "$since"
}

# turn_is_over says whether the owner of a turn has no use for it any more. What it
# said before it took the turn is of an earlier one.
turn_is_over() {
  local id slot since state
  IFS=: read -r id slot since <<<"$1"
  state=$(slot_field "$slot" 1)
  if [[ $(slot_field "$slot" 2) == "$id" && $state == @(JOINED|FAILED) ]] && (($(slot_field "$slot" 3) >= since)); then
    return 0
  fi
  since=$(turn_since "$1")
  (($(now) - since > LEASE_SECONDS)) || instance_gone "$id" "$since"
}

# turn_is_held says whether we may rely on our turn: the others' clocks and requests
# have a quarter of the lease. TURN_SINCE is when we last said that we are joining.
turn_is_held() { (($(now) - TURN_SINCE <= LEASE_SECONDS * 3 / 4)); }

# hold_turn says again that we are joining: it begins the lease anew. It fails if the
# others may have found that the lease was over before they could read that.
hold_turn() {
  local time
  time=$(now)
  printf 'JOINING:%s:%s' "$INSTANCE_ID" "$time" | write_parameter "control_plane_joined/$INDEX"
  if ! turn_is_held; then
    ERROR="the turn to join was over before the join"
    return 1
  fi
  TURN_SINCE=$time
}

# take_turn returns when it is this node's turn to join. Control planes come in the
# order of their indexes; replacements of several at once have no order, so that a
# turn is also a parameter that only one machine can create, numbered on from the
# last one. etcd takes one new member at a time.
take_turn() {
  local deadline last owner i names
  deadline=$(($(now) + WAIT_SECONDS))
  WAITING_SINCE=$(now)
  last=$(cat "$STATE_DIR/turn" 2>/dev/null || printf 0)
  while :; do
    if (($(now) > deadline)); then
      die "waited $WAIT_SECONDS s for a turn to join; ${WAIT_NOTE:-}"
    fi
    mapfile -t names < <(slot_names)
    read_parameters "${names[@]}"
    if ((INDEX > 0)) && slot_blocks $((INDEX - 1)); then
      wait_note "waiting for control-plane-$((INDEX - 1))"
      pause
      continue
    fi
    # Turns are read eight at a time.
    owner=
    while :; do
      mapfile -t names < <(for ((i = last + 1; i <= last + 8; i++)); do printf 'join_turns/%s\n' "$i"; done)
      read_parameters "${names[@]}"
      i=$last
      while [[ -n $(parameter "join_turns/$((i + 1))") ]]; do
        i=$((i + 1))
        owner=$(parameter "join_turns/$i")
      done
      if ((i < last + 8)); then
        last=$i
        break
      fi
      last=$i
    done
    if [[ -z $owner ]] && ((last > 0)); then
      read_parameters "join_turns/$last"
      owner=$(parameter "join_turns/$last")
    fi
    if [[ -n $owner ]] && ! turn_is_over "$owner"; then
      TURN_SINCE=$(turn_since "$owner")
      if [[ ${owner%%:*} != "$INSTANCE_ID" ]]; then
        wait_note "waiting for control-plane-$(cut -d: -f2 <<<"$owner"), which is joining"
        pause
        continue
      elif turn_is_held; then
        break
      fi
    fi
    TURN_SINCE=$(now)
    if claim "join_turns/$((last + 1))"; then
      last=$((last + 1))
      break
    fi
  done
  printf '%s' "$last" >"$STATE_DIR/turn"
}

# remove_lost_members takes out of etcd and of the cluster what belongs to machines
# that are gone or will be, to the machine whose place we have taken, and to attempts
# that failed, ours too: nobody else is joining now. A dead member would make the next
# join fail.
remove_lost_members() {
  local id ip member status name peer learner provider launched newer
  phase "clean up" "members and nodes of machines that are gone"
  aws ec2 describe-instances --output text \
    --query "Reservations[].Instances[].[InstanceId,PrivateIpAddress,LaunchTime,Tags[?Key=='kubeopera.io/node']|[0].Value]" \
    --filters "Name=tag:kubernetes.io/cluster/$KUBEOPERA_CLUSTER_NAME,Values=owned" \
    'Name=tag:kubeopera.io/node,Values=control-plane-*' \
    'Name=instance-state-name,Values=pending,running,stopping,stopped' >"$RUN_DIR/all" 2>"$RUN_DIR/output" ||
    { ERROR="list machines: $(say "$RUN_DIR/output")" && return 1; }
  # A list without ourselves is wrong, and would have us remove everything.
  launched=$(awk -F'\t' -v id="$INSTANCE_ID" '$1 == id { print $3 }' "$RUN_DIR/all")
  if [[ -z $launched ]]; then
    ERROR="the list of machines does not have this one"
    return 1
  fi
  newer=$(awk -F'\t' -v node="$NODE" -v time="$launched" '$4 == node && $3 > time { print $1; exit }' "$RUN_DIR/all")
  if [[ -n $newer ]]; then
    die "$newer has taken the place of this machine"
  fi
  awk -F'\t' -v node="$NODE" -v id="$INSTANCE_ID" '$4 != node || $1 == id' "$RUN_DIR/all" >"$RUN_DIR/machines"
  etcdctl_in_cluster member list -w simple >"$RUN_DIR/members"
  while IFS=, read -r member status name peer _ learner; do
    status=${status# } name=${name# } peer=${peer# } learner=${learner# }
    ip=${peer#https://}
    ip=${ip%:*}
    if [[ $status == started && $learner == false && $ip != "$NODE_IP" ]] &&
      awk -F'\t' -v ip="$ip" '$2 == ip { found = 1 } END { exit !found }' "$RUN_DIR/machines"; then
      continue
    fi
    log "removing member $member ($name, $peer) from etcd"
    etcdctl_in_cluster member remove "$member" >/dev/null
  done <"$RUN_DIR/members"
  kubectl_admin get nodes -l node-role.kubernetes.io/control-plane \
    -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.spec.providerID}{"\n"}{end}' >"$RUN_DIR/nodes"
  while IFS=$'\t' read -r name provider; do
    id=${provider##*/}
    # Also our own name: a machine gone may have had our address.
    if [[ $name != "$NODE_NAME" ]] && { [[ -z $id ]] || grep -q "^$id"$'\t' "$RUN_DIR/machines"; }; then
      continue
    fi
    run kubectl_admin delete node "$name" --wait=false
  done <"$RUN_DIR/nodes"
}

# --- joining -------------------------------------------------------------------

# read_join reads anew what a join needs: tokens and keys are renewed.
read_join() {
  read_parameters cluster_state k8s_api_endpoint join_token ca_cert_hash "$@"
  if [[ $(parameter cluster_state) != READY:*:"$(parameter ca_cert_hash)" ]]; then
    ERROR="the published hash of the CA is not that of the cluster"
    return 1
  fi
}

# check_ca alarms when this node belongs to another cluster than the published one.
check_ca() {
  local hash
  hash=$(ca_hash)
  if [[ $(parameter cluster_state) != READY:*:"$hash" ]]; then
    die "this node's CA is not that of the cluster: there are two clusters"
  fi
}

join_control_plane() {
  if [[ ! -e $STATE_DIR/joined ]]; then
    phase "wait for turn"
    take_turn
    hold_turn
    read_parameters admin_kubeconfig
    base64 -d "$RUN_DIR/parameters/admin_kubeconfig" >"$RUN_DIR/admin.conf"
    until_ready "the load balancer" endpoint_is_ready
    hold_turn
    # In this order: data that is wiped while its member stays is a vote that etcd
    # lacks for ever.
    remove_lost_members
    clean_node
    phase "kubeadm join"
    # They expire; another control plane uploads them again when it sees us JOINING.
    until_ready "the shared certificates" certificates_are_there
    read_join k8s_certificate_key
    hold_turn
    kubeadm_join_config "$(parameter k8s_api_endpoint)" "$(parameter join_token)" "$(parameter ca_cert_hash)" \
      "$(parameter k8s_certificate_key)" >"$RUN_DIR/join.yaml"
    # Ended before others may think that we are gone.
    run timeout $((TURN_SINCE + LEASE_SECONDS * 3 / 4 - $(now))) kubeadm join --config "$RUN_DIR/join.yaml"
    rm -f "$RUN_DIR/join.yaml" "$RUN_DIR/admin.conf"
    touch "$STATE_DIR/joined"
  else
    read_parameters cluster_state
  fi
  check_ca
  phase "wait for node"
  until_ready "this node's API server" local_api_is_ready
  until_ready "this node's vote in etcd" member_is_voting
  # Without a network of ours it may never be.
  if has_addon calico; then
    until_ready "this node" node_is_ready
  fi
}
