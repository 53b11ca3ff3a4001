# shellcheck shell=bash
# The NVIDIA container toolkit.

toolkit_version() { word 6 nvidia-ctk --version; }

# runtime_configuration is a sum of what nvidia-ctk may write.
runtime_configuration() {
  cat "$ROOT"/etc/{containerd/config.toml,containerd/conf.d/*,docker/daemon.json,crio/crio.conf.d/*} 2>/dev/null | sha256sum || true
}

ensure_toolkit() {
  local name packages=() before options=()
  ensure_tools
  case $FAMILY in
    apt)
      add_apt_repository toolkit "$TOOLKIT_URL/gpgkey" "$TOOLKIT_KEY_FINGERPRINT" "$TOOLKIT_URL/$TOOLKIT_CHANNEL/deb/$ARCH /"
      ;;
    dnf)
      add_dnf_repository toolkit "$TOOLKIT_URL/gpgkey" "$TOOLKIT_KEY_FINGERPRINT" "$TOOLKIT_URL/$TOOLKIT_CHANNEL/rpm/$(uname -m)" metadata
      ;;
  esac
  for name in nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1; do
    packages+=("$name" "$TOOLKIT_VERSION" '')
  done
  ensure_packages "$EXIT_TOOLKIT" "${packages[@]}"
  if [[ -n $RUNTIME ]]; then
    if [[ -n $ENABLE_CDI ]]; then
      options=(--cdi.enabled)
    fi
    before=$(runtime_configuration)
    run nvidia-ctk runtime configure "--runtime=$RUNTIME" --set-as-default ${options[@]+"${options[@]}"}
    if [[ $(runtime_configuration) != "$before" ]]; then
      run systemctl restart "$RUNTIME"
    fi
  fi
  verify_toolkit
}

verify_toolkit() {
  require_version nvidia-ctk "$(toolkit_version)" "$TOOLKIT_VERSION"
  if [[ -n $RUNTIME ]]; then
    require_active "$RUNTIME" "$EXIT_TOOLKIT"
  fi
  log "container toolkit $(toolkit_version) is there"
}
