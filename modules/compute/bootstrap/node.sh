# shellcheck shell=bash
# Makes a fresh Ubuntu machine ready for kubeadm. Every step may be done again.

prepare_machine() {
  phase "machine"
  mkdir -p "$ROOT/etc/modules-load.d" "$ROOT/etc/sysctl.d"
  printf 'overlay\nbr_netfilter\n' >"$ROOT/etc/modules-load.d/kubeopera.conf"
  run modprobe -a overlay br_netfilter
  cat >"$ROOT/etc/sysctl.d/90-kubeopera.conf" <<'END'
net.ipv4.ip_forward = 1
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
kernel.panic = 10
kernel.panic_on_oops = 1
vm.overcommit_memory = 1
fs.inotify.max_user_instances = 8192
fs.inotify.max_user_watches = 524288
END
  run sysctl --quiet --system
  run swapoff -a
  sed -i -E '/\sswap\s/s/^[^#]/#&/' "$ROOT/etc/fstab"
}

# apt waits for the updates that Ubuntu makes at the first boot, and for a network
# whose NAT gateway may still be in the making.
apt() { retry 12 apt-get -y -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"; }

# add_repository adds an apt repository whose key has the given fingerprint.
#   add_repository <name> <URL of the key> <fingerprint> <rest of the source line>
add_repository() {
  local keyring=$ROOT/etc/apt/keyrings/$1.gpg found
  retry 12 curl -sS -f -L --max-time 60 -o "$RUN_DIR/key" "$2"
  found=$(gpg --batch --with-colons --show-keys "$RUN_DIR/key" 2>/dev/null | awk -F: '$1 == "fpr" { print $10; exit }')
  if [[ $found != "$3" ]]; then
    die "key of $2 has fingerprint ${found:-none}, want $3"
  fi
  mkdir -p "$ROOT/etc/apt/keyrings" "$ROOT/etc/apt/sources.list.d"
  gpg --batch --yes --dearmor -o "$keyring" "$RUN_DIR/key"
  # apt reads it as a user of its own.
  chmod 644 "$keyring"
  printf 'deb [signed-by=%s] %s\n' "$keyring" "$4" >"$ROOT/etc/apt/sources.list.d/$1.list"
  chmod 644 "$ROOT/etc/apt/sources.list.d/$1.list"
}

install_packages() {
  local minor=${KUBEOPERA_KUBERNETES_VERSION%.*} codename
  if [[ -f $STATE_DIR/packages ]]; then
    return
  fi
  phase "packages"
  apt update
  apt install ca-certificates curl gnupg openssl conntrack socat
  # shellcheck source=/dev/null
  codename=$(. "$ROOT/etc/os-release" && printf '%s' "$VERSION_CODENAME")
  add_repository kubernetes "$KUBERNETES_APT_URL/v$minor/deb/Release.key" "$KUBERNETES_KEY_FINGERPRINT" \
    "$KUBERNETES_APT_URL/v$minor/deb/ /"
  add_repository docker "$DOCKER_APT_URL/gpg" "$DOCKER_KEY_FINGERPRINT" "$DOCKER_APT_URL $codename stable"
  apt update
  apt install --allow-change-held-packages "containerd.io=$CONTAINERD_VERSION" \
    "kubelet=$KUBEOPERA_KUBERNETES_VERSION-*" "kubeadm=$KUBEOPERA_KUBERNETES_VERSION-*" \
    "kubectl=$KUBEOPERA_KUBERNETES_VERSION-*"
  # An upgrade of the system must not upgrade Kubernetes.
  run apt-mark hold containerd.io kubelet kubeadm kubectl
  touch "$STATE_DIR/packages"
}

# configure_containerd writes its own default configuration, the package's switches
# Kubernetes off, with the cgroup driver of systemd. Where that option stands differs
# between versions of the file; its name does not.
configure_containerd() {
  phase "containerd"
  mkdir -p "$ROOT/etc/containerd"
  containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' >"$RUN_DIR/config.toml"
  if ! grep -q 'SystemdCgroup = true' "$RUN_DIR/config.toml"; then
    die "containerd's configuration has no option SystemdCgroup"
  fi
  install -m 644 "$RUN_DIR/config.toml" "$ROOT/etc/containerd/config.toml"
  printf 'runtime-endpoint: unix:///run/containerd/containerd.sock\n' >"$ROOT/etc/crictl.yaml"
  run systemctl restart containerd
  run systemctl enable containerd kubelet
}

prepare_node() {
  prepare_machine
  install_packages
  configure_containerd
}

# clean_node takes back what an attempt that failed has left. On a control plane
# this takes the node's member out of etcd too, if it got that far.
clean_node() {
  if [[ -e $KUBERNETES_DIR/kubelet.conf || -e $KUBERNETES_DIR/admin.conf || -e $ROOT/var/lib/etcd/member ]] ||
    compgen -G "$KUBERNETES_DIR/manifests/*.yaml" >/dev/null; then
    phase "clean up" "after an attempt that failed"
    run kubeadm reset --force
  fi
  rm -rf "$ROOT/etc/cni/net.d" "$ROOT/var/lib/etcd/member"
}
