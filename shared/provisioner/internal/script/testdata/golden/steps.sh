## kernel, at most 30m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=4 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KERNEL_VERSION='6.8.0-50-generic'

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_kernel
  exit 0
}
main

## driver, at most 1h0m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=10 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
DRIVER_INSTALL='packages'
DRIVER_BRANCH='580'
DRIVER_VERSION=''
RUNFILE_URL=''
RUNFILE_SHA256=''

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_driver
  exit 0
}
main

## container runtime, at most 30m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=11 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
RUNTIME_VERSION=''
CRIO_MINOR=''
NEEDS_CRI='1'

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_containerd
  exit 0
}
main

## container runtime, at most 30m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=11 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
RUNTIME_VERSION=''
CRIO_MINOR=''
NEEDS_CRI='1'

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_docker
  exit 0
}
main

## container runtime, at most 30m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=11 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
RUNTIME_VERSION='1.36.*'
CRIO_MINOR='1.36'
NEEDS_CRI='1'

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_crio
  exit 0
}
main

## container toolkit, at most 20m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=12 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
TOOLKIT_CHANNEL='stable'
TOOLKIT_VERSION=''
RUNTIME='crio'
ENABLE_CDI=''

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_toolkit
  exit 0
}
main

## kubernetes, at most 1h0m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CLUSTER_NAME='env'
KIND_CONFIG=''

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_kind
  exit 0
}
main

## kubeconfig, at most 5m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
CLUSTER_NAME='env'

…
main() {
  load_settings
  identify_host
  print_kind_conf
  exit 0
}
main

## kubernetes reset, at most 20m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
CLUSTER_NAME='env'

…
main() {
  begin
  identify_host
  reset_kind
  exit 0
}
main

## kubernetes, at most 1h0m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
MICROK8S_CHANNEL='1.36/stable'

…
main() {
  begin
  identify_host
  wait_for_boot
  ensure_microk8s
  exit 0
}
main

## kubeconfig, at most 5m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
MICROK8S_CHANNEL='1.36/stable'

…
main() {
  load_settings
  identify_host
  print_microk8s_conf
  exit 0
}
main

## kubernetes reset, at most 20m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
MICROK8S_CHANNEL='1.36/stable'

…
main() {
  begin
  identify_host
  reset_microk8s
  exit 0
}
main

## kubernetes, at most 1h0m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='control-plane'
KUBEADM_CONFIG='apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: '\''@ADDRESS@'\''
  bindPort: 6443
nodeRegistration:
  criSocket: unix:///run/crio/crio.sock
  kubeletExtraArgs:
  - name: node-ip
    value: '\''@ADDRESS@'\''
  taints: []
timeouts:
  controlPlaneComponentHealthCheck: 6m0s
  discovery: 5m0s
  etcdAPICall: 4m0s
  tlsBootstrap: 5m0s
---
apiServer:
  certSANs:
  - 127.0.0.1
  - localhost
  - node.example.com
apiVersion: kubeadm.k8s.io/v1beta4
clusterName: env
encryptionAlgorithm: ECDSA-P256
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  podSubnet: 192.168.0.0/16
  serviceSubnet: 10.96.0.0/12
---
apiVersion: kubelet.config.k8s.io/v1beta1
cgroupDriver: systemd
kind: KubeletConfiguration
'
ENDPOINT_HOST=''
POD_SUBNET='192.168.0.0/16'

…
main() {
  begin
  identify_host
  wait_for_boot
  prepare_node
  identify_node
  init_cluster
  finish_init
  exit 0
}
main

## kubeconfig, at most 5m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='worker'

…
main() {
  load_settings
  identify_host
  print_admin_conf
  exit 0
}
main

## kubernetes reset, at most 20m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='worker'

…
main() {
  begin
  identify_host
  reset_node
  exit 0
}
main

## kubernetes prerequisites, at most 40m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='worker'

…
main() {
  begin
  identify_host
  wait_for_boot
  prepare_node
  exit 0
}
main

## kubernetes init, at most 1h0m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME='node-1'
NODE_ADDRESS='10.0.0.5'
ROLE='control-plane'
KUBEADM_CONFIG='apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: '\''@ADDRESS@'\''
  bindPort: 6443
nodeRegistration:
  criSocket: unix:///run/crio/crio.sock
  kubeletExtraArgs:
  - name: node-ip
    value: '\''@ADDRESS@'\''
  name: node-1
  taints: []
timeouts:
  controlPlaneComponentHealthCheck: 6m0s
  discovery: 5m0s
  etcdAPICall: 4m0s
  tlsBootstrap: 5m0s
---
apiServer:
  certSANs:
  - 127.0.0.1
  - localhost
apiVersion: kubeadm.k8s.io/v1beta4
clusterName: env
controlPlaneEndpoint: k8s.example.com:6443
encryptionAlgorithm: ECDSA-P256
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  podSubnet: 192.168.0.0/16
  serviceSubnet: 10.96.0.0/12
---
apiVersion: kubelet.config.k8s.io/v1beta1
cgroupDriver: systemd
kind: KubeletConfiguration
'
ENDPOINT_HOST='k8s.example.com'
POD_SUBNET='192.168.0.0/16'

…
main() {
  begin
  identify_host
  wait_for_boot
  prepare_node
  identify_node
  init_cluster
  finish_init
  exit 0
}
main

## kubernetes join data, at most 10m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='control-plane'
UPLOAD_CERTIFICATES=''
TOKEN_TTL='1h0m0s'
KUBEADM_CONFIG=''

…
main() {
  load_settings
  identify_host
  print_join_data
  exit 0
}
main

## kubernetes join data, at most 10m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='control-plane'
UPLOAD_CERTIFICATES='1'
TOKEN_TTL='1h0m0s'
KUBEADM_CONFIG='apiVersion: kubeadm.k8s.io/v1beta4
certificateKey: '\''@CERTIFICATE_KEY@'\''
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: '\''@ADDRESS@'\''
  bindPort: 6443
nodeRegistration:
  criSocket: unix:///run/crio/crio.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
'

…
main() {
  load_settings
  identify_host
  print_join_data
  exit 0
}
main

## kubernetes join control plane, at most 1h15m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME='node-1'
NODE_ADDRESS='10.0.0.5'
ROLE='control-plane'
KUBEADM_CONFIG='apiVersion: kubeadm.k8s.io/v1beta4
controlPlane:
  certificateKey: '\''@CERTIFICATE_KEY@'\''
  localAPIEndpoint:
    advertiseAddress: '\''@ADDRESS@'\''
    bindPort: 6443
discovery:
  bootstrapToken:
    apiServerEndpoint: k8s.example.com:6443
    caCertHashes:
    - sha256:a584a1620277edcd00da64a90336850db47f5916012432beb8b018e9b1b38252
    token: '\''@TOKEN@'\''
kind: JoinConfiguration
nodeRegistration:
  criSocket: unix:///run/crio/crio.sock
  kubeletExtraArgs:
  - name: node-ip
    value: '\''@ADDRESS@'\''
  name: node-1
  taints: []
timeouts:
  controlPlaneComponentHealthCheck: 6m0s
  discovery: 5m0s
  etcdAPICall: 4m0s
  tlsBootstrap: 5m0s
'
CA_HASH='sha256:a584a1620277edcd00da64a90336850db47f5916012432beb8b018e9b1b38252'
JOIN_SECRETS=('TOKEN' 'CERTIFICATE_KEY')

…
main() {
  begin
  identify_host
  wait_for_boot
  prepare_node
  identify_node
  join_cluster
  exit 0
}
main

## kubernetes join worker, at most 1h15m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME='node-1'
NODE_ADDRESS='10.0.0.5'
ROLE='worker'
KUBEADM_CONFIG='apiVersion: kubeadm.k8s.io/v1beta4
discovery:
  bootstrapToken:
    apiServerEndpoint: k8s.example.com:6443
    caCertHashes:
    - sha256:a584a1620277edcd00da64a90336850db47f5916012432beb8b018e9b1b38252
    token: '\''@TOKEN@'\''
kind: JoinConfiguration
nodeRegistration:
  criSocket: unix:///run/crio/crio.sock
  kubeletExtraArgs:
  - name: node-ip
    value: '\''@ADDRESS@'\''
  name: node-1
timeouts:
  controlPlaneComponentHealthCheck: 6m0s
  discovery: 5m0s
  etcdAPICall: 4m0s
  tlsBootstrap: 5m0s
'
CA_HASH='sha256:a584a1620277edcd00da64a90336850db47f5916012432beb8b018e9b1b38252'
JOIN_SECRETS=('TOKEN')

…
main() {
  begin
  identify_host
  wait_for_boot
  prepare_node
  identify_node
  join_cluster
  exit 0
}
main

## kubernetes forget node, at most 10m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=13 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
KUBERNETES_VERSION='1.36.3'
CRI_SOCKET='unix:///run/crio/crio.sock'
CRICTL_VERSION=''
CNI_PLUGINS_VERSION=''
WANT_ARCH=''
NODE_NAME=''
NODE_ADDRESS=''
ROLE='control-plane'
FORGET_NAME='gone'
FORGET_ADDRESS='10.0.0.9'

…
main() {
  begin
  identify_host
  forget_node
  exit 0
}
main

## observe, at most 5m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=1 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''

…
main() {
  load_settings
  identify_host
  print_observation
  exit 0
}
main

## template t, at most 12m0s
#! /usr/bin/env bash
set -xe
{ set +x; } 2>/dev/null
CLASS=1 EXIT_OTHER=1 EXIT_INPUT=2 EXIT_DEPENDENCY=4 EXIT_VERIFY=5 EXIT_DRIVER=10 EXIT_RUNTIME=11 EXIT_TOOLKIT=12 EXIT_KUBERNETES=13
CHANGED='' API_SERVER=''
TEMPLATE_ID='e3b98a4da31a127d4bde6e43033f66ba'
TEMPLATE_NAME='t'
TEMPLATE_TIMEOUT='600'
TEMPLATE_CONTENT='echo it'\''s
'

…
main() {
  begin
  identify_host
  run_template
  exit 0
}
main

