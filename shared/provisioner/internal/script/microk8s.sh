# shellcheck shell=bash
# Kubernetes from the snap microk8s, whose publisher's signature snapd verifies.

# microk8s_channel is that from which the snap is; nothing if it is not there.
microk8s_channel() {
  local text
  text=$(snap list microk8s 2>/dev/null || true)
  awk 'NR == 2 { print $4 }' <<<"$text"
}

ensure_microk8s() {
  local channel
  if [[ $FAMILY != apt ]]; then
    die "$EXIT_INPUT" "microk8s is supported on Ubuntu only: other systems have no snaps"
  fi
  channel=$(microk8s_channel)
  if [[ -z $channel ]]; then
    retry 5 snap install microk8s --classic "--channel=$MICROK8S_CHANNEL"
  elif [[ $channel != "$MICROK8S_CHANNEL" ]]; then
    retry 5 snap refresh microk8s --classic "--channel=$MICROK8S_CHANNEL"
  fi
  run microk8s status --wait-ready --timeout 600
  run microk8s enable dns
  verify_microk8s
}

verify_microk8s() {
  if [[ $(microk8s_channel) != "$MICROK8S_CHANNEL" ]]; then
    die "$EXIT_VERIFY" "microk8s is from channel $(microk8s_channel), want $MICROK8S_CHANNEL"
  fi
  if ! microk8s status --wait-ready --timeout 60 >&2; then
    die "$EXIT_KUBERNETES" "microk8s does not run"
  fi
}

print_microk8s_conf() { microk8s config; }

reset_microk8s() {
  if [[ -n $(microk8s_channel) ]]; then
    run snap remove --purge microk8s
  fi
}
