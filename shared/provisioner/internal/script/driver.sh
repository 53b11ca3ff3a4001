# shellcheck shell=bash
# The NVIDIA driver.

# driver_version is that of the driver that is loaded; nothing if none is.
driver_version() {
  local text
  # Without a driver it is not there, or says so on standard output.
  text=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null || true)
  if [[ ! $text =~ ^[0-9]+\.[0-9.]+($|$'\n') ]]; then
    return
  fi
  printf '%s' "${text%%$'\n'*}"
}

driver_fits() {
  local version
  version=$(driver_version)
  if [[ -z $version ]]; then
    return 1
  fi
  if [[ -n $DRIVER_VERSION ]]; then
    [[ $version == "$DRIVER_VERSION" ]]
  elif [[ -n $DRIVER_BRANCH ]]; then
    [[ $version == "$DRIVER_BRANCH".* ]]
  fi
}

add_cuda_repository() {
  local machine=x86_64
  if [[ $ARCH == arm64 ]]; then
    machine=sbsa
  fi
  case $FAMILY in
    apt)
      add_apt_repository cuda "$NVIDIA_CUDA_URL/$OS/$machine/3bf863cc.pub" "$CUDA_APT_KEY_FINGERPRINT" "$NVIDIA_CUDA_URL/$OS/$machine/ /"
      ;;
    dnf)
      add_dnf_repository cuda "$NVIDIA_CUDA_URL/$OS/$machine/D42D0685.pub" "$CUDA_RPM_KEY_FINGERPRINT" "$NVIDIA_CUDA_URL/$OS/$machine/"
      ;;
  esac
}

# ensure_kernel_headers installs what modules are built with, for the kernel that
# runs. dkms is in EPEL for Rocky Linux.
ensure_kernel_headers() {
  case $FAMILY in
    apt) ensure_packages "$EXIT_DEPENDENCY" "linux-headers-$(uname -r)" '' '' gcc '' '' make '' '' ;;
    dnf)
      if [[ $OS == rhel9 ]]; then
        ensure_packages "$EXIT_DEPENDENCY" epel-release '' ''
      fi
      dnf_ install "kernel-devel-$(uname -r)" gcc make dkms ||
        die "$EXIT_DEPENDENCY" "cannot install what the driver's modules are built with"
      ;;
  esac
}

# install_driver_packages installs the open kernel modules, which NVIDIA's packages
# prefer since 560, with all that belongs to them.
install_driver_packages() {
  add_cuda_repository
  case $FAMILY in
    apt)
      # The pinning package keeps apt at that branch or version, for all parts.
      ensure_packages "$EXIT_DRIVER" "nvidia-driver-pinning-${DRIVER_VERSION:-$DRIVER_BRANCH}" '' ''
      apt update || die "$EXIT_DEPENDENCY" "the package lists cannot be updated"
      apt install --allow-downgrades nvidia-open || die "$EXIT_DRIVER" "cannot install nvidia-open"
      ;;
    dnf)
      dnf_ module reset nvidia-driver || die "$EXIT_DRIVER" "cannot reset the module nvidia-driver"
      dnf_ module enable "nvidia-driver:${DRIVER_BRANCH:-${DRIVER_VERSION%%.*}}-open" || die "$EXIT_DRIVER" "there is no such branch of the driver"
      if [[ -n $DRIVER_VERSION ]]; then
        dnf_ install "nvidia-driver-cuda-$DRIVER_VERSION" "kmod-nvidia-open-dkms-$DRIVER_VERSION" ||
          die "$EXIT_DRIVER" "cannot install driver $DRIVER_VERSION; no other version is taken instead"
      else
        dnf_ install nvidia-open || die "$EXIT_DRIVER" "cannot install nvidia-open"
      fi
      ;;
  esac
}

install_driver_runfile() {
  fetch "$RUNFILE_URL" "$RUNFILE_SHA256" "$WORK/driver.run"
  case $FAMILY in
    apt) ensure_packages "$EXIT_DEPENDENCY" dkms '' '' ;;
    dnf) ;; # with the headers
  esac
  run sh "$WORK/driver.run" --silent --dkms || die "$EXIT_DRIVER" "the driver's installer failed; see /var/log/nvidia-installer.log"
  put "$STATE_DIR/driver-runfile" "$RUNFILE_SHA256"$'\n'
}

# driver_is_there knows a runfile's version only by the file that was installed.
driver_is_there() {
  if [[ $DRIVER_INSTALL == runfile ]]; then
    same_content "$STATE_DIR/driver-runfile" "$RUNFILE_SHA256"$'\n' && [[ -n $(driver_version) ]]
  else
    driver_fits
  fi
}

ensure_driver() {
  if ! has_gpu; then
    log "skipped: this machine has no NVIDIA device, so it gets no driver"
    return
  fi
  if driver_is_there; then
    log "driver $(driver_version) is there"
    return
  fi
  ensure_tools
  ensure_kernel_headers
  "install_driver_$DRIVER_INSTALL"
  run modprobe nvidia || log "the module cannot be loaded yet"
  verify_driver
}

verify_driver() {
  if ! has_gpu; then
    log "skipped: this machine has no NVIDIA device"
    return
  fi
  if [[ -z $(driver_version) ]]; then
    die "$EXIT_DRIVER" "the driver is installed, but nvidia-smi finds no device; a module that is loaded already, Secure Boot or another kernel may be why"
  fi
  if ! driver_fits; then
    die "$EXIT_VERIFY" "driver $(driver_version) is loaded, want ${DRIVER_VERSION:-branch $DRIVER_BRANCH}"
  fi
  log "driver $(driver_version) is loaded"
}
