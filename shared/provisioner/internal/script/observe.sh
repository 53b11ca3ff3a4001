# shellcheck shell=bash
# What is on this machine, whoever has put it there.

# json_string prints a text as a JSON string; control characters are left out.
json_string() {
  local text
  text=$(printf '%s' "$1" | tr -d '\000-\037')
  text=${text//\\/\\\\}
  printf '"%s"' "${text//\"/\\\"}"
}

# field prints one member of an object, with a comma before all but the first.
field() {
  printf '%s"%s":' "$SEPARATOR" "$1"
  json_string "$2"
  SEPARATOR=,
}

print_observation() {
  local version gpu=false
  if has_gpu; then
    gpu=true
  fi
  SEPARATOR=
  printf '{'
  # shellcheck source=/dev/null
  field os "$(. "$ROOT/etc/os-release" && printf '%s %s' "$ID" "$VERSION_ID")"
  field kernel "$(uname -r)"
  field architecture "$ARCH"
  field bootID "$(cat "$ROOT/proc/sys/kernel/random/boot_id")"
  field driver "$(driver_version)"
  field containerd "$(containerd_version)"
  field docker "$(docker_version)"
  field criDockerd "$(if command -v cri-dockerd >/dev/null; then cri_dockerd_version; fi)"
  field crio "$(crio_version)"
  field toolkit "$(toolkit_version)"
  version=$(kubelet --version 2>/dev/null) || version=
  field kubelet "${version##* v}"
  version=$(kubeadm version -o short 2>/dev/null) || version=
  field kubeadm "${version#v}"
  field kind "$(kind_version)"
  field microk8s "$(microk8s_channel)"
  printf ',"gpu":%s}\n' "$gpu"
}
