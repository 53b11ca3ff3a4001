#!/usr/bin/env bash
# Renews what expires, on every control plane, by the timer kubeopera-refresh:
# the node's own certificates; and, on the first control plane by name that is
# ready and has joined, the join token, the shared certificates while somebody waits for them,
# and the published kubeconfig.

set -euo pipefail
dir=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=common.sh
. "$dir/common.sh"
# shellcheck source=kubeadm.sh
. "$dir/kubeadm.sh"
# shellcheck source=cluster.sh
. "$dir/cluster.sh"

# older says whether a stamp is older than so many seconds, or missing.
older() {
  local stamp
  stamp=$(cat "$STATE_DIR/$1" 2>/dev/null || printf 0)
  (($(now) - stamp > $2))
}

# renew_certificates renews this node's certificates, which live a year. Control
# planes do it two weeks apart, by index: no two restart on the same day.
renew_certificates() {
  local days=$((120 - 14 * INDEX))
  if openssl x509 -in "$KUBERNETES_DIR/pki/apiserver.crt" -noout -checkend $((days * 86400)) >/dev/null; then
    return
  fi
  PHASE="renew certificates"
  run kubeadm certs renew all
  # The kubelet starts them again, with what they find then.
  crictl ps -q --label io.kubernetes.pod.namespace=kube-system \
    --name '^(etcd|kube-apiserver|kube-controller-manager|kube-scheduler)$' >"$RUN_DIR/containers"
  run xargs -r -a "$RUN_DIR/containers" crictl stop
  until_ready "this node's API server" local_api_is_ready
}

# is_leader reads the slots: a node can be ready long before it is through with its
# bootstrap, after which it runs this.
is_leader() {
  local names name joined=' ' ready provider first=
  mapfile -t names < <(slot_names)
  read_parameters k8s_certificate_key join_token "${names[@]}"
  for name in "${names[@]}"; do
    if [[ $(parameter "$name") == JOINED:* ]]; then
      joined+="$(parameter "$name" | cut -d: -f2) "
    fi
  done
  kubectl_local get nodes -l node-role.kubernetes.io/control-plane \
    -o 'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.conditions[?(@.type=="Ready")].status}{"\t"}{.spec.providerID}{"\n"}{end}' |
    sort >"$RUN_DIR/nodes"
  while IFS=$'\t' read -r name ready provider; do
    if [[ $ready == True && $joined == *" ${provider##*/} "* ]]; then
      first=$name
      break
    fi
  done <"$RUN_DIR/nodes"
  [[ $first == "$NODE_NAME" ]]
}

token_is_there() {
  local id
  id=$(parameter join_token)
  kubectl_local -n kube-system get secret "bootstrap-token-${id%%.*}" >"$RUN_DIR/output" 2>&1
}

# A token lives a day and is renewed every six hours: who has read one just before
# has eighteen left. It is also renewed when somebody has deleted it.
renew_token() {
  if older token-published 21600 || ! token_is_there; then
    PHASE="renew token"
    publish_token
  fi
}

# The shared certificates are the cluster's keys: they are uploaded, for two hours,
# only while a control plane is not there.
upload_certificates() {
  local names name waiting=
  if ((COUNT == 1)); then
    return
  fi
  mapfile -t names < <(slot_names)
  for name in "${names[@]}"; do
    if [[ $(parameter "$name") != JOINED:* ]]; then
      waiting=$name
    fi
  done
  if [[ -z $waiting ]] || { certificates_are_there && ! older certificates-uploaded 3600; }; then
    return
  fi
  PHASE="upload certificates"
  kubeadm_init_config "$(parameter k8s_certificate_key)" >"$RUN_DIR/init.yaml"
  run kubeadm init phase upload-certs --upload-certs --skip-certificate-key-print --config "$RUN_DIR/init.yaml"
  rm -f "$RUN_DIR/init.yaml"
  now >"$STATE_DIR/certificates-uploaded"
}

renew_kubeconfig() {
  if older kubeconfig-published $((60 * 86400)); then
    PHASE="renew kubeconfig"
    publish_kubeconfig
  fi
}

# ended makes a failure visible beside the node's state, which it does not change,
# and takes it back when the timer's next try has succeeded.
ended() {
  local code=$1
  trap - EXIT ERR
  set +e
  if ((code != 0)); then
    touch "$STATE_DIR/renewal-failed"
    report DONE "renewal failed: ${ERROR:-stopped at $LINE}"
  elif [[ -e $STATE_DIR/renewal-failed ]]; then
    rm "$STATE_DIR/renewal-failed"
    PHASE=renewal
    report DONE "renewed"
  fi
  exit "$code"
}

LINE=start
exec 9>"$RUN_DIR/lock"
flock -w 300 9
trap 'LINE=${BASH_SOURCE[0]##*/}:$LINENO' ERR
trap 'ended $?' EXIT
PHASE=renewal
identify
renew_certificates
if is_leader; then
  renew_token
  upload_certificates
  renew_kubeconfig
fi
