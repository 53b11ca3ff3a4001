# shellcheck shell=bash
# Container runtimes: containerd, Docker with cri-dockerd, CRI-O.

# require_version compares what a program says of itself with what was asked for,
# without the epoch and revision of a package.
#   require_version <program> <version> <wanted>
require_version() {
  local wanted=${3#*:}
  wanted=${wanted%%-*}
  if ! fits "$2" "$wanted"; then
    die "$EXIT_VERIFY" "$1 has version ${2:-unknown}, want $3"
  fi
}

ensure_docker_repository() {
  case $OS in
    ubuntu*)
      add_apt_repository docker "$DOCKER_APT_URL/gpg" "$DOCKER_KEY_FINGERPRINT" "$DOCKER_APT_URL $CODENAME stable"
      ;;
    rhel9)
      add_dnf_repository docker "$DOCKER_RPM_URL/gpg" "$DOCKER_RPM_KEY_FINGERPRINT" "$DOCKER_RPM_URL/9/$(uname -m)/stable"
      ;;
    amzn2023) ;; # has its own packages; Docker's are not for it
  esac
}

# word prints a word, by its number, of the first line that a command prints; nothing
# if there is no such command.
word() {
  local number=$1 line
  shift
  line=$("$@" 2>/dev/null || true)
  awk -v n="$number" 'NR == 1 { print $n }' <<<"$line"
}

# start_unit makes a unit run now and after every boot; with CHANGED it runs anew.
start_unit() {
  if [[ -n $CHANGED ]]; then
    run systemctl daemon-reload
    run systemctl enable "$1"
    run systemctl restart "$1"
  else
    run systemctl enable --now "$1"
  fi
}

require_active() {
  if ! systemctl is-active --quiet "$1"; then
    run systemctl status --no-pager --lines=30 "$1" || true
    die "$2" "$1 does not run"
  fi
}

containerd_version() {
  local version
  version=$(word 3 containerd --version)
  printf '%s' "${version#v}"
}

ensure_containerd() {
  local name=containerd.io config=$ROOT/etc/containerd/config.toml wanted=${RUNTIME_VERSION:-$CONTAINERD_VERSION}
  if [[ $OS == amzn2023 ]]; then
    name=containerd
  fi
  ensure_tools
  ensure_docker_repository
  ensure_packages "$EXIT_RUNTIME" "$name" "$wanted" ''
  hold "$name"
  # The package's own configuration switches Kubernetes off. Where the option of the
  # cgroup driver stands differs between versions of the file; its name does not.
  # What is right is left alone: the container toolkit writes into it too.
  if [[ -n $CHANGED ]] || ! grep -q 'SystemdCgroup = true' "$config" 2>/dev/null || grep -q '^disabled_plugins.*cri' "$config"; then
    containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' >"$WORK/config.toml"
    if ! grep -q 'SystemdCgroup = true' "$WORK/config.toml"; then
      die "$EXIT_RUNTIME" "containerd's configuration has no option SystemdCgroup"
    fi
    put "$config" "$(cat "$WORK/config.toml")"$'\n'
  fi
  start_unit containerd
  verify_containerd
}

verify_containerd() {
  require_version containerd "$(containerd_version)" "${RUNTIME_VERSION:-$CONTAINERD_VERSION}"
  require_active containerd "$EXIT_RUNTIME"
  log "containerd $(containerd_version) runs"
}

docker_version() { docker version --format '{{.Server.Version}}' 2>/dev/null || true; }

ensure_docker() {
  ensure_tools
  ensure_docker_repository
  if [[ $OS == amzn2023 ]]; then
    ensure_packages "$EXIT_RUNTIME" docker "$RUNTIME_VERSION" ''
  else
    ensure_packages "$EXIT_RUNTIME" docker-ce "$RUNTIME_VERSION" 5: docker-ce-cli "$RUNTIME_VERSION" 5: containerd.io '' ''
    hold docker-ce docker-ce-cli containerd.io
  fi
  start_unit docker
  if [[ -n $NEEDS_CRI ]]; then
    ensure_cri_dockerd
  fi
  verify_docker
}

cri_dockerd_version() { word 2 cri-dockerd --version; }

# ensure_cri_dockerd is what Kubernetes speaks to Docker through. Its project has no
# package repository.
ensure_cri_dockerd() {
  local sum=CRI_DOCKERD_SHA256_${ARCH^^}
  CHANGED=
  if [[ $(cri_dockerd_version) != "$CRI_DOCKERD_VERSION" ]]; then
    fetch "$CRI_DOCKERD_URL$ARCH.tgz" "${!sum}" "$WORK/cri-dockerd.tgz"
    run tar -xzf "$WORK/cri-dockerd.tgz" -C "$WORK" cri-dockerd/cri-dockerd
    mkdir -p "$ROOT/usr/local/bin"
    install -m 755 "$WORK/cri-dockerd/cri-dockerd" "$ROOT/usr/local/bin/cri-dockerd"
    CHANGED=1
  fi
  put "$ROOT/etc/systemd/system/cri-docker.service" "[Unit]
Description=Container runtime interface of Docker
Requires=cri-docker.socket
Wants=network-online.target
After=network-online.target docker.service

[Service]
Type=notify
ExecStart=/usr/local/bin/cri-dockerd --container-runtime-endpoint fd://
Restart=always
RestartSec=2
Delegate=yes
KillMode=process
LimitNOFILE=infinity

[Install]
WantedBy=multi-user.target
"
  put "$ROOT/etc/systemd/system/cri-docker.socket" "[Unit]
Description=Socket of the container runtime interface of Docker

[Socket]
ListenStream=/run/cri-dockerd.sock
SocketMode=0660

[Install]
WantedBy=sockets.target
"
  start_unit cri-docker.socket
  start_unit cri-docker.service
}

verify_docker() {
  require_version docker "$(docker_version)" "$RUNTIME_VERSION"
  if [[ -n $NEEDS_CRI ]]; then
    require_version cri-dockerd "$(cri_dockerd_version)" "$CRI_DOCKERD_VERSION"
    require_active cri-docker.service "$EXIT_RUNTIME"
    if [[ $(docker info --format '{{.CgroupDriver}}') != systemd ]]; then
      die "$EXIT_RUNTIME" "Docker's cgroup driver is not systemd, which the kubelet's is; see native.cgroupdriver in /etc/docker/daemon.json"
    fi
  fi
  log "docker $(docker_version) runs"
}

crio_version() { word 3 crio --version; }

ensure_crio() {
  local url=$CRIO_URL/v$CRIO_MINOR
  ensure_tools
  case $FAMILY in
    apt) add_apt_repository crio "$url/deb/Release.key" "$CRIO_KEY_FINGERPRINT" "$url/deb/ /" ;;
    dnf) add_dnf_repository crio "$url/rpm/repodata/repomd.xml.key" "$CRIO_KEY_FINGERPRINT" "$url/rpm/" ;;
  esac
  ensure_packages "$EXIT_RUNTIME" cri-o "$RUNTIME_VERSION" ''
  hold cri-o
  start_unit crio
  verify_crio
}

verify_crio() {
  require_version crio "$(crio_version)" "$RUNTIME_VERSION"
  require_active crio "$EXIT_RUNTIME"
  log "crio $(crio_version) runs"
}
