# shellcheck shell=bash
# shellcheck disable=SC2034 # which of them are used depends on the step
# Where software comes from and how each piece is verified: the same sources as
# those of modules/compute/bootstrap/versions.env, and of the files that it has not.

KUBERNETES_APT_URL=https://pkgs.k8s.io/core:/stable:
KUBERNETES_RPM_URL=https://pkgs.k8s.io/core:/stable:
KUBERNETES_KEY_FINGERPRINT=DE15B14486CD377B9E876E1A234654DA9A296436

DOCKER_APT_URL=https://download.docker.com/linux/ubuntu
DOCKER_KEY_FINGERPRINT=9DC858229FC7DD38854AE2D88D81803C0EBFCD88
DOCKER_RPM_URL=https://download.docker.com/linux/rhel
DOCKER_RPM_KEY_FINGERPRINT=060A61C51B558A7F742B77AAC52FEB6B621E9F35
# What is taken when no version is asked for: Kubernetes 1.36 needs containerd 2.
CONTAINERD_VERSION='2.*'

CRIO_URL=https://download.opensuse.org/repositories/isv:/cri-o:/stable:
CRIO_KEY_FINGERPRINT=85B67D5C50100B1AC8CEFE49CBA9C85640A2B579

NVIDIA_CUDA_URL=https://developer.download.nvidia.com/compute/cuda/repos
CUDA_APT_KEY_FINGERPRINT=EB693B3035CD5710E231E123A4B469963BF863CC
CUDA_RPM_KEY_FINGERPRINT=610C7B14E068A878070DA4E99CD0A493D42D0685

TOOLKIT_URL=https://nvidia.github.io/libnvidia-container
TOOLKIT_KEY_FINGERPRINT=C95B321B61E88C1809C4F759DDCAE044F796ECB0

# Releases without a signed repository, by the sums of their files.
CRI_DOCKERD_VERSION=0.3.24
CRI_DOCKERD_URL=https://github.com/Mirantis/cri-dockerd/releases/download/v0.3.24/cri-dockerd-0.3.24.
CRI_DOCKERD_SHA256_AMD64=dd4b7f514c248a3aaca398f467430a4c58aae9a77ea8b96a2f5b5d6fba0948d1
CRI_DOCKERD_SHA256_ARM64=c783a03735887c4a8fc894bd4cf7a1c0defef3ecf50a4d79ff31eed45c26b17e
KIND_VERSION=0.30.0
KIND_URL=https://kind.sigs.k8s.io/dl/v0.30.0/kind-linux-
KIND_SHA256_AMD64=517ab7fc89ddeed5fa65abf71530d90648d9638ef0c4cde22c2c11f8097b8889
KIND_SHA256_ARM64=7ea2de9d2d190022ed4a8a4e3ac0636c8a455e460b9a13ccf19f15d07f4f00eb

CALICO_CRDS_URL=https://raw.githubusercontent.com/projectcalico/calico/v3.32.1/manifests/operator-crds.yaml
CALICO_CRDS_SHA256=192f8b2d934ef24b62e86b7e1a6e1762d1c8af26a916f78057bc13fa5ed60f71
CALICO_OPERATOR_URL=https://raw.githubusercontent.com/projectcalico/calico/v3.32.1/manifests/tigera-operator.yaml
CALICO_OPERATOR_SHA256=f18e073794207d372606bc3ea6f8fd73972f86d6828f4ba666dfe0d4aa8ab07f

# load_settings lets the machine's administrator, or a simulator, change the above:
# for mirrors, proxies and machines without a way out.
load_settings() {
  local override=$ETC_DIR/bootstrap.override
  if [[ -f $override && -O $override ]]; then
    set -a
    # shellcheck source=/dev/null
    . "$override"
    set +a
  fi
  POLL_SECONDS=${KUBEOPERA_POLL_SECONDS:-5}
  RETRY_SECONDS=${KUBEOPERA_RETRY_SECONDS:-$POLL_SECONDS}
  READY_SECONDS=${KUBEOPERA_READY_SECONDS:-600}
  # How long what has been there before may take until it answers: after a reboot.
  SETTLE_SECONDS=${KUBEOPERA_SETTLE_SECONDS:-90}
  JOIN_ATTEMPTS=${KUBEOPERA_JOIN_ATTEMPTS:-3}
  LOCAL_API=${KUBEOPERA_LOCAL_API:-https://127.0.0.1:6443}
  ADDONS=${KUBEOPERA_ADDONS-calico}
}
