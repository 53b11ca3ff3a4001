# shellcheck shell=bash
# What kubeadm is configured with: API v1beta4, whose extra arguments are lists.
# The functions only print; tests print them too, and let kubeadm judge.

# node_registration is indented for its place in the documents.
node_registration() {
  cat <<END
nodeRegistration:
  name: "$NODE_NAME"
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs:
    - name: cloud-provider
      value: external
    # With its id the cloud controller finds the machine whatever the node is called.
    - name: provider-id
      value: aws:///$ZONE/$INSTANCE_ID
    # Without it a node has no address until the cloud controller runs.
    - name: node-ip
      value: $NODE_IP
END
}

# A new load balancer needs minutes until its name resolves and its targets answer.
timeouts() {
  cat <<END
timeouts:
  controlPlaneComponentHealthCheck: 6m0s
  etcdAPICall: 4m0s
  discovery: 10m0s
  tlsBootstrap: 10m0s
END
}

# kubeadm_init_config prints the first control plane's configuration.
#   kubeadm_init_config [certificate key]
kubeadm_init_config() {
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
END
  if [[ -n ${1:-} ]]; then
    # In quotes: some keys would be numbers without.
    printf 'certificateKey: "%s"\n' "$1"
  fi
  cat <<END
localAPIEndpoint:
  advertiseAddress: $NODE_IP
  bindPort: 6443
$(node_registration)
$(timeouts)
---
$(cluster_configuration)
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
END
}

cluster_configuration() {
  local names name
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: "$KUBEOPERA_CLUSTER_NAME"
kubernetesVersion: v$KUBEOPERA_KUBERNETES_VERSION
controlPlaneEndpoint: "$ENDPOINT"
# An RSA kubeconfig would not fit into its parameter.
encryptionAlgorithm: ECDSA-P256
networking:
  podSubnet: $KUBEOPERA_POD_CIDR
  serviceSubnet: $KUBEOPERA_SERVICE_CIDR
apiServer:
  certSANs:
    # kubeadm adds neither of the two by itself.
    - 127.0.0.1
    - localhost
END
  IFS=, read -r -a names <<<"${KUBEOPERA_CERT_SANS:-}"
  for name in ${names[@]+"${names[@]}"}; do
    printf '    - "%s"\n' "${name,,}"
  done
  cat <<END
controllerManager:
  extraArgs:
    - name: cloud-provider
      value: external
END
}

# kubeadm_join_config prints the configuration of a node that joins; with a
# certificate key it joins as a control plane.
#   kubeadm_join_config <endpoint> <token> <CA hash> [certificate key]
kubeadm_join_config() {
  cat <<END
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: "$1"
    token: "$2"
    caCertHashes:
      - "$3"
END
  if [[ -n ${4:-} ]]; then
    cat <<END
controlPlane:
  certificateKey: "$4"
  localAPIEndpoint:
    advertiseAddress: $NODE_IP
    bindPort: 6443
END
  fi
  cat <<END
$(node_registration)
$(timeouts)
END
}
