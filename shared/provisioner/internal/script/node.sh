# shellcheck shell=bash
# Makes a machine ready for kubeadm.

# prepare_machine sets what Kubernetes wants of the system.
prepare_machine() {
  local fstab=$ROOT/etc/fstab
  put "$ROOT/etc/modules-load.d/kubeopera.conf" "overlay
br_netfilter
"
  run modprobe -a overlay br_netfilter
  put "$ROOT/etc/sysctl.d/90-kubeopera.conf" "net.ipv4.ip_forward = 1
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
kernel.panic = 10
kernel.panic_on_oops = 1
vm.overcommit_memory = 1
fs.inotify.max_user_instances = 8192
fs.inotify.max_user_watches = 524288
"
  run sysctl --quiet --system
  run swapoff -a
  if grep -qE '^[^#].*\sswap\s' "$fstab" 2>/dev/null; then
    sed -i -E '/\sswap\s/s/^[^#]/#&/' "$fstab"
  fi
  if [[ $FAMILY == dnf ]]; then
    if systemctl is-active --quiet firewalld; then
      die "$EXIT_DEPENDENCY" "firewalld runs, which the pods' network cannot work with: systemctl disable --now firewalld"
    fi
    # As the project says: kubeadm's pods read files of the machine.
    if command -v getenforce >/dev/null && [[ $(getenforce) == Enforcing ]]; then
      log "SELinux is set to permissive"
      run setenforce 0
      sed -i 's/^SELINUX=enforcing$/SELINUX=permissive/' "$ROOT/etc/selinux/config"
    fi
  fi
}

ensure_kubernetes_repository() {
  local minor=${KUBERNETES_VERSION%.*}
  case $FAMILY in
    apt)
      add_apt_repository kubernetes "$KUBERNETES_APT_URL/v$minor/deb/Release.key" "$KUBERNETES_KEY_FINGERPRINT" \
        "$KUBERNETES_APT_URL/v$minor/deb/ /"
      ;;
    dnf)
      # An upgrade of the system must not upgrade Kubernetes.
      add_dnf_repository kubernetes "$KUBERNETES_RPM_URL/v$minor/rpm/repodata/repomd.xml.key" "$KUBERNETES_KEY_FINGERPRINT" \
        "$KUBERNETES_RPM_URL/v$minor/rpm/" packages 'kubelet kubeadm kubectl cri-tools kubernetes-cni'
      ;;
  esac
}

# ensure_kubernetes_packages installs exactly the wanted version, never over that of
# a member of a cluster: members are upgraded one by one with kubeadm, not by us.
ensure_kubernetes_packages() {
  local there packages=()
  there=$(installed_version kubelet)
  if [[ -e $KUBERNETES_DIR/kubelet.conf && -n $there ]] && ! fits "$there" "$KUBERNETES_VERSION"; then
    die "$EXIT_KUBERNETES" "this machine is a member of a cluster with kubelet $there; reset it before installing $KUBERNETES_VERSION"
  fi
  ensure_tools
  case $FAMILY in
    apt) packages=(conntrack '' '' socat '' '') ;;
    dnf) packages=(conntrack-tools '' '' socat '' '' iproute-tc '' '') ;;
  esac
  ensure_packages "$EXIT_DEPENDENCY" "${packages[@]}"
  ensure_kubernetes_repository
  packages=(kubelet "$KUBERNETES_VERSION" '' kubeadm "$KUBERNETES_VERSION" '' kubectl "$KUBERNETES_VERSION" '')
  # Otherwise those that the three depend on.
  if [[ -n $CRICTL_VERSION ]]; then
    packages+=(cri-tools "$CRICTL_VERSION" '')
  fi
  if [[ -n $CNI_PLUGINS_VERSION ]]; then
    packages+=(kubernetes-cni "$CNI_PLUGINS_VERSION" '')
  fi
  ensure_packages "$EXIT_KUBERNETES" "${packages[@]}"
  hold kubelet kubeadm kubectl
}

prepare_node() {
  prepare_machine
  ensure_kubernetes_packages
  put "$ROOT/etc/crictl.yaml" "runtime-endpoint: $CRI_SOCKET"$'\n'
  run systemctl enable kubelet
  verify_node
  if [[ $ROLE == control-plane && ! -e $KUBERNETES_DIR/kubelet.conf ]]; then
    retry 5 kubeadm config images pull --kubernetes-version "v$KUBERNETES_VERSION" --cri-socket "$CRI_SOCKET"
  fi
}

verify_node() {
  local version
  version=$(kubeadm version -o short) || version=
  if [[ $version != "v$KUBERNETES_VERSION" ]]; then
    die "$EXIT_VERIFY" "kubeadm has version ${version:-unknown}, want v$KUBERNETES_VERSION"
  fi
}

# --- the machine as a node -------------------------------------------------------

# identify_node finds out what kubeadm will call this node, and its address if the
# caller has not said, or knows only one that is translated on the way: that from
# which the machine speaks to others.
identify_node() {
  NODE_NAME=${NODE_NAME:-$(uname -n)}
  NODE_NAME=${NODE_NAME,,}
  if [[ $NODE_NAME == localhost* ]]; then
    die "$EXIT_INPUT" "this machine's host name is $NODE_NAME: nodes need names of their own"
  fi
  # Neither etcd nor the API server could listen at an address that is on no device.
  if [[ $NODE_ADDRESS =~ ^[0-9.]+$ ]] && ! ip -4 -o addr show | grep -F " $NODE_ADDRESS/" >/dev/null; then
    log "$NODE_ADDRESS is on no device of this machine, so it is not the node's address"
    NODE_ADDRESS=''
  fi
  if [[ -z $NODE_ADDRESS ]]; then
    NODE_ADDRESS=$(ip -4 -o route get 198.51.100.1 | awk '{ for (i = 1; i < NF; i++) if ($i == "src") print $(i + 1) }')
    if [[ ! $NODE_ADDRESS =~ ^[0-9.]+$ ]]; then
      die "$EXIT_KUBERNETES" "this machine has no IPv4 address that leads to others"
    fi
  fi
}

# kubectl_admin asks as administrator: this node's own API server, whatever a load
# balancer does, or the one that the file names if that answers instead.
kubectl_admin() {
  kubectl --kubeconfig "$KUBERNETES_DIR/admin.conf" ${API_SERVER:+--server "$API_SERVER"} --request-timeout=30s "$@" 2>"$WORK/output"
}

say_output() {
  if [[ -s $WORK/output ]]; then
    tail -n 5 "$WORK/output" >&2
  fi
}

# api_is_ready also finds out which API server kubectl_admin asks.
api_is_ready() {
  if [[ ! -s $KUBERNETES_DIR/admin.conf ]]; then
    return 1
  fi
  for API_SERVER in "$LOCAL_API" ''; do
    if kubectl_admin get --raw=/readyz >/dev/null; then
      return 0
    fi
  done
  return 1
}

local_api_is_ready() {
  API_SERVER=$LOCAL_API
  kubectl_admin get --raw=/readyz >/dev/null
}

require_api() {
  if ! within "${1:-$SETTLE_SECONDS}" "the API server" api_is_ready; then
    say_output
    die "$EXIT_KUBERNETES" "the API server does not answer"
  fi
}

# node_as_kubelet reads this node's object as the node.
node_as_kubelet() {
  kubectl --kubeconfig "$KUBERNETES_DIR/kubelet.conf" --request-timeout=30s get node "$NODE_NAME" -o "$1" 2>"$WORK/output"
}

node_is_ready() {
  local status
  status=$(node_as_kubelet 'jsonpath={.status.conditions[?(@.type=="Ready")].status}') && [[ $status == True ]]
}

# wait_for_node waits until the node can take pods; without a network of ours it may
# never.
wait_for_node() {
  if [[ " $ADDONS " != *' calico '* ]]; then
    return
  fi
  if ! within "$READY_SECONDS" "this node" node_is_ready; then
    say_output
    die "$EXIT_KUBERNETES" "node $NODE_NAME has not become ready within $READY_SECONDS s"
  fi
}

# ca_hash is the form in which joiners pin the CA that this machine knows.
ca_hash() {
  local hash
  hash=$(openssl x509 -in "$KUBERNETES_DIR/pki/ca.crt" -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum)
  printf 'sha256:%s' "${hash%% *}"
}

# has_remains says whether kubeadm has been at work on this machine.
has_remains() {
  [[ -e $KUBERNETES_DIR/kubelet.conf || -e $KUBERNETES_DIR/bootstrap-kubelet.conf || -e $KUBERNETES_DIR/admin.conf ||
    -e $KUBERNETES_DIR/pki/ca.crt || -e $ROOT/var/lib/etcd/member ]] || compgen -G "$KUBERNETES_DIR/manifests/*.yaml" >/dev/null
}

# clean_node takes back what kubeadm has done. On a control plane this takes the
# node's member out of etcd too, if it got that far.
clean_node() {
  if has_remains; then
    log "taking back what an earlier attempt left"
    run kubeadm reset --force --cri-socket "$CRI_SOCKET"
  fi
  rm -rf "$ROOT/etc/cni/net.d" "$ROOT/var/lib/etcd/member" "$STATE_DIR/cluster"
}

# write_config completes a configuration for kubeadm by what only the machine knows,
# and by secrets, all of which have been checked. The file goes with the step.
#   write_config <text>
write_config() {
  local text=$1
  text=${text//@ADDRESS@/"$NODE_ADDRESS"}
  text=${text//@TOKEN@/"${TOKEN:-}"}
  text=${text//@CERTIFICATE_KEY@/"${CERTIFICATE_KEY:-}"}
  secret_file kubeadm
  printf '%s' "$text" >"$WORK/kubeadm.secret"
}
