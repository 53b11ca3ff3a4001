# shellcheck shell=bash
# A kernel of a given version, beside those that are there.

# ensure_kernel installs the kernel and makes it the next one to boot. The reboot is
# the caller's, who can wait for it: the marker asks for it, and names the boot that
# is to end. Who asked before, and finds another kernel after that, has failed.
ensure_kernel() {
  local boot asked=$STATE_DIR/kernel-reboot marker=$RUN_DIR/reboot-required
  boot=$(cat "$ROOT/proc/sys/kernel/random/boot_id")
  if [[ $(uname -r) == "$KERNEL_VERSION" ]]; then
    rm -f "$asked" "$marker"
    log "kernel $KERNEL_VERSION runs"
    return
  fi
  if [[ -e $asked && $(<"$asked") != "$boot $KERNEL_VERSION" && $(<"$asked") == *" $KERNEL_VERSION" ]]; then
    rm -f "$asked" "$marker"
    die "$EXIT_VERIFY" "the machine has rebooted with kernel $(uname -r), want $KERNEL_VERSION"
  fi
  case $FAMILY in
    apt)
      ensure_packages "$EXIT_DEPENDENCY" "linux-image-$KERNEL_VERSION" '' '' "linux-headers-$KERNEL_VERSION" '' '' \
        "linux-modules-$KERNEL_VERSION" '' '' "linux-modules-extra-$KERNEL_VERSION" '' ''
      # By name: what is wanted may be older than what would be booted by itself.
      put "$ROOT/etc/default/grub.d/90-kubeopera.cfg" \
        "GRUB_DEFAULT=\"Advanced options for Ubuntu>Ubuntu, with Linux $KERNEL_VERSION\""$'\n'
      run update-grub
      ;;
    dnf)
      if [[ ! -e $ROOT/boot/vmlinuz-$KERNEL_VERSION ]]; then
        dnf_ install "kernel-$KERNEL_VERSION" "kernel-devel-$KERNEL_VERSION" ||
          die "$EXIT_DEPENDENCY" "cannot install kernel $KERNEL_VERSION; no other version is taken instead"
      fi
      run grubby --set-default "/boot/vmlinuz-$KERNEL_VERSION"
      ;;
  esac
  printf '%s' "$boot $KERNEL_VERSION" >"$asked"
  printf '%s\n' "$boot" >"$marker"
  log "kernel $KERNEL_VERSION is installed and needs a reboot"
}
