# shellcheck shell=bash
# Kubernetes in Docker containers of this machine.

kind_version() { word 3 kind --version; }

kind_is_there() { [[ $'\n'$(kind get clusters 2>/dev/null)$'\n' == *$'\n'$CLUSTER_NAME$'\n'* ]]; }

ensure_kind() {
  local sum=KIND_SHA256_${ARCH^^} options=()
  ensure_tools
  if ! docker info >/dev/null 2>&1; then
    die "$EXIT_KUBERNETES" "Docker does not answer, and kind needs it"
  fi
  if [[ $(kind_version) != "$KIND_VERSION" ]]; then
    fetch "$KIND_URL$ARCH" "${!sum}" "$WORK/kind"
    mkdir -p "$ROOT/usr/local/bin"
    install -m 755 "$WORK/kind" "$ROOT/usr/local/bin/kind"
  fi
  ensure_kubernetes_repository
  ensure_packages "$EXIT_KUBERNETES" kubectl "$KUBERNETES_VERSION" ''
  hold kubectl
  if kind_is_there; then
    log "the cluster is there already"
  else
    if [[ -n $KIND_CONFIG ]]; then
      printf '%s' "$KIND_CONFIG" >"$WORK/kind.yaml"
      options=(--config "$WORK/kind.yaml")
    fi
    run kind create cluster --name "$CLUSTER_NAME" --image "kindest/node:v$KUBERNETES_VERSION" --wait 10m ${options[@]+"${options[@]}"}
  fi
  verify_kind
}

verify_kind() {
  require_version kind "$(kind_version)" "$KIND_VERSION"
  secret_file kind
  if ! kind_is_there || ! kind get kubeconfig --name "$CLUSTER_NAME" >"$WORK/kind.secret" ||
    ! kubectl --kubeconfig "$WORK/kind.secret" --request-timeout=30s get --raw=/readyz >/dev/null; then
    die "$EXIT_KUBERNETES" "the cluster in Docker does not answer"
  fi
}

print_kind_conf() { kind get kubeconfig --name "$CLUSTER_NAME"; }

reset_kind() {
  if command -v kind >/dev/null && kind_is_there; then
    run kind delete cluster --name "$CLUSTER_NAME"
  fi
}
